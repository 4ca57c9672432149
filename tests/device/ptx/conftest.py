import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from watched import WatchedDevice  # noqa: E402


@pytest.fixture(scope="session")
def ptx80():
    return WatchedDevice("sm_80")


@pytest.fixture(scope="session")
def ptx75():
    return WatchedDevice("sm_75")


@pytest.fixture(scope="session")
def ptx90():
    return WatchedDevice("sm_90")
