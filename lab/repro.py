"""The line that runs a failed test again, alone, and as it was: its share, its random problems, its
examples."""
from __future__ import annotations

import os
import shlex

from hypothesis import core, settings


def line(test: str) -> str:
    """What to type. The settings of the run are part of it; its seed is always one of them."""
    settings = [f"{name}={shlex.quote(value)}" for name, value in sorted(os.environ.items())
                if name.startswith("CYDNN_") and value]
    return f"again: {' '.join(settings)} python -m pytest {shlex.quote(test)}"


class Again:
    """The plugin: hypothesis draws by the seed of the run, and every failure has its line. Where the variable
    CI is set, hypothesis would draw the same examples each time."""

    def pytest_configure(self, config):
        settings.register_profile("cydnn", derandomize=False, deadline=None)
        settings.load_profile("cydnn")
        if config.getoption("--hypothesis-seed", None) is None:
            core.global_force_seed = int(os.environ["CYDNN_SEED"])

    def pytest_terminal_summary(self, terminalreporter):
        failed = [report for how in ("failed", "error") for report in terminalreporter.stats.get(how, ())]
        for test in dict.fromkeys(report.nodeid for report in failed):
            terminalreporter.write_line(line(test))
