"""Where private parts begin at silos: alike, unknown to the server, and as the method has it where it copies what is sent."""

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from faraway import Here, final, folders, silo

from perfed import methods, trees
from perfed.errors import InputError
from perfed.runs import parse as setting
from perfed.runs.assemble import assemble
from perfed.silos import start
from perfed.silos.conductor import Conductor
from perfed.silos.messages import Ask

SECRET = "5e" * 32


def deployed(place: Path, secrets: list[str], **experiment: Any) -> Path:
    """Write a deployment whose private parts are secret."""
    made = folders(place, rounds=1, policy={"seeded_private": False}, **experiment)
    terms = yaml.safe_load((made / "server" / "server.yaml").read_text()) | {"seeded_private": False}
    (made / "server" / "server.yaml").write_text(yaml.safe_dump(terms))
    for i, secret in enumerate(secrets):
        if secret:
            (made / f"silo-{i}" / start.FILE).write_text(secret)
    return made


def ran(place: Path) -> tuple[Path, Ask, list[str]]:
    """Run a deployment; return the run, a request, and everything that the server was told in plain text."""
    told: list[str] = []

    def heard(ask: Ask, head: str, body: bytes) -> tuple[str, bytes]:
        told.append(head)
        return head, body

    carrier = Here(place, garble=heard)
    run = Conductor(place / "server", carrier).conduct()
    return run, next(a for a in carrier.asked if a.verb == "work"), told


def kept(place: Path, ask: Ask, client: int, name: str) -> bytes:
    return (place / f"silo-{client}" / "state" / ask.experiment / name).read_bytes()


def test_silos_with_one_secret_begin_alike_and_visit_in_orders_of_their_own(tmp_path: Path) -> None:
    """Two deployments with one public seed agree in what the server sends first, and in nothing private."""
    found = []
    for name in ("a", "b"):
        place = deployed(tmp_path / name, [SECRET] * 3, method="fedper")
        run, ask, told = ran(place)
        begun = {kept(place, ask, i, "version-0.state") for i in range(3)}
        assert len(begun) == 1 and final(run / "seed-0")["private"] is None
        assert len({kept(place, ask, i, "secret") for i in range(3)}) == 3
        assert not any(SECRET[:16] in text for text in told)
        found.append((ask.body, begun.pop(), kept(place, ask, 0, "version-1.answer")))
    (down, begun, up), (other_down, other_begun, other_up) = found
    assert down == other_down and begun != other_begun and up != other_up


def test_without_a_secret_each_silo_begins_with_its_own_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    place = deployed(tmp_path, [SECRET, "", ""], method="fedper")
    _, ask, _ = ran(place)
    assert len({kept(place, ask, i, "version-0.state") for i in range(3)}) == 3
    assert any("no start.key here" in record.getMessage() for record in caplog.records)
    assert any("their files start.key are not the same" in record.getMessage() for record in caplog.records)


def test_the_start_is_a_function_of_secret_and_experiment() -> None:
    assert start.seed_of(SECRET, "ab-0") == start.seed_of(SECRET, "ab-0") < 2**63
    assert len({start.seed_of(secret, name) for secret in (SECRET, "0" * 64) for name in ("ab-0", "ab-1")}) == 4
    assert start.sign_of(SECRET, "ab-0") != start.sign_of("0" * 64, "ab-0")


def test_a_secret_that_is_none_is_refused(tmp_path: Path) -> None:
    place = deployed(tmp_path, ["tell nobody"])
    with pytest.raises(InputError, match="64 hexadecimal digits; copy the file from another silo"):
        silo(place, 0)


COPIED = {"ditto", "fedcp"}  # their private parts begin as copies of what is sent


@pytest.mark.parametrize("name", ["ditto", "fedcp", "fedcac", "dualfed", "gpfl", "fedpick", "fedper", "fedrep", "fedproto"])
def test_a_copy_of_what_is_sent_stays_one_and_the_rest_is_unknown(name: str) -> None:
    asked = setting.load(None, [f"method={name}", "data=digits", "data.fraction=0.2", "clients=2", "model=mlp", "model.hidden=8"])
    assert name in methods.CATALOGUE
    public, secret = assemble(asked, 0), assemble(asked, start.seed_of(SECRET, "ab-0"))
    begun = start.first(public, secret).mine
    both = list(zip(*(trees.named(tree) for tree in (begun, public.first.mine, secret.first.mine)), strict=True))
    same = [path for (path, own), (_, known), (_, drawn) in both if torch.equal(own, known) and not torch.equal(own, drawn)]
    other = [path for (path, own), (_, known), (_, drawn) in both if torch.equal(own, drawn) and not torch.equal(own, known)]
    assert bool(same) == (name in COPIED) and not (same and other)
    if name in ("dualfed", "gpfl", "fedpick", "fedper", "fedrep", "fedproto"):
        assert other, "something private is drawn"
