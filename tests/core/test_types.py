"""What editors and type checkers read: the stubs are those of the objects, programs of users are clean."""
import re
import subprocess
import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

import cydnn

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(ROOT.glob("examples/*.py"))
PROGRAM = '''
import cydnn, numpy as np
x = np.ones((2, 8, 6, 6), np.float32)
y: np.ndarray = cydnn.relu(cydnn.conv(x, x, padding="same", stride=(1, 1)))
call = cydnn.conv.prepare(x, x)
text: str = call.explain() + cydnn.softmax(x, explain=True)
z: np.ndarray = call(x, x)
graph = cydnn.pygraph(handle=cydnn.create_handle(cydnn.device.get("numpy")))
graph.relu(graph.tensor([1, 8], [8, 1])).set_output(True).set_name("y")
import cydnn.frontend as cudnn
other = cudnn.pygraph(io_data_type=cudnn.data_type.HALF, handle=cudnn.create_handle())
other.build([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
desc = cydnn.cudnn.createTensorDescriptor()
cydnn.cudnn.setTensor4dDescriptor(desc, cydnn.cudnn.CUDNN_TENSOR_NCHW, 0, 1, 3, 4, 5)
'''
MISTAKES = '''
import cydnn, numpy as np
x = np.ones((2, 8, 6, 6), np.float32)
cydnn.conv(x, x, paddin=1)
cydnn.softmax(x, dim="rows")
cydnn.reluu(x)
cydnn.pygraph().conv_fpropp(x, x)
cydnn.frontend.data_tipe
'''
CHECKERS = {"mypy": ["--follow-imports=silent", "--ignore-missing-imports", "--cache-dir"],
            "pyright": []}


def printer():
    spec = spec_from_file_location("print_stubs", ROOT / "tools" / "print_stubs.py")
    spec.loader.exec_module(made := module_from_spec(spec))
    return made


@pytest.mark.parametrize("name", printer().STUBS)
def test_stubs_are_what_the_objects_say(name):
    made = printer()
    assert (made.PACKAGE / name).read_text() == made.STUBS[name](), "run: python tools/print_stubs.py"


def checked(checker, tmp_path, files) -> list[str]:
    """The lines with errors that a checker finds, but those of files that import what is not here."""
    if find_spec(checker) is None:
        pytest.skip(f"needs {checker}")
    options = [*CHECKERS[checker], *([str(tmp_path / "cache")] if checker == "mypy" else
                                     ["--pythonpath", sys.executable])]
    done = subprocess.run([sys.executable, "-m", checker, *options, *map(str, files)], cwd=ROOT, text=True,
                          capture_output=True, timeout=600)
    assert done.returncode in (0, 1), done.stderr
    wrong = [line for line in done.stdout.splitlines() if re.search(r":\d+(:\d+)?( -|:) error: ", line)]
    lacking = {line.partition(".py:")[0] for line in wrong if "reportMissing" in line}
    return [line for line in wrong if line.partition(".py:")[0] not in lacking]


@pytest.mark.parametrize("checker", CHECKERS)
def test_programs_are_clean_and_mistakes_are_found(checker, tmp_path):
    readme = re.findall(r"```python\n((?!>>>).*?)```", (ROOT / "README.md").read_text(), re.S)
    files = {"clean": PROGRAM, "mistakes": MISTAKES, **{f"readme{i}": text for i, text in enumerate(readme)}}
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text)
    found = checked(checker, tmp_path, [tmp_path / f"{name}.py" for name in files] + EXAMPLES)
    planted = [line for line in found if "mistakes.py" in line]
    lines = {int(line.partition("mistakes.py:")[2].partition(":")[0]) for line in planted}
    assert lines == {4, 5, 6, 7, 8} and planted == found, "\n".join(found)


COMPLETED = {"cydnn": "cydnn.__all__", "cydnn.cudnn": "cydnn.cudnn.__all__",
             "cydnn.functional": "cydnn.functional.FUNCTIONS", "cydnn.backend": "cydnn.backend.__all__",
             "cydnn.device.get()": "'alloc copy_in copy_out memset synchronize facts name'.split()",
             "cydnn.device.get().alloc(8)": "['ptr', 'bytes', 'free']",
             "cydnn.conv.prepare(1, 2).plan": "vars(cydnn.plan.ExecutionPlan)",
             "cydnn.frontend": "cydnn.frontend.__all__", "cydnn.pygraph()": "dir(cydnn.pygraph)",
             "cydnn.frontend.Graph().__enter__()": "dir(cydnn.pygraph)"}


@pytest.mark.parametrize("what", COMPLETED)
def test_editors_complete_every_public_name(what):
    jedi = pytest.importorskip("jedi")
    import cydnn.frontend
    wanted = {n for n in eval(COMPLETED[what], {"cydnn": cydnn}) if n[0] != "_"} - {"sys"}
    lines = ["import cydnn, cydnn.functional, cydnn.backend, cydnn.frontend", f"room = {what}", "room."]
    assert wanted and wanted <= {c.name for c in jedi.Script("\n".join(lines)).complete(3, 5)}


@pytest.mark.parametrize("call, name", [
    ("cydnn.conv", "padding"), ("cydnn.pygraph().matmul", "compute_data_type"),
    ("cydnn.cudnn.setTensor4dDescriptor", "tensorDesc"), ("cydnn.torch.softmax", "dim")])
def test_editors_know_how_it_is_called_and_what_it_is(call, name):
    jedi = pytest.importorskip("jedi")
    if "torch" in call:
        pytest.importorskip("torch")
    script = jedi.Script(f"import cydnn.torch\n{call}(")
    assert name in script.get_signatures(2, len(call) + 1)[0].to_string()
    assert len(script.infer(2, len(call))[0].docstring(raw=True)) > 20
