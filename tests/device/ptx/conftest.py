import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from watched import PtxDevice  # noqa: E402


@pytest.fixture(scope="session")
def ptx80():
    return PtxDevice("sm_80")


@pytest.fixture(scope="session")
def ptx75():
    return PtxDevice("sm_75")


@pytest.fixture(scope="session")
def ptx90():
    return PtxDevice("sm_90")
