"""Server rules: means in client order and double precision, whole numbers rounded."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from perfed import trees
from perfed.errors import InputError
from perfed.methods import CATALOGUE, find
from perfed.methods.fedavg import FedAvg
from perfed.methods.fedbn import FedBN
from perfed.server import RULES, Uploads, average, averaged, broadcast, combine, mean, mix, rule_of


class Pair(NamedTuple):
    a: dict[str, Tensor]
    b: Tensor


def w(*values: float) -> dict[str, Tensor]:
    return {"w": torch.tensor(values)}


def test_a_mean_by_hand() -> None:
    found = mean([Pair(w(1.0, 2.0), torch.tensor(0.0)), Pair(w(5.0, 0.0), torch.tensor(4.0))], [3, 1])
    assert isinstance(found, Pair) and found.a["w"].tolist() == [2.0, 1.5] and found.b.item() == 1.0


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=60), st.integers(0, 2**31))
def test_identical_clients_average_to_themselves_exactly(sizes: list[int], seed: int) -> None:
    own = {"w": torch.randn(50, generator=torch.Generator().manual_seed(seed)) * 10.0 ** (seed % 13 - 6), "n": torch.tensor(seed)}
    assert trees.equal(mean([own] * len(sizes), sizes), own)


def test_sums_are_taken_in_double_precision() -> None:
    """In single precision 1 + 1e-8 is 1, and a hundred such crumbs would be lost one by one."""
    answers = [w(1.0)] + [w(1e-6)] * 100
    assert combine([1.0] * 101, answers)["w"].item() == torch.tensor(1.0001).item()
    lost = torch.tensor(1.0)
    for _ in range(100):
        lost = lost + torch.tensor(1e-8)
    assert lost == 1 and combine([1.0] + [1e-2] * 100, answers)["w"].item() == torch.tensor(1.000001).item()


def test_answers_are_added_in_the_order_they_are_given() -> None:
    values = [1e16, 1.0, -1e16]  # in double precision the order shows
    forward = combine([1.0] * 3, [{"w": torch.tensor(v, dtype=torch.float64)} for v in values])
    turned = combine([1.0] * 3, [{"w": torch.tensor(v, dtype=torch.float64)} for v in (1e16, -1e16, 1.0)])
    assert forward["w"].item() == 0 and turned["w"].item() == 1


def test_whole_numbers_are_rounded_not_cut() -> None:
    found = mean([{"n": torch.tensor([1, 5])}, {"n": torch.tensor([2, 6])}], [1, 2])
    assert found["n"].tolist() == [2, 6] and found["n"].dtype == torch.int64  # 1.67 and 5.67


def test_a_mean_keeps_the_type_of_its_leaves() -> None:
    assert mean([{"h": torch.ones(2).bfloat16()}] * 3, [1, 1, 1])["h"].dtype == torch.bfloat16


def test_a_weight_of_zero_is_left_out_even_if_the_answer_is_not_finite() -> None:
    assert combine([1.0, 0.0], [w(2.0), w(float("nan"))])["w"].item() == 2.0


def test_mix_gives_one_tree_per_row() -> None:
    found = mix(torch.tensor([[1.0, 0.0], [0.5, 0.5]]), [w(1.0), w(3.0)])
    assert [t["w"].item() for t in found] == [1.0, 2.0]


def test_a_mean_changes_no_answer() -> None:
    answers = [w(1.0), w(2.0)]
    mean(answers, [1, 1])
    assert [a["w"].item() for a in answers] == [1.0, 2.0]


def test_nothing_to_combine_is_an_error_and_so_is_a_missing_weight() -> None:
    with pytest.raises(ValueError, match="no client answered"):
        combine([], [])
    with pytest.raises(ValueError, match="shorter|longer"):
        mean([w(1.0), w(2.0)], [1])


def test_the_dull_verbs() -> None:
    assert broadcast(None, "state", 3) == "state"
    assert average(None, w(0.0), Uploads([0, 4], [3, 1], [w(1.0), w(5.0)]))["w"].item() == 2.0
    assert average(FedAvg(rule="uniform"), w(0.0), Uploads([0, 4], [3, 1], [w(1.0), w(5.0)]))["w"].item() == 3.0


def arriving(log: list[int]) -> Iterator[dict[str, Tensor]]:
    for i in range(3):
        log.append(i)
        yield w(float(i))


def test_answers_are_taken_in_as_they_arrive() -> None:
    log: list[int] = []
    ups = Uploads([0, 1, 2], [1, 1, 2], arriving(log))
    assert len(ups) == 3 and log == [] and ups.sizes.tolist() == [1, 1, 2] and ups.sizes.dtype == torch.float64
    assert next(iter(ups))["w"].item() == 0 and log == [0]
    with pytest.raises(RuntimeError, match="already consumed"):
        iter(ups)


def test_trees_may_be_visited_again() -> None:
    ups = Uploads([0, 1, 2], [1, 1, 2], arriving([]))
    assert len(ups.trees) == 3 and [t["w"].item() for t in ups] == [0, 1, 2] == [t["w"].item() for t in ups]


def test_uploads_seen_through_a_field_keep_ids_and_sizes() -> None:
    seen = Uploads([2, 5], [1, 3], [w(1.0), w(2.0)]).each(lambda t: t["w"] + 1)
    assert seen.ids == [2, 5] and seen.sizes.tolist() == [1, 3] and [x.item() for x in seen] == [2, 3]


def test_draining_lets_every_client_finish() -> None:
    log: list[int] = []
    ups = Uploads([0, 1, 2], [1, 1, 1], arriving(log))
    ups.drain()
    ups.drain()
    assert log == [0, 1, 2]


def test_mixing_in_pieces_is_combining_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = torch.Generator().manual_seed(0)
    answers = [
        {"w": torch.randn(3, 5, generator=draw), "n": torch.randint(0, 9, (4,), generator=draw), "s": torch.tensor(2.5)}
        for _ in range(4)
    ]
    matrix = torch.rand(3, 4, generator=draw, dtype=torch.float64)
    monkeypatch.setattr("perfed.server.rules._PIECE", 8)  # two numbers of each answer at a time
    monkeypatch.setattr("perfed.server.rules._LEAST", 1)
    for row, found in zip(matrix, mix(matrix, answers), strict=True):
        expected = combine(row.tolist(), answers)
        assert torch.equal(found["n"], expected["n"]) and found["s"].shape == ()
        assert torch.allclose(found["w"], expected["w"], rtol=1e-7, atol=0)


def test_mixing_leaves_out_what_weighs_nothing_even_where_it_is_no_number() -> None:
    found = mix(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), [{"w": torch.ones(2)}, {"w": torch.tensor([float("nan"), 2.0])}])
    assert found[0]["w"].tolist() == [1.0, 1.0] and found[1]["w"].isnan().tolist() == [True, False]


def ups(*values: float) -> Uploads[dict[str, Tensor]]:
    return Uploads(range(len(values)), [1 + i for i in range(len(values))], [w(v, -v) for v in values])


@pytest.mark.parametrize(
    ("rule", "values", "expected"),
    [
        ("mean", (1.0, 4.0, 10.0), (1 * 1 + 2 * 4 + 3 * 10) / 6),  # clients have 1, 2 and 3 samples
        ("weighted", (1.0, 4.0, 10.0), (1 * 1 + 2 * 4 + 3 * 10) / 6),
        ("uniform", (1.0, 4.0, 10.0), 5.0),
        ("median", (10.0, 1.0, 4.0), 4.0),
        ("median", (10.0, 1.0, 4.0, 3.0), 3.5),  # half the sum of the two in the middle
        ("median", (1.0, 3.0), 2.0),
        ("median", (7.0,), 7.0),
        ("trimmed", (9.0, 1.0, 2.0, 1000.0, 3.0), (2 + 3 + 9) / 3),  # a tenth of five is none: one is cut all the same
        ("trimmed:0.4", (9.0, 1.0, 2.0, 1000.0, 3.0), 3.0),
        ("trimmed:0.2", tuple(map(float, range(10))), 4.5),  # two at either end
        ("trimmed", (1.0, 3.0), 2.0),  # of two none can be cut
        # of five one is taken to be bad: the two nearest others of 1 are 2 and 4 away (of 1.0: 1, 9), of 2: 1+4, of 4: 4+9 …
        ("krum", (1.0, 2.0, 4.0, 7.0, 100.0), 2.0),
        ("multikrum", (1.0, 2.0, 4.0, 7.0, 100.0), 3.5),  # the four whose two nearest others are near
        ("krum", (1.0, 3.0), 2.0),
        ("multikrum:0.4", (1.0, 2.0, 4.0, 70.0, 100.0), 7 / 3),  # three are left; one nearest other counts
        ("geometric", (1.0, 2.0, 9.0), 2.0),  # along a line the geometric median is the median
        ("clipped", (0.0, 1.0, 2.0, 3.0, 100.0), (0 + 1 + 2 + 2 + 2) / 5),  # 1 is in the middle, half are within 1 of it
        # each but the far one becomes the mean of the four near ones, 2.5, the far one that of itself and 2, 3 and 4; cut 1 and 1
        ("mix+trimmed:0.2", (1.0, 2.0, 3.0, 4.0, 100.0), 2.5),
    ],
)
def test_rules_by_hand(rule: str, values: tuple[float, ...], expected: float) -> None:
    found = averaged(rule, ups(*values))["w"]
    assert found.dtype == torch.float32 and torch.equal(found, torch.tensor([expected, -expected]))


def test_one_wild_answer_moves_the_mean_but_neither_median_nor_trimmed_mean() -> None:
    calm, wild = (1.0, 1.1, 0.9, 1.0), (1.0, 1.1, 0.9, 1e9)
    for rule in ("median", "trimmed"):
        assert averaged(rule, ups(*calm))["w"][0].item() == pytest.approx(averaged(rule, ups(*wild))["w"][0].item(), abs=0.1)
    assert averaged("uniform", ups(*wild))["w"][0].item() > 1e8


def test_medians_are_taken_number_by_number_and_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = torch.Generator().manual_seed(0)
    answers = [Pair({"w": torch.randn(3, 5, generator=draw)}, torch.randint(0, 9, (4,), generator=draw)) for _ in range(7)]
    monkeypatch.setattr("perfed.server.rules._PIECE", 14)  # two numbers of each answer at a time
    monkeypatch.setattr("perfed.server.rules._LEAST", 1)
    found = averaged("median", Uploads(range(7), [1] * 7, answers))
    assert torch.equal(found.a["w"], torch.stack([up.a["w"] for up in answers]).median(0).values)
    assert torch.equal(found.b, torch.stack([up.b for up in answers]).median(0).values) and found.b.dtype == torch.int64


def test_means_take_in_one_answer_at_a_time_and_medians_need_them_all() -> None:
    for rule, held in (("mean", False), ("uniform", False), ("median", True), ("trimmed", True), ("krum", True)):
        ups = Uploads([0, 1, 2], [1, 1, 2], arriving([]))
        averaged(rule, ups)
        assert (ups._all is not None) == held


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("medain", "did you mean 'median'"),
        ("median:0.1", "takes no share"),
        ("trimmed:0.5", "between 0 and 0.5"),
        ("trimmed:0", "between 0 and 0.5"),
        ("trimmed:x", "between 0 and 0.5"),
        ("krum:0.5", "between 0 and 0.5, such as krum:0.2"),
        ("clipped:2", "takes no share"),
        ("mix+mean", "leaves something out"),
        ("mix+medain", "did you mean 'median'"),
    ],
)
def test_a_rule_that_is_none_is_refused_when_a_method_is_made(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        rule_of(text)
    for name in CATALOGUE:
        if "rule" in find(name).__dataclass_fields__:
            with pytest.raises(InputError, match=said):
                find(name)(rule=text)


def test_the_former_name_of_a_rule_is_understood() -> None:
    assert FedBN.renamed({"weighting": "samples"}) == {"rule": "weighted"}
    assert FedBN.renamed({"weighting": "uniform"}) == {"rule": "uniform"}
    assert find("fedprox").renamed({"spring": 1.0}) == {"spring": 1.0}
    with pytest.raises(InputError, match="former name of rule"):
        FedBN.renamed({"weighting": "samples", "rule": "median"})


def test_a_rule_that_is_not_its_own_is_part_of_a_methods_name() -> None:
    from perfed import methods

    assert FedAvg().label == FedAvg(rule="weighted").label == methods.label("fedavg", "mean") == "FedAvg"
    assert FedAvg(rule="median").label == methods.label("fedavg", "median") == "FedAvg (median)"
    assert FedBN(rule="uniform").label == methods.label("fedbn", "uniform") == "FedBN"
    assert FedBN(rule="mean").label == methods.label("fedbn", "mean") == "FedBN (mean)"
    assert find("local")().label == methods.label("local", None) == "Local"
    assert FedAvg(rule="mix+trimmed:0.2").label == methods.label("fedavg", "mix+trimmed:0.2") == "FedAvg (mix+trimmed:0.2)"
    assert set(RULES) == {"mean", "median", "trimmed", "uniform", "weighted", "krum", "multikrum", "geometric", "clipped"}


@pytest.mark.parametrize("name", CATALOGUE)
def test_with_equal_answers_every_rule_gives_the_same_server(name: str) -> None:
    """Another rule needs no copy of a method: where all clients answer alike, all rules agree."""
    from perfed import testing
    from perfed.transport import Site

    kind = find(name)
    if "rule" not in kind.__dataclass_fields__:
        return
    site, server, first = Site.of(kind(), testing.task(norm=bool(kind.needs)), testing.federation(5))
    up = site.train(0, site.method.send(server, 0), first, 1)[0]
    ends = []
    for rule in ("weighted", "uniform", "median", "trimmed", "krum", "multikrum:0.3", "mix+trimmed", "geometric", "clipped"):
        ends.append(kind(rule=rule).merge(server, Uploads(range(5), [3, 1, 4, 1, 5], [up] * 5)))
    assert all(trees.equal(ends[0], end) for end in ends[1:])
