"""The scripts of benchmarks/, as far as they go without a GPU."""
from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cydnn import bench, device as devices
from cydnn.device.facts import KNOWN
from cydnn.engines import Config
from cydnn.engines.tile import cost
from cydnn.graph import Match
from cydnn.heuristics import Wish, best
from cydnn.ops import Problem

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import fit              # noqa: E402
import fused            # noqa: E402
import plot             # noqa: E402
import rising           # noqa: E402
import sums             # noqa: E402
import tiles            # noqa: E402
import tuned            # noqa: E402

H200 = KNOWN["h200"]
LINES = ("conv_fprop n32c256h14w14 k256r3s3 pad1 stride1 f16 acc=f32 nhwc",
         "conv_dgrad n32c512h7w7 k2048r1s1 pad0 stride1 f16 acc=f32 nhwc",
         "conv_wgrad n256c64h56w56 k64r3s3 pad1 stride1 bf16 acc=f32 nhwc",
         "matmul 4096x4096 4096x4096 bf16", "matmul 64x4096 4096x4096 bf16")


@pytest.fixture
def constants():
    """Those of the model, put back behind a test."""
    old = {name: fit.get(name) for name in fit.names()}
    yield old
    for name, value in old.items():
        fit.put(name, value)


def candidates(line):
    problem = Problem.parse(line)
    part = best(bench.graph_of(problem), H200).parts[0]
    return tiles.candidates(problem, H200, (part.engine, part.config), 12)


def measured(folder, lines):
    """A table whose times are those of the models as they are."""
    place = folder / "tiles_made.csv"
    with open(place, "w", newline="") as file:
        table = csv.DictWriter(file, tiles.FIELDS)
        table.writeheader()
        for line in lines:
            table.writerows(dict(problem=line, engine=c.engine.index, config=str(c.config), band=0,
                                 us=c.model_us, verdict="ok") for c in candidates(line))
    return place


def test_candidates_are_the_choice_first_and_each_once():
    for line in LINES:
        found = candidates(line)
        mine = [c for c in found if c.engine.index not in tiles.BESIDE.values()]
        assert len(set(map(str, found))) == len(found)
        engine, taken = found[0].engine, Match.single(bench.graph_of(Problem.parse(line)))
        assert {c.config.get("tile") for c in mine} >= {c.get("tile") for c in engine.configs(taken, H200)}
        assert found[0].model_us <= min(c.model_us for c in found) * 1.0001
        assert found[-1].engine.index == tiles.BESIDE[line.split()[0]]


@pytest.mark.parametrize("line, index", [
    ("conv_fprop n256c64h56w56 k64r3s3 pad1 stride1 bf16 acc=f32 nhwc", 119),
    ("conv_dgrad n256c64h56w56 k64r3s3 pad1 stride1 bf16 acc=f32 nhwc", 139),
    ("conv_fprop n32c64h56w56 k64r3s3 pad1 stride1 f16 acc=f32 nhwc", 119)])
def test_engines_of_other_algorithms_are_candidates(line, index):
    found = [c.engine.index for c in candidates(line)]
    assert found[0] == index and {117, 137} & set(found)


