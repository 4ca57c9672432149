"""Pictures of result files: ``python benchmarks/plot.py [RESULTS.json …] [--out DIR]``; default: those that
docs/benchmarks.md shows.

<family>_ratio.svg: the peer's time over ours, a bar a problem. <family>_roof.svg: TFLOP/s over operations a
byte, under the roofs of the card. Needs matplotlib.
"""
from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from cydnn.bench.run import TFLOPS                             # noqa: E402
from cydnn.device.facts import KNOWN                           # noqa: E402

RESULTS = HERE / "results"
SHOWN = ("conv_resnet50_bf16", "conv_resnet50_f16", "matmul_shapes")
MOST_BYTES, MOST_BARS = 60_000, 44              # of a picture; of a panel
BETTER, WORSE, THEIRS = "#2a7f62", "#c0504d", "#7f7f7f"
SMALLER = ((r"(\d+\.\d{2})\d+", r"\1"), (r"font-family: [^;\"]*", "font-family: sans-serif"),
           (r"<!--.*?-->\s*", ""), (r' (?:clip-path|transform)="(?:url|rotate\(-0)[^"]*"', ""),
           (r' id="(?:patch|line2d|text|[xy]tick|PathCollection)_\d+"', ""), (r"\n\s*", "\n"))
COLOURS = {"conv_fprop": "#2a7f62", "conv_dgrad": "#3b6ea8", "conv_wgrad": "#b8860b", "matmul": "#2a7f62"}


def rows_of(path: Path) -> list[dict]:
    """The rows that were timed."""
    return [row for row in json.loads(path.read_text()) if row.get("us")]


def short(problem: str) -> str:
    """A problem in a few letters: sizes only."""
    if problem.startswith("matmul"):
        sizes = re.findall(r"(?<![\w@,])(?:\w=)?(\d+(?:x\d+)+)(?::\w+)?(@)?", problem)
        (a, a_moved), (b, b_moved) = sizes[:2]
        *batch, m, k = a.split("x")
        layout = ("t" if a_moved else "n") + ("t" if b_moved else "n")
        kind = "" if "bf16" in problem else " f16"
        return f"{''.join(f'{n}·' for n in batch)}{m}×{b.split('x')[-1]}×{k} {layout}{kind}"
    found = re.search(r"c(\d+)h(\d+)\w* k(\d+)r(\d+)\w*(?:.*?stride(\d+))?", problem)
    stride = f"/{found[5]}" if found[5] not in (None, "1") else ""
    return f"{found[4]}×{found[4]}{stride} {found[1]}→{found[3]} {found[2]}²"


def panels_of(rows) -> list:
    """(title, [(ratio, problem)]), the worst first: one an op, several where there are many."""
    groups: dict = {}
    for row in rows:
        if row.get("ratio"):
            groups.setdefault(row["problem"].split()[0], []).append((row["ratio"], short(row["problem"])))
    every = [(op, sorted(found)) for op, found in groups.items()]
    return [(op, found[i:i + MOST_BARS]) for op, found in every for i in range(0, len(found), MOST_BARS)]


def ratio(pyplot, family, rows, out) -> Path:
    """A bar a problem, the worst on top."""
    every = panels_of(rows)
    tall, most = max(len(found) for _, found in every), max(found[-1][0] for _, found in every)
    size = (4.2 * len(every), 0.8 + 0.13 * tall)
    figure, panels = pyplot.subplots(1, len(every), figsize=size, squeeze=False)
    for panel, (op, found) in zip(panels[0], every):
        ratios, names = zip(*found)
        colours = [BETTER if r >= 1 else WORSE for r in ratios]
        panel.barh(range(len(ratios)), ratios, color=colours, height=0.7)
        panel.set_yticks(range(len(names)), names, fontsize=6)
        panel.set_ylim(tall - 0.3, -0.7)
        panel.set_xlim(0, min(most, 3) * 1.05)
        panel.axvline(1, color="black", linewidth=0.7)
        panel.set_title(f"{op}, {family}", fontsize=8)
        panel.set_xlabel("the peer's time / ours", fontsize=7)
        panel.tick_params(axis="x", labelsize=6), panel.tick_params(axis="y", left=False)
    return saved(pyplot, figure, out / f"{family}_ratio.svg")


def roofline(pyplot, family, rows, out) -> Path:
    """TFLOP/s over operations a byte; a grey ring is the peer."""
    kind = "bf16" if "bf16" in rows[0]["problem"] else "f16"
    card, top = KNOWN["h200"], TFLOPS[kind]
    figure, panel = pyplot.subplots(figsize=(5.2, 3.6))
    for op in dict.fromkeys(row["problem"].split()[0] for row in rows):
        some = [row for row in rows if row["problem"].split()[0] == op and row["tflops"] and row["gbs"]]
        x, y = [1e3 * row["tflops"] / row["gbs"] for row in some], [row["tflops"] for row in some]
        panel.scatter(x, y, s=9, color=COLOURS.get(op, BETTER), label=op, zorder=3)
        theirs = [(a, row["tflops"] * row["us"] / row["peer_us"]) for a, row in zip(x, some)
                  if row.get("peer_us")]
        panel.scatter(*zip(*theirs), s=12, facecolors="none", edgecolors=THEIRS, linewidths=0.5)
    x = [row["tflops"] * 1e3 / row["gbs"] for row in rows if row["gbs"] and row["tflops"]]
    least, edge, most = min(x) / 2, 1e3 * top / card.bandwidth_gbs, max(max(x), 1000) * 2
    panel.plot([least, edge, most], [least * card.bandwidth_gbs * 1e-3, top, top], color="black",
               linewidth=0.8)
    panel.set_xscale("log"), panel.set_yscale("log")
    panel.set_xlabel("operations a byte", fontsize=7), panel.set_ylabel("TFLOP/s", fontsize=7)
    panel.set_title(f"{family}; grey: the peer; line: {card.bandwidth_gbs / 1e3:.1f} TB/s, {top:.0f} TFLOP/s",
                    fontsize=8)
    panel.tick_params(labelsize=6), panel.legend(fontsize=6, loc="lower right")
    return saved(pyplot, figure, out / f"{family}_roof.svg")


def saved(pyplot, figure, path: Path) -> Path:
    """The same bytes for the same numbers; text stays text."""
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
    text = path.read_text()
    for pattern, other in SMALLER:
        text = re.sub(pattern, other, text)
    path.write_text(text)
    if path.stat().st_size > MOST_BYTES:
        raise SystemExit(f"plot: {path} must be at most {MOST_BYTES} bytes; it has {path.stat().st_size}")
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", nargs="*", type=Path, help="files that benchmarks/run.py wrote")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    try:
        import matplotlib
    except ModuleNotFoundError as error:
        raise SystemExit(f"plot: needs the package matplotlib (pip install 'cydnn[demo]'); {error}") from None
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "cydnn", "font.family": "sans-serif"})
    from matplotlib import pyplot
    args.out.mkdir(parents=True, exist_ok=True)
    given = args.results or [p for p in (RESULTS / f"{name}.json" for name in SHOWN) if p.is_file()]
    for path in given:
        rows = rows_of(path)
        print(ratio(pyplot, path.stem, rows, args.out))
        print(roofline(pyplot, path.stem, rows, args.out))


if __name__ == "__main__":
    main()
