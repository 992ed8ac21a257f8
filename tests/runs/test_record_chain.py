"""A record cannot be edited unnoticed: every edit, deletion, move and truncation is refused, and the line is named."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from perfed import chain
from perfed.errors import RunError
from perfed.local import Budget
from perfed.report.read import read
from perfed.runs import run as runs
from perfed.runs.compare import Lineup
from perfed.runs.compare import run as compare
from perfed.runs.experiment import Experiment
from perfed.runs.folder import Lines, RunFolder
from perfed.runs.verify import verify
from perfed.shelf import proofs

SMALL = Experiment(
    method="fedper",
    clients=3,
    rounds=4,
    partition="iid",
    data={"name": "digits", "fraction": 0.1},
    transport="serial",
    checkpoint=0,
    workers=1,
)
FIXTURES = Path(__file__).parents[1] / "fixtures" / "v010"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return runs.run(SMALL.but(out=tmp_path_factory.mktemp("runs"))).path


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "run"))


def refused(path: Path) -> str:
    with pytest.raises(RunError) as wrong:
        runs.opened(path)
    return str(wrong.value)


def test_a_chain_is_what_its_hashes_say() -> None:
    """By hand: SHA-256 over the hash before, a line's end and the line's own text."""
    import hashlib

    line, head = chain.add("00", {"a": 1})
    assert head == hashlib.sha256(b'00\n{"a": 1}').hexdigest()
    assert line == f'{{"a": 1, "chain": "{head}"}}\n'.encode()
    more, last = chain.add(head, {"b": [2.5, None]})
    found = list(chain.follow(line + more + b'{"torn', "00", Path("it")))
    assert [link.record for link in found] == [{"a": 1}, {"b": [2.5, None]}] and found[-1].chain == last


def test_a_record_is_proved_and_says_how_long_it_is(made: Path) -> None:
    found = verify(made)
    assert (found.state, found.lines, found.said) == ("proved", 5, "proved, 1 seed, 5 lines")
    assert found.head == json.loads((made / "summary.json").read_text())["chain"]
    assert "chain" not in RunFolder(made).seed(0).lines.read()[0]


MUTATIONS: list[Callable[[random.Random, list[bytes]], bytes]] = [
    lambda draw, lines: _flip(draw, b"".join(lines)),
    lambda draw, lines: b"".join(lines[:at] + lines[at + 1 :]) if (at := draw.randrange(len(lines))) >= 0 else b"",
    lambda draw, lines: b"".join(_swapped(draw, lines)),
    lambda draw, lines: (whole := b"".join(lines))[: draw.randrange(len(whole))],
    lambda draw, lines: b"".join(lines[: (at := draw.randrange(len(lines)))] + [draw.choice(lines)] + lines[at:]),
    lambda draw, lines: _digit(draw, b"".join(lines)),
]


def _flip(draw: random.Random, whole: bytes) -> bytes:
    at = draw.randrange(len(whole))
    return whole[:at] + bytes([(whole[at] + draw.randrange(1, 256)) % 256]) + whole[at + 1 :]


def _digit(draw: random.Random, whole: bytes) -> bytes:
    """An edit that leaves JSON as it is: one digit is another."""
    at = draw.choice([place for place, byte in enumerate(whole) if chr(byte).isdigit()])
    return whole[:at] + draw.choice([d for d in b"0123456789" if d != whole[at]]).to_bytes() + whole[at + 1 :]


def _swapped(draw: random.Random, lines: list[bytes]) -> list[bytes]:
    one, other = draw.sample(range(len(lines)), 2)
    found = list(lines)
    found[one], found[other] = found[other], found[one]
    return found


def test_thousands_of_changes_to_the_lines_are_all_refused_and_the_line_is_named(copy: Path) -> None:
    path, draw = copy / "seed-0" / "rounds.jsonl", random.Random(1)
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    accepted, unnamed = [], []
    for number in range(3000):
        changed = MUTATIONS[number % len(MUTATIONS)](draw, lines)
        if changed == whole:
            continue
        path.write_bytes(changed)
        try:
            Lines(path).read()
        except RunError as wrong:
            if "line " not in str(wrong):
                unnamed.append(str(wrong))
        else:
            accepted.append(changed)
    assert (accepted, unnamed) == ([], [])


def test_changes_to_any_other_file_of_a_record_are_noticed(copy: Path) -> None:
    files = [path for path in sorted(copy.rglob("*")) if path.is_file() and path.name not in ("lock", "rounds.jsonl")]
    assert {path.name for path in files} >= {"origin.json", "final.json", "clients.json", "manifest.json", "settings.yaml"}
    draw = random.Random(2)
    for path in files:
        whole = path.read_bytes()
        for _ in range(20):
            changed = _flip(draw, whole)
            if path.name in ("summary.json", "final.json", "checkpoint.json") and _same(changed, whole):
                continue  # another spelling of the same content
            path.write_bytes(changed)
            assert verify(copy).state == "disproved", (path.name, changed)
        path.unlink()
        states = path.suffix == ".safetensors" or path.name == "checkpoint.json"  # these may be cleaned away
        assert states or verify(copy).state != "proved", path.name
        path.write_bytes(whole)
    assert verify(copy).state == "proved"


def _same(one: bytes, other: bytes) -> bool:
    try:
        return bool(json.loads(one) == json.loads(other))
    except ValueError:
        return False


def test_whoever_reads_a_changed_record_refuses_it_in_a_sentence_that_names_the_line(copy: Path) -> None:
    path = copy / "seed-0" / "rounds.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    told = json.loads(lines[2])
    told["test"]["accuracy"][0] = 1.0
    path.write_text("".join([*lines[:2], json.dumps(told) + "\n", *lines[3:]]))
    said = f"line 3 of '{path}' does not follow from line 2: it was changed after it was written"
    assert refused(copy) == said
    for reader in (lambda: read(copy), lambda: runs.resume(RunFolder(copy))):
        with pytest.raises(RunError, match="line 3 of"):
            reader()
    path.write_text("".join(lines[:-1]))
    assert refused(copy) == f"'{path}' ends after line 4, and final.json names 5 lines: it was changed after it was written"
    shutil.rmtree(copy / "seed-0")
    assert verify(copy).state == "disproved"


def test_a_stopped_run_goes_on_in_its_chain_and_forgets_what_came_after_its_checkpoint(copy: Path) -> None:
    seed = copy / "seed-0"
    longer = runs.resume(RunFolder(copy), rounds=6)
    assert verify(copy).said == "proved, 1 seed, 7 lines"
    straight = runs.run(SMALL.but(out=copy.parent, name="straight", rounds=6))
    assert longer.summary["digest"] == straight.summary["digest"]
    (copy / "summary.json").unlink()
    (seed / "final.json").unlink()
    with (seed / "rounds.jsonl").open("ab") as file:  # a round after the checkpoint, and one that was cut off
        file.write(chain.add(RunFolder(copy).seed(0).lines.head, {"round": 7})[0] + b'{"round": 8, "te')
    assert verify(copy).state == "so far"
    runs.resume(longer, rounds=8)
    assert verify(copy).said == "proved, 1 seed, 9 lines"


def test_a_record_that_lost_the_rounds_of_its_checkpoint_does_not_go_on(copy: Path) -> None:
    path = copy / "seed-0" / "rounds.jsonl"
    (copy / "seed-0" / "final.json").unlink()
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:3]))
    assert refused(copy).startswith(f"'{path}' ends after line 3, before the round that checkpoint.json names")


def test_the_best_state_alone_is_kept_and_the_chain_still_holds(tmp_path: Path) -> None:
    made = runs.run(SMALL.but(out=tmp_path, keep="best", validation=0.3, budget=Budget(lr=0.5)))
    assert verify(made.path).state == "proved"
    runs.resume(made, rounds=6)
    assert verify(made.path).said == "proved, 1 seed, 7 lines"
    assert verify(runs.run(SMALL.but(out=tmp_path, keep="none", name="none")).path).state == "proved"


def test_a_kept_record_is_proved_and_a_changed_one_is_not(copy: Path, tmp_path: Path) -> None:
    kept = RunFolder(tmp_path / "kept")
    RunFolder(copy).keep_record(kept, copy.parent)
    assert verify(kept.path).state == "proved"
    packed = kept.path / "seed-0" / "rounds.jsonl.gz"
    packed.write_bytes(packed.read_bytes()[:-9])
    assert verify(kept.path).said.startswith(f"'{packed}' is damaged")


def test_a_comparison_is_proved_with_all_its_runs(tmp_path: Path) -> None:
    from perfed.results import conclude

    folder = compare(Lineup.of([SMALL.but(out=tmp_path, rounds=1)]))
    conclude(folder, 1.0)
    assert [own.said for own in proofs(tmp_path)] == ["proved, 2 runs, 4 lines"]
    path = folder.path / "summary.json"
    whole = path.read_text()
    path.write_text(whole.replace('"seconds": 1.0', '"seconds": 0.5'))
    assert proofs(tmp_path)[0].said == f"'{path}' does not fit the record that it sums up: it was changed after it was written"
    path.write_text(whole)
    runs.resume(folder.runs[0], rounds=2)  # one of its runs went on: the comparison is to be made again
    assert proofs(tmp_path)[0].state == "so far"


@pytest.mark.parametrize("name", ["finished", "stopped", "compared"])
def test_records_of_before_open_and_cannot_be_proved(name: str, tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / name, tmp_path / name)
    assert [own.state for own in proofs(tmp_path)] == ["before"]
    assert "made before chains; cannot be proved" in proofs(tmp_path)[0].said


def test_a_record_stripped_of_its_chain_is_not_taken_for_an_old_one(copy: Path) -> None:
    path = copy / "seed-0" / "rounds.jsonl"
    (copy / "seed-0" / "origin.json").unlink()
    assert "origin.json' is missing" in refused(copy)
    stripped = [{k: v for k, v in json.loads(line).items() if k != "chain"} for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in stripped))
    assert "origin.json' is missing" in refused(copy)
