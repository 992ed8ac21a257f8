"""Data tests see neither the user's data nor the user's cache, unless they ask for them."""

import os
from pathlib import Path

import pytest

PERFED_DATA = os.environ.get("PERFED_DATA", "")


@pytest.fixture(autouse=True)
def no_data(monkeypatch, tmp_path_factory):
    monkeypatch.delenv("PERFED_DATA", raising=False)
    monkeypatch.setenv("PERFED_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def real(no_data, monkeypatch):
    """The folder of real data sets, or a skip."""
    if not PERFED_DATA or not Path(PERFED_DATA).is_dir():
        pytest.skip("PERFED_DATA names no folder")
    monkeypatch.setenv("PERFED_DATA", PERFED_DATA)
    return Path(PERFED_DATA)
