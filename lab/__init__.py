"""What tests the tests: mutation of PTX and Python, planted faults, coverage, witnesses; and what a run of
tests takes, keeps and repeats (sampling, the GPU record, repro). ``make lab`` runs the whole."""
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(path) for path in (ROOT / "tests", ROOT / "tests" / "device" / "ptx")
                if str(path) not in sys.path]
