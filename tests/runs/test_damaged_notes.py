"""Notes of another form are damage: a record that no chain vouches for is refused in a sentence as well."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from perfed.errors import RunError
from perfed.runs import run as runs
from perfed.runs.folder import RunFolder

FORMER = Path(__file__).parents[1] / "fixtures" / "v010" / "finished"

DAMAGE: dict[str, tuple[str, Any, str]] = {
    "a transport that is a list": ("seed-0/transport.json", [], "transport.json' is damaged"),
    "a transport with a number for a name": ("seed-0/transport.json", {"name": 5}, "names no transport"),
    "a transport without a name": ("seed-0/transport.json", {"why": "asked for"}, "names no transport"),
    "a final note without rounds": ("seed-0/final.json", {"digest": "0"}, "it has no 'rounds'"),
    "a final note with words for rounds": ("seed-0/final.json", {"rounds": "three"}, "its 'rounds' has another form"),
    "clients without names": ("seed-0/clients.json", {"names": 3}, "its 'names' has another form"),
    "clients of which little is known": ("seed-0/clients.json", {"names": ["a"]}, "is damaged"),
    "a manifest whose splits are a number": ("manifest.json", {"splits": 5}, "its 'splits' has another form"),
    "a manifest whose settings are a list": ("manifest.json", {"settings": []}, "its 'settings' has another form"),
    "a line with words for seconds": (
        "seed-0/rounds.jsonl",
        {"round": 0, "seconds": "long"},
        "line 1 .* 'seconds' has another",
    ),
    "a line without bytes": ("seed-0/rounds.jsonl", {"round": 0, "seconds": 1.0}, "is damaged"),
    "a line that is a list": ("seed-0/rounds.jsonl", [], "line 1 .* holds no object"),
}


@pytest.mark.parametrize("case", sorted(DAMAGE))
def test_a_note_of_another_form_is_a_sentence(case: str, tmp_path: Path) -> None:
    file, content, said = DAMAGE[case]
    run = Path(shutil.copytree(FORMER, tmp_path / "it"))
    lines = (run / file).read_text().splitlines()[1:] if file.endswith("l") else []
    (run / file).write_text("\n".join([json.dumps(content), *lines]) + "\n")
    with pytest.raises(RunError, match=said):
        folder = runs.opened(run)
        for seed in folder.seeds.values():
            assert seed.transport and seed.clients and seed.final
        runs.sum_up(RunFolder(run))
