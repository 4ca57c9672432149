"""A run of tests is a session with a seed and records (lab/session.py)."""
from lab import session


def pytest_configure(config):
    session.begin(config)
