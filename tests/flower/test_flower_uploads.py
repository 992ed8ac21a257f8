"""Bad uploads over the silos' own protocol: each kind costs its sender its place, and the round is what the others make alone."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from faraway import Here, folders

from perfed import trees
from perfed.disk import get_json
from perfed.errors import InputError
from perfed.evaluate.metrics import select
from perfed.evaluate.plausible import implausible
from perfed.rounds import Round
from perfed.runs import parse
from perfed.runs.assemble import assemble
from perfed.runs.place import SeedFolder
from perfed.server import Uploads
from perfed.silos.conductor import Conductor
from perfed.silos.messages import Ask, SiloAnswer
from perfed.silos.remote import answer_like
from perfed.wire import decode, encode

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))
from bad_uploads import STRUCTURE, VALUES

TREES = ("no tree", "none", "a list of numbers", "complex numbers")  # what the codec cannot even write
KINDS = {name: change for name, change in (STRUCTURE | VALUES).items() if name not in TREES}
LIES = {
    "10^9 samples": lambda a: replace(a, facts=a.facts | {"sizes": [10**9, *a.facts["sizes"][1:]]}),
    "one sample more": lambda a: replace(a, facts=a.facts | {"sizes": [a.facts["sizes"][0] + 1, *a.facts["sizes"][1:]]}),
    "an older round": lambda a: replace(a, train=a.train - 1 if a.train and a.train > 1 else 7),
    "another base": lambda a: replace(a, base=a.base + 1),
    "another client": lambda a: replace(a, client=(a.client + 1) % 4),
    "more to test on than there is": lambda a: replace(a, facts=a.facts | {"sizes": [*a.facts["sizes"][:2], 10**9]}),
    "no body": lambda a: replace(a, body=b""),
    "no codec": lambda a: replace(a, body=b"hello" * 20),
    "fifty times the size": lambda a: replace(a, body=a.body * 50),
}
SMALL: dict[str, Any] = {"model": {"name": "mlp", "hidden": 4}, "budget": {"epochs": 1, "batch_size": 64, "lr": 0.05}}


def isolated(tmp_path: Path, method: str, cases: list[tuple[str, int]]) -> None:
    """Run one round per case, a kind and who sends it; each must end as the others alone make it."""
    count = len(cases)
    place = folders(
        tmp_path / "d",
        silos=4,
        method=method,
        partition="iid",
        rounds=count,
        every=count,
        suspend=0,
        policy={"rounds": count},
        **SMALL,
    )
    made = assemble(parse.load(place / "server" / "experiment.yaml").but(clients=4), 0)
    honest: dict[tuple[int, int], Any] = {}
    servers, refused = [made.server], []

    def tamper(ask: Ask, answer: SiloAnswer) -> list[SiloAnswer | str]:
        if ask.train is None or ask.verb != "work":
            return [answer]
        like = answer_like(made.site, servers[-1], made.first)
        up = decode(answer.body, like, made.site.withheld)
        honest[ask.train, ask.client] = up
        kind, who = cases[ask.train - 1]
        if ask.client != who:
            return [answer]
        if kind in LIES:
            return [LIES[kind](answer)]
        down = decode(ask.body, made.method.send(servers[-1], who), made.site.withheld)
        return [replace(answer, body=encode(KINDS[kind](up, down), made.site.withheld))]

    def on_round(seed: int, done: Round) -> None:
        if done.number:
            who = cases[done.number - 1][1]
            left = [i for i in range(4) if i != who]
            ups = Uploads(left, [made.federation.sizes[i] for i in left], [honest[done.number, i] for i in left])
            assert list(done.refused) == [who], (cases[done.number - 1], done.refused)
            assert trees.equal(done.server, made.method.merge(servers[-1], ups)), cases[done.number - 1]
            servers.append(done.server)
            refused.append(done.refused[who])

    Conductor(place / "server", Here(place, silos=4, tamper=tamper), on_round).conduct()
    assert len(refused) == count


def test_every_kind_of_bad_upload_costs_its_silo_its_place(tmp_path: Path) -> None:
    kinds = [*KINDS, *LIES]
    assert len(kinds) >= 18
    isolated(tmp_path, "fedavg", [(kind, (0, 2, 3)[place % 3]) for place, kind in enumerate(kinds)])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fedavg", "fedcp", "fedcac", "gpfl", "scaffold"])
def test_every_kind_from_every_place_for_every_method(tmp_path: Path, method: str) -> None:
    isolated(tmp_path, method, [(kind, who) for kind in (*KINDS, *LIES) for who in (0, 2, 3)])


def test_a_hello_with_more_samples_than_it_may_have_costs_the_silo_its_place(tmp_path: Path) -> None:
    """A silo that tells the same lie in every answer is found by what the operator wrote down, or by its own label counts."""
    for number, (bound, labels) in enumerate(((500, False), (0, True))):
        place = folders(tmp_path / str(number), rounds=1, policy={"labels": labels}, **SMALL)
        terms = place / "server" / "server.yaml"
        terms.write_text(terms.read_text() + f"samples: {bound}\n")

        def lie(ask: Ask, answer: SiloAnswer) -> list[SiloAnswer | str]:
            facts = answer.facts | {"sizes": [10**6, *answer.facts["sizes"][1:]]}
            return [replace(answer, facts=facts) if ask.client == 1 else answer]

        seed = SeedFolder(Conductor(place / "server", Here(place, tamper=lie)).conduct() / "seed-0")
        assert [own is None for own in get_json(seed.silos)] == [False, True, False]
        assert "1000" in seed.refusals.read_text()


def test_a_silo_that_keeps_lying_is_asked_no_more(tmp_path: Path) -> None:
    place = folders(tmp_path / "d", rounds=4, policy={"rounds": 4}, suspend=2, **SMALL)
    bad = lambda ask, answer: [replace(answer, body=b"")] if ask.client == 1 and ask.train else [answer]  # noqa: E731
    carrier, seen = Here(place, tamper=bad), []
    Conductor(place / "server", carrier, lambda seed, done: seen.append((done.participants, list(done.refused)))).conduct()
    assert seen == [([], []), ([0, 1, 2], [1]), ([0, 1, 2], [1]), ([0, 2], []), ([0, 2], [])]
    assert max(ask.train or 0 for ask in carrier.asked if ask.client == 1) == 2


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"count": 10, "accuracy": 0.5, "loss": 1e300}, "no model has"),
        ({"count": 10, "accuracy": 0.55, "loss": 1.0}, "no whole number"),
        ({"count": 10, "accuracy": 0.5, "loss": 1.0, "charm": 0.5}, "nobody asked for"),
        ({"count": 10, "accuracy": 0.5, "loss": 1.0, "auc": 1.5}, "between 0 and 1"),
        ({"count": 10, "accuracy": 0.5, "loss": 1.0, "brier": -0.1}, "not negative"),
        ({"count": 10, "accuracy": [0.5], "loss": 1.0}, "a list"),
        ({"count": 10, "accuracy": 0.5, "loss": 1.0, "auc": None, "brier": 0.1}, ""),
    ],
)
def test_scores_that_no_model_has_are_found_out(row: dict[str, Any], said: str) -> None:
    found = implausible(row, select(("auc", "brier")))
    assert said in found if said else found == ""


def test_a_score_that_cannot_be_costs_its_silo_its_place(tmp_path: Path) -> None:
    place = folders(tmp_path / "d", rounds=1, **SMALL)

    def tamper(ask: Ask, answer: SiloAnswer) -> list[SiloAnswer | str]:
        wrong = ask.client == 1 and ask.score == 0
        return [replace(answer, scores=tuple(row | {"accuracy": 0.123456} for row in answer.scores)) if wrong else answer]

    seen: list[Round] = []
    Conductor(place / "server", Here(place, tamper=tamper), lambda seed, done: seen.append(done)).conduct()
    assert "no whole number" in seen[1].refused[1] and seen[0].scores["test"][1].count == 0 < seen[0].scores["test"][0].count


def test_no_silo_is_asked_to_attack(tmp_path: Path) -> None:
    place = folders(tmp_path / "d", attack="sign")
    with pytest.raises(InputError, match="simulation"):
        Conductor(place / "server", Here(place))
