"""A deployment's audit logs: a record for every ask, answer, refusal and decision, at the server and at every silo."""

import json
from collections import Counter
from functools import cache
from pathlib import Path

import faraway
import pytest
import yaml
from typer.testing import CliRunner

pytest.importorskip("cryptography")

from perfed.cli.commands import app
from perfed.silos.audit import HEAD, LOG, Audit, Audited
from perfed.silos.conductor import Conductor
from perfed.silos.config import SiloConfig
from perfed.silos.flower import certificates, signing
from perfed.silos.silo import Silo


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, faraway.Here]:
    """Three silos with keys, of which the last allows no training."""
    place = faraway.folders(tmp_path_factory.mktemp("deployment") / "it")
    (place / "ca").mkdir()
    certificates.authority(place / "ca")
    certificates.server(place / "ca", place / "server", ["127.0.0.1"])
    (place / "server" / "keys").mkdir()
    for i in range(3):
        (place / "server" / "keys" / f"silo-{i}.pub").write_bytes(certificates.node(place / f"silo-{i}"))
    strict = yaml.safe_load((place / "silo-2" / "policy.yaml").read_text()) | {"daily": 0}
    (place / "silo-2" / "policy.yaml").write_text(yaml.safe_dump(strict))
    terms = yaml.safe_load((place / "server" / "server.yaml").read_text()) | {"least": 2}
    (place / "server" / "server.yaml").write_text(yaml.safe_dump(terms))
    carrier = faraway.Here(place)

    def silo(client: int) -> Silo:
        own = place / f"silo-{client}"
        return Silo(SiloConfig.load(own / "silo.yaml"), Audit(own / "audit", signing.own(own)))

    carrier.silo_of = cache(silo)
    Conductor(place / "server", Audited(carrier, Audit(place / "server" / "audit", signing.own(place / "server")))).conduct()
    return place, carrier


def whats(part: Path) -> Counter[str]:
    return Counter(line["what"] for line in records(part))


def records(part: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (part / "audit" / LOG).read_text().splitlines()]


def test_every_ask_answer_refusal_and_decision_is_a_record(done: tuple[Path, faraway.Here]) -> None:
    place, carrier = done
    asked = Counter(ask.client for ask in carrier.asked)
    server = whats(place / "server")
    assert server["ask"] == server["answer"] == len(carrier.asked) == server["decision"] + server["refusal"]
    for i in (0, 1):
        assert whats(place / f"silo-{i}") == {"begin": 1, "ask": asked[i], "answer": asked[i], "decision": asked[i]}
    strict = records(place / "silo-2")
    assert {line["code"] for line in strict if line["what"] == "refusal"} == {"daily"}
    assert server["refusal"] == sum(line["what"] == "refusal" for line in strict) > 0


def test_both_sides_name_the_same_messages_by_their_hashes(done: tuple[Path, faraway.Here]) -> None:
    place, _ = done
    sent = Counter(line["sha256"] for line in records(place / "server") if line["what"] == "ask" and line["client"] == 1)
    assert sent == Counter(line["sha256"] for line in records(place / "silo-1") if line["what"] == "ask")


def test_a_deployment_is_proved_and_one_changed_word_is_not(done: tuple[Path, faraway.Here]) -> None:
    place, _ = done
    told = CliRunner().invoke(app, ["deploy", "verify", str(place), "--json"])
    assert told.exit_code == 0, told.output
    assert [(own["part"], own["state"]) for own in json.loads(told.stdout)] == [
        *[("server", "proved")] * 2,
        *[(f"silo-{i}", "proved") for i in range(3)],
    ]
    path = place / "silo-2" / "audit" / LOG
    whole, head = path.read_bytes(), path.with_name(HEAD)
    path.write_bytes(whole.replace(b'"refusal"', b'"answered"', 1))
    told = CliRunner().invoke(app, ["deploy", "verify", str(place / "silo-2")])
    path.write_bytes(whole)
    assert told.exit_code == 1 and "does not follow from line" in told.output
    kept = head.read_bytes()
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:-1]))
    told = CliRunner().invoke(app, ["deploy", "verify", str(place / "silo-2"), "--json"])
    assert told.exit_code == 1 and "cut short" in told.output
    answer = Silo(SiloConfig.load(place / "silo-2" / "silo.yaml"), Audit(path.parent, signing.own(place / "silo-2"))).answer(
        done[1].asked[2]
    )
    path.write_bytes(whole)
    head.write_bytes(kept)
    assert answer.refused == "log"  # a silo whose log was cut does nothing
