"""Run folders made by hand, below the test's own folder."""

from pathlib import Path

import pytest
from handmade import write_run


@pytest.fixture(scope="session")
def run_writer():
    """Return the function that writes a run, for fixtures that outlive a test."""
    return write_run


@pytest.fixture
def make_run(tmp_path):
    """Return a function that writes a run below the test's own folder."""

    def make(name: str = "run", method: str = "fedavg", **options) -> Path:
        return write_run(tmp_path / name, method, **options)

    return make
