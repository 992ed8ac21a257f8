"""Rearranging the code moves no bit: two rounds of every method end in the digests that version 0.1.0 ended in."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest


def _maker() -> Any:
    found = importlib.util.spec_from_file_location("digests_make", Path(__file__).with_name("make.py"))
    assert found is not None and found.loader is not None
    made = importlib.util.module_from_spec(found)
    found.loader.exec_module(made)
    return made


MAKE = _maker()
TABLES = json.loads(MAKE.TABLE.read_text(encoding="utf-8"))
DIGESTS = next((table["digests"] for table in TABLES if table["here"] == MAKE.here()), {})


def test_every_method_is_in_every_table() -> None:
    for table in TABLES:
        assert set(table["digests"]) == {f"{name} {net}" for name, net in MAKE.cases()}


@pytest.mark.skipif(not DIGESTS, reason=f"no table was made with {MAKE.here()}")
@pytest.mark.parametrize("transport", ["serial", "pooled"])
@pytest.mark.parametrize(("name", "net"), MAKE.cases())
def test_digest_has_not_moved(name: str, net: str, transport: str) -> None:
    assert MAKE.digest_of(name, net, transport) == DIGESTS[f"{name} {net}"]