def test_configurations_are_checked_on_the_interpreter(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "problems"
    folder.mkdir()
    folder.joinpath("tiny.txt").write_text("matmul 64x72 72x136 bf16\n")
    monkeypatch.setattr(tiles, "HERE", tmp_path)
    monkeypatch.setattr(sys, "argv", ["tiles.py", "tiny", "--device", "ptx:sm_90", "--no-peer", "--most", "2",
                                      "--repeat", "1", "--out", str(tmp_path)])
    assert tiles.main() == 0, capsys.readouterr().out
    rows = list(csv.DictReader(open(tmp_path / "tiles_tiny.csv")))
    assert len(rows) >= 3 and {row["verdict"] for row in rows} == {"ok"}
    assert "choice over best" in (tmp_path / "tiles_tiny.md").read_text()


def test_the_fit_finds_the_times_again(tmp_path, constants):
    """A card whose model has other numbers; the table has them, the fit does not."""
    truth = {(cost, "INTAKE"): 1.16 * cost.INTAKE,
             (cost, "TILES", "128x128"): 0.88 * cost.TILES["128x128"].share}
    for name, value in truth.items():
        fit.put(name, value)
    table = measured(tmp_path, LINES)
    for name, value in constants.items():
        fit.put(name, value)
    rows = fit.read([table])
    fit.look(rows)
    before = fit.error(rows)
    fit.fit(rows, 3, say=lambda text, flush: None)
    assert fit.error(rows) < before / 10
    near = [row.model / row.us for row in rows if row.weight > 0.7]
    assert 0.9 < min(near) <= max(near) < 1.1, near
    assert "choice over best 1.0" in fit.report(rows)


def test_constants_are_those_of_the_model():
    engines = [module for name, module in sorted(sys.modules.items()) if name.startswith("cydnn.engines")]
    for module, table, *key in fit.names():
        assert fit.get((module, table, *key)) > 0
        value = getattr(module, table)           # who has a number by name does not see that it moves
        holders = [m.__name__ for m in engines if vars(m).get(table) is value]
        assert key or holders == [module.__name__], table


def test_a_constant_moves_the_models_that_read_it(tmp_path, constants):
    rows = fit.read([measured(tmp_path, (LINES[0].replace("r3s3 pad1", "r1s1"), *LINES))])
    assert any(row.config.get("resident") for row in rows)
    fit.look(rows)
    for name in fit.names():
        fit.put(name, 0.8 * constants[name])
        fit.look(rows, name)
        seen = [row.model for row in rows]
        fit.look(rows)
        assert [row.model for row in rows] == seen, name


BESIDE = (("conv_fprop n256c256h14w14 k1024r1s1 pad0 stride1 bf16 acc=f32 nhwc", 2, "resident"),
          ("conv_fprop n256c512h14w14 k512r3s3 pad1 stride1 bf16 acc=f32 nhwc", 0, ""),
          ("conv_fprop n32c3h224w224 k64r7s7 pad3 stride2 f16 acc=f32 nhwc", 1, ""),
          ("matmul 4096x4096 4096x4096 bf16", 0, ""))


@pytest.mark.parametrize("line, count, knob", BESIDE)
def test_forms_beside_are_chosen_where_they_pay(line, count, knob):
    """Filters that stay where few products are in front, plain and fused. The best of both comes
    first."""
    problem = Problem.parse(line)
    part = best(bench.graph_of(problem), H200).parts[0]
    configs = list(part.engine.configs(part.match, H200))
    beside = [fused.is_beside(config) for config in configs]
    rest = beside[2 if knob == "resident" else 1:]
    assert rest == sorted(rest) and sum(beside) == count
    assert fused.is_beside(part.config) == beside[0] == (knob == "resident")
    for config in (config for config in configs if fused.is_beside(config)):
        words = " ".join(f"{k}={v}" for k, v in config.items())
        wish = Wish(engines=(part.engine.index,), config=Config.parse(words, part.engine.knobs))
        assert best(bench.graph_of(problem), H200, wish).parts[0].config == config
    if "conv" in line:
        chosen = best(bench.biased(problem), H200).parts[0].config
        assert fused.is_beside(chosen) == bool(knob) and bool(chosen.get(knob)) == bool(knob)


def test_forms_beside_have_a_table():
    beside = [["a", 11.0, 12.0, ""], ["b", fused.NAN, fused.NAN, "WRONG"]]
    row = fused.Row("conv", plain_us=10.0, us=14.0, beside=beside)
    lines = fused.beside_table([row, fused.Row("other")]).splitlines()
    assert "| conv | a | 11.0 | 1.10 | 12.0 | 1.20 | 0.86 |  |" in lines
    assert lines[-1].endswith("1.200 (sums of 1), worst 1.20")
    assert fused.beside_table([fused.Row("other")]) == ""


def test_pictures_are_small(tmp_path):
    pytest.importorskip("matplotlib")
    lines = [line for line in (ROOT / "benchmarks/problems/matmul_shapes.txt").read_text().splitlines()
             if line[0] != "#"]
    rows = [dict(problem=line, us=10.0, tflops=10.0 + i, gbs=900.0, peer_us=9.0 + i / 50, ratio=0.9 + i / 500)
            for i, line in enumerate(lines)]
    tmp_path.joinpath("family.json").write_text(json.dumps(rows))
    sys.argv, old = ["plot.py", str(tmp_path / "family.json"), "--out", str(tmp_path)], sys.argv
    try:
        plot.main()
    finally:
        sys.argv = old
    for kind in ("ratio", "roof"):
        text = (tmp_path / f"family_{kind}.svg").read_text()
        assert len(text) < plot.MOST_BYTES and text.rstrip().endswith("</svg>")
    assert "4097×4095×4099 nt" in (tmp_path / "family_ratio.svg").read_text()


def test_the_fused_graph_is_one_launch():
    line = "conv_fprop n256c64h56w56 k64r3s3 pad1 stride1 bf16 acc=f32 nhwc"
    choice = best(bench.biased(Problem.parse(line)), H200)
    assert len(choice.parts) == 1 and choice.is_spliced


@pytest.mark.parametrize("end", ["bias", "stats"])
def test_sums_behind_a_product_are_in_one_plan(end):
    args = argparse.Namespace(end=end, repeat=1)
    device = devices.get("numpy")
    row, *us = sums.measure("conv_fprop n2c8h6w6 k16r3s3 f16 nhwc", device, bench.Clock(device), args)
    assert row.endswith(" |  |") and min(us) > 0
    line = "conv_fprop n256c256h14w14 k256r3s3 pad1 stride1 bf16 acc=f32 nhwc"
    assert len(best(bench.summed(Problem.parse(line), end), H200).parts) == 1


def test_what_is_missing_is_a_sentence(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(sys, "argv", ["fused.py"])
    with pytest.raises(SystemExit, match="needs the package torch"):
        fused.main()


def test_a_first_result_takes_its_time_in_new_processes(tmp_path):
    wanted = ["--first", "--device", "numpy", "--repeat", "1", "--json", str(tmp_path / "rows.json")]
    done = subprocess.run([sys.executable, "benchmarks/cold.py", *wanted], cwd=ROOT, capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert list(rows) == [line.split("  ")[0] for line in done.stdout.splitlines()] and len(rows) == 2
    for row in rows.values():
        assert row["whole"] == row["build"] + row["execute"] and min(row.values()) > 0


def test_a_shipped_table_is_filled_and_gone_on_with(tmp_path, monkeypatch, capsys):
    """Of a card whose clock says that the second choice is the fastest."""
    class Said:
        def times(self, calls, repeat):
            return [[10.0 - i % 2] * repeat for i in range(len(calls))]
    monkeypatch.setattr("cydnn.tune.clock_of", lambda device: Said())
    monkeypatch.setattr(tuned, "lines_of", lambda families: ["softmax_fwd 9x70 f16", "softmax_fwd 4x8 f32"])
    monkeypatch.setattr(sys, "argv", ["tuned.py", "quick", "--device", "ptx:sm_90", "--most", "2", "--out",
                                      str(tmp_path)])
    tuned.main()
    said = capsys.readouterr().out
    assert "2 problems, 4 choices, 0 wrong; mode A is more than 5 % slower in 2" in said
    rows = json.loads((tmp_path / "tuned.json").read_text())
    assert [row["line"] for row in rows] == ["softmax_fwd 9x70 f16", "softmax_fwd 4x8 f32"]
    assert len(tuned.tuned.read(tmp_path / "ptx_sm_90.txt").rows) == 2
    tuned.main()
    assert "nothing was measured" in capsys.readouterr().out


def test_tuned_takes_the_problems_of_files_in_turn():
    lines = tuned.lines_of(tuned.FAMILIES)
    assert len(set(lines)) == len(lines) > 200 and len({line.split()[0] for line in lines[:6]}) > 1
    assert all(Problem.parse(line) for line in lines)


def test_rising_scores_rise(tmp_path, monkeypatch):
    """Each block of 32 keys has a new maximum, and the result is that of the reference."""
    monkeypatch.setattr(rising, "SIZES", [(1, 1, 96, 8, "bf16")])
    monkeypatch.setattr(sys, "argv", ["rising.py", "--device", "numpy", "--out", str(tmp_path), "--no-peer"])
    rising.main()
    rows = json.loads((tmp_path / "rising.json").read_text())["maxima that rise block by block"]
    assert len(rows) == 2 and all(row["note"].startswith("error 0") for row in rows)
    case = bench.Case(Problem.parse(rising.lines()[0]), device=devices.get("numpy"))
    rising.rising(case)
    most = (case.output("q") @ case.output("k")).reshape(96, 3, 32).max(2)
    assert (np.diff(most, axis=1) > 0).all()
