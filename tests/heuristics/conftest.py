"""Tests of this room put engines and limits of their own in place of those that there are."""
from __future__ import annotations

import pytest

from cydnn import plan


@pytest.fixture(autouse=True)
def nothing_is_remembered():
    plan.forget()
    yield
    plan.forget()
