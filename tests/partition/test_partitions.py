"""Each partition shares samples as its paper says."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st

from perfed.data.samples import Samples as Loaded
from perfed.errors import DataError, InputError
from perfed.partition import (
    PARTITIONS,
    ClientDirichlet,
    ClientPathological,
    Dirichlet,
    Domains,
    Iid,
    Natural,
    Pathological,
    Timeline,
    build,
    split,
)
from perfed.partition.clientwise import exact
from perfed.partition.cut import part_sizes
from perfed.partition.pooled import top_up


@dataclass
class Samples:
    """What a partition looks at."""

    y: np.ndarray
    classes: tuple[str, ...]
    group: np.ndarray | None = None
    groups: tuple[str, ...] | None = None
    test: np.ndarray | None = None

    def digest(self) -> str:
        return "d" * 64


def balanced(classes=10, each=100, **more) -> Samples:
    """``each`` samples of every class, the classes taking turns."""
    return Samples(np.tile(np.arange(classes), each), tuple(map(str, range(classes))), **more)


def everything(result) -> np.ndarray:
    return np.sort(np.concatenate([result.owned(client) for client in range(result.clients)]))


POOLED = [
    Iid(),
    Dirichlet(alpha=0.1),
    Dirichlet(alpha=0.5, minimum=5),
    Dirichlet(alpha=100),
    Pathological(classes_per_client=2),
    Pathological(classes_per_client=3, balanced=True),
]


@given(
    partition=st.sampled_from(POOLED),
    clients=st.integers(5, 12),
    classes=st.integers(3, 10),
    each=st.integers(40, 120),
    seed=st.integers(0, 2**32),
    validation=st.sampled_from([0.0, 0.1, 0.3]),
    test=st.sampled_from([0.0, 0.25]),
)
@example(partition=Dirichlet(alpha=0.1), clients=10, classes=3, each=40, seed=1, validation=0.0, test=0.0)
def test_pooled_partitions_keep_every_sample_once_or_refuse(partition, clients, classes, each, seed, validation, test):
    data = balanced(classes, each)
    try:
        result = split(data, partition, clients, seed, validation, test)
    except InputError as refusal:
        assert isinstance(partition, Dirichlet), "only chance may fail to give every client enough"
        assert "tries: at best" in str(refusal)
        event("refused")
        return
    assert result.clients == clients
    assert np.array_equal(everything(result), np.arange(classes * each))
    assert result.digest() == split(data, partition, clients, seed, validation, test).digest()
    for train, check, held in result.sizes():
        total = train + check + held
        assert train >= 1
        assert (check > 0) == (validation > 0 and total >= 3)
        assert (held > 0) == (test > 0 and total >= 2)


@pytest.mark.parametrize("name", ["iid", "dirichlet", "pathological", "client_dirichlet", "client_pathological"])
def test_the_seed_changes_the_split(name):
    data = balanced(test=np.arange(1000) >= 800)
    assert split(data, build(name), 5, 0) == split(data, build(name), 5, 0)
    assert split(data, build(name), 5, 0).digest() != split(data, build(name), 5, 1).digest()


def test_a_split_is_the_same_on_every_machine():
    data = balanced()
    found = {name: split(data, build(name), 10, 0).digest()[:16] for name in ("dirichlet", "iid", "pathological")}
    assert found == {"dirichlet": "4620df0d42941c9f", "iid": "0cf61e19dbdf46a6", "pathological": "c634dd39641669f4"}


def test_iid_shares_differ_by_at_most_one():
    totals = split(balanced(each=101), Iid(), 7, 0).sizes().sum(axis=1)
    assert sorted(totals) == [144] * 5 + [145] * 2


def test_fractions_are_of_each_clients_own_samples():
    result = split(balanced(), Iid(), 10, 0, validation=0.1, test=0.25)
    assert result.sizes().tolist() == [[65, 10, 25]] * 10


@pytest.mark.parametrize(
    ("samples", "expected"),
    [(1, (1, 0, 0)), (2, (1, 0, 1)), (3, (1, 1, 1)), (4, (2, 1, 1)), (10, (6, 1, 3)), (100, (65, 10, 25))],
)
def test_small_clients_fill_train_then_test_then_validation(samples, expected):
    assert part_sizes(samples, 0.1, 0.25) == expected


@given(st.integers(1, 300), st.floats(0, 0.5), st.floats(0, 0.49))
def test_parts_add_up_and_leave_something_to_train_on(samples, validation, test):
    train, check, held = part_sizes(samples, validation, test)
    assert train + check + held == samples
    assert train >= 1
    assert check >= 0


# --- pathological (FedCP, GPFL) ---


def test_pathological_groups_share_label_sets():
    result = split(balanced(each=400), Pathological(), 20, 1)
    held = [set(np.flatnonzero(row)) for row in result.label_counts(balanced(each=400).y, 10)]
    assert held == [{0, 1}] * 4 + [{2, 3}] * 4 + [{4, 5}] * 4 + [{6, 7}] * 4 + [{8, 9}] * 4


@given(st.integers(1, 40), st.integers(1, 20), st.data())
def test_even_rounding_gives_every_client_its_classes_and_every_class_an_owner(clients, classes, data):
    each = data.draw(st.integers(1, classes))
    owners = Pathological(classes_per_client=each).owners(clients, classes)
    taken = np.bincount([client for row in owners for client in row], minlength=clients)
    assert taken.tolist() == [each] * clients
    counts = [len(row) for row in owners]
    assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize(("clients", "classes", "each"), [(20, 10, 2), (20, 100, 10), (20, 200, 20), (50, 10, 2), (30, 10, 5)])
def test_roundings_agree_on_the_papers_settings(clients, classes, each):
    owners = [Pathological(classes_per_client=each, rounding=way).owners(clients, classes) for way in ("even", "ceil", "floor")]
    assert owners[0] == owners[1] == owners[2]


def test_published_rounding_can_leave_classes_to_nobody_and_says_so():
    result = split(balanced(), Pathological(rounding="ceil"), 12, 0)  # ceil(12·2/10) = 3 owners: 24 places serve 8 classes
    assert result.settings["notes"] == {"unowned_classes": [8, 9]}
    with pytest.raises(InputError, match="leaves 1 of 16 clients without samples"):
        split(balanced(), Pathological(rounding="floor"), 16, 0)


def test_random_shares_stay_in_their_bounds_and_follow_the_order_of_the_data():
    partition = Pathological(minimum=40)
    for seed in range(20):
        *drawn, last = partition.shares(400, 4, 10, np.random.default_rng(seed))
        assert all(10 <= share < 100 for share in drawn)  # max(100/10, 40/10) and 400/4
        assert last == 400 - sum(drawn)
    data = balanced(each=400)
    result = split(data, partition, 20, 0)
    zeros = [result.owned(client)[data.y[result.owned(client)] == 0] for client in range(4)]
    assert all(low.max() < high.min() for low, high in zip(zeros, zeros[1:], strict=False))


def test_balanced_shares_are_equal():
    counts = split(balanced(), Pathological(balanced=True), 20, 0).label_counts(balanced().y, 10)
    assert set(counts[counts > 0]) == {25}


# --- Dirichlet per class (MOON, FedCP, GPFL) ---


def test_a_client_with_its_share_gets_no_further_class():
    data = balanced(each=400)
    counts = split(data, Dirichlet(alpha=0.1), 20, 3).label_counts(data.y, 10)
    before = np.cumsum(counts, axis=1) - counts
    assert (counts[before >= 4000 / 20] == 0).all()


def test_every_client_owns_the_minimum_or_half_the_mean_share():
    assert split(balanced(each=400), Dirichlet(), 20, 0).sizes().sum(axis=1).min() >= 40
    result = split(balanced(each=20), Dirichlet(alpha=1), 10, 0)
    assert result.settings["notes"]["minimum"] == 10
    assert result.sizes().sum(axis=1).min() >= 10


def test_large_alpha_is_nearly_even():
    data = balanced(each=1000)
    counts = split(data, Dirichlet(alpha=10000), 10, 0).label_counts(data.y, 10)
    assert abs(counts[:, :9] - 100).max() <= 10  # the last class fills up whoever is open


def test_five_hundred_uneven_clients_end_with_the_lowered_minimum_recorded():
    result = split(balanced(each=6000), Dirichlet(alpha=0.1), 500, 0)
    notes = result.settings["notes"]
    assert (notes["minimum"], notes["wanted_minimum"]) == (3, 40)
    assert result.sizes().sum(axis=1).min() >= 3
    assert result.sizes().sum() == 60000
    assert result.sizes().min() >= 1


def test_an_impossible_dirichlet_split_is_refused_with_the_reason():
    with pytest.raises(InputError, match=r"alpha=0.01 of 60000 samples over 500 clients in 500 tries: at best \d+ clients"):
        split(balanced(each=6000), Dirichlet(alpha=0.01), 500, 0)


def test_topping_up_moves_samples_from_the_largest():
    sizes = np.array([[9, 1, 0], [2, 0, 4]])
    assert top_up(sizes, 3).tolist() == [[7, 3, 0], [2, 0, 4]]
    assert sizes.tolist() == [[9, 1, 0], [2, 0, 4]]


def test_the_training_part_alone_can_be_shared():
    data = balanced(test=np.arange(1000) >= 800)
    assert everything(split(data, Iid(pool="train"), 4, 0)).tolist() == list(range(800))
    assert everything(split(data, Iid(), 4, 0)).tolist() == list(range(1000))


# --- per client (FedCAC) ---


def official(classes=10, each=700) -> Samples:
    y = np.tile(np.arange(classes), each)
    return Samples(y, tuple(map(str, range(classes))), test=np.arange(len(y)) >= classes * (each - 150))


@given(
    st.sampled_from([ClientDirichlet(alpha=0.01), ClientDirichlet(), ClientDirichlet(alpha=5.0), ClientPathological()]),
    st.integers(0, 1000),
    st.sampled_from([0.0, 0.1]),
)
def test_fedcac_clients_own_exactly_500_and_100(partition, seed, validation):
    data = official()
    result = split(data, partition, 8, seed, validation)
    sizes = result.sizes()
    assert (sizes[:, 0] == 500).all()
    assert (sizes[:, 2] == 100).all()
    assert (sizes[:, 1] == (50 if validation else 0)).all()
    for client in range(8):
        assert not data.test[result.train[client]].any()
        assert data.test[result.test[client]].all()
        assert not set(result.train[client]) & set(result.validation[client])
        assert len(set(result.train[client])) == 500
        train = np.bincount(data.y[result.train[client]], minlength=10)
        test = np.bincount(data.y[result.test[client]], minlength=10)
        assert abs(train / 5 - test).max() <= 5  # the same shares; roundings by half a sample add up in the last class


def test_fedcac_pathological_clients_own_two_classes_in_equal_parts():
    data = official()
    result = split(data, ClientPathological(), 20, 0, validation=0.0)
    rows = result.label_counts(data.y, 10)
    assert [sorted(row[row > 0]) for row in rows] == [[300, 300]] * 20
    assert len({tuple(np.flatnonzero(row)) for row in rows}) > 5


def test_counts_are_rounded_in_class_order_and_add_up():
    assert exact(np.array([0.25, 0.3, 0.45]), 10) == [2, 3, 5]
    assert exact(np.array([0.5, 0.5, 0.0]), 5) == [2, 3, 0]
    assert exact(np.array([0.19, 0.19, 0.19, 0.19, 0.24]), 3) == [1, 1, 1, 0, 0]


def test_a_class_that_is_too_small_repeats_for_training_but_never_across_parts():
    data = official(each=160)  # 10 per class to train on
    result = split(data, ClientPathological(), 5, 0)
    assert (result.sizes()[:, [0, 2]] == [500, 100]).all()
    assert all(len(set(train)) < 500 for train in result.train)
    for client in range(5):
        assert not set(result.train[client]) & set(result.validation[client])


def test_data_without_an_official_test_part_gets_a_random_one():
    result = split(balanced(), ClientDirichlet(train_size=50, test_size=10), 6, 0)
    tested = {index for client in result.test for index in client}
    trained = {index for part in (result.train, result.validation) for client in part for index in client}
    assert result.settings["notes"] == {"test_part": "random"}
    assert not tested & trained


# --- groups ---


def domains() -> Samples:
    """Three domains of 40, every fourth sample for testing."""
    return balanced(4, 30, group=np.arange(120) // 40, groups=("art", "photo", "sketch"), test=np.arange(120) % 4 == 0)


def test_domains_keep_all_test_items_and_the_first_training_items():
    result = split(domains(), Domains(samples=6), None, 0, validation=0.0)
    assert result.names == ("art", "photo", "sketch")
    assert [client.tolist() for client in result.train] == [
        [1, 2, 3, 5, 6, 7],
        [41, 42, 43, 45, 46, 47],
        [81, 82, 83, 85, 86, 87],
    ]
    assert result.test[1].tolist() == list(range(40, 80, 4))


def test_validation_comes_out_of_a_domains_training_items():
    result = split(domains(), Domains(samples=20), None, 0, validation=0.1)
    assert result.sizes().tolist() == [[18, 2, 10]] * 3


def test_several_clients_of_a_domain_share_its_test_items_and_nothing_else():
    result = split(domains(), Domains(), 6, 0, validation=0.0)
    assert result.names == ("art 1", "art 2", "photo 1", "photo 2", "sketch 1", "sketch 2")
    assert result.sizes().tolist() == [[15, 0, 10]] * 6
    assert sorted([*result.train[2], *result.train[3], *result.test[2]]) == list(range(40, 80))
    assert result.test[2].tolist() == result.test[3].tolist()


def test_domains_without_official_test_items_hold_out_a_fraction():
    data = domains()
    data.test = None
    result = split(data, Domains(), 3, 0, validation=0.0, test=0.25)
    assert result.sizes().tolist() == [[30, 0, 10]] * 3
    assert everything(result).tolist() == list(range(120))


def test_natural_gives_every_group_value_a_client():
    data = balanced(2, 10, group=np.array([5] * 12 + [2] * 8))
    result = split(data, Natural(), None, 0)
    assert result.names == ("2", "5")
    assert sorted(result.owned(0)) == list(range(12, 20))
    assert result.sizes().sum(axis=1).tolist() == [8, 12]


def test_a_timeline_trains_on_what_comes_first_and_tests_on_what_comes_last():
    data = balanced(2, 10, group=np.array([5] * 12 + [2] * 8))
    result = split(data, Timeline(), None, 0, validation=0.25, test=0.25)
    assert result.names == ("2", "5")
    assert [part[1].tolist() for part in (result.train, result.validation, result.test)] == [[*range(6)], [6, 7, 8], [9, 10, 11]]
    assert [part[0].tolist() for part in (result.train, result.validation, result.test)] == [[*range(12, 16)], [16, 17], [18, 19]]
    assert split(data, Timeline(), None, 7, validation=0.25, test=0.25).train[1].tolist() == result.train[1].tolist()


def test_a_random_subset_of_a_larger_split_keeps_those_clients_as_they_were():
    data = balanced(each=400)
    all_clients = split(data, Dirichlet(), 50, 0)
    few = split(data, Dirichlet(subset_of=50), 10, 0)
    assert few.clients == 10
    chosen = few.settings["subset"]
    assert chosen == sorted(set(chosen))
    for client, origin in enumerate(chosen):
        assert few.train[client].tolist() == all_clients.train[origin].tolist()
        assert few.test[client].tolist() == all_clients.test[origin].tolist()
    assert few.settings["subset"] != split(data, Dirichlet(subset_of=50), 10, 1).settings["subset"]


def test_loaded_samples_are_split_and_their_digest_kept():
    samples = Loaded.of(np.zeros((12, 2), np.float32), [0, 1] * 6, group=["a", "b", "c"] * 4, test=np.arange(12) >= 9)
    result = split(samples, Domains(), 3, 0, validation=0.0)
    assert result.names == ("a", "b", "c")
    assert [client.tolist() for client in result.test] == [[9], [10], [11]]
    assert result.data == samples.digest()


# --- refusals ---


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("dirichlet", {"alpha": -1}, "alpha must be positive, got -1; 0.1 is very uneven, 100 nearly even"),
        ("dirichlet", {"alpha": 0}, "alpha must be positive, got 0"),
        ("dirichlet", {"alpha": float("nan")}, "alpha must be positive, got nan"),
        ("dirichlet", {"alpha": "x"}, "alpha must be positive, got 'x'"),
        ("client_dirichlet", {"alpha": -0.5}, "alpha must be positive, got -0.5"),
        ("client_dirichlet", {"train_size": 0}, "train_size must be a whole number of at least 1, got 0"),
        ("pathological", {"classes_per_client": 0}, "classes_per_client must be a whole number of at least 1"),
        ("pathological", {"classes_per_client": 2.5}, "got 2.5"),
        ("pathological", {"rounding": "up"}, "rounding must be one of even, ceil, floor, got 'up'"),
        ("pathological", {"balanced": 1}, "balanced must be true or false, got 1"),
        ("iid", {"pool": "test"}, "pool must be one of all, train"),
        ("iid", {"subset_of": 0}, "subset_of must be a whole number of at least 1"),
        ("domains", {"samples": 0}, "samples must be a whole number of at least 1"),
        ("dirichlet", {"alhpa": 1}, "no option of partition dirichlet 'alhpa'; did you mean 'alpha'?"),
        ("dirichlt", {}, "no partition 'dirichlt'; did you mean 'dirichlet'?"),
    ],
)
def test_options_that_cannot_be_right_are_refused(name, options, message):
    with pytest.raises(InputError) as refusal:
        build(name, **options)
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    ("partition", "clients", "more", "message"),
    [
        (Iid(), 1001, {}, "1001 clients cannot share 1000 samples"),
        (Iid(), None, {}, "partition iid needs a number of clients"),
        (Iid(), 0, {}, "clients must be a whole number of at least 1, got 0"),
        (Pathological(classes_per_client=11), 5, {}, "classes_per_client is 11, but the data has only 10 classes"),
        (ClientPathological(classes_per_client=11), 5, {}, "classes_per_client is 11"),
        (Domains(), None, {}, "partition domains needs groups"),
        (Natural(), None, {}, "partition natural needs groups"),
        (Timeline(), None, {}, "partition timeline needs groups"),
        (Iid(subset_of=5), 6, {}, "6 clients cannot be chosen from subset_of=5"),
        (Iid(), 5, {"validation": 1.0}, "validation must be from 0 to below 1, got 1.0"),
        (Iid(), 5, {"validation": 0.5, "test": 0.5}, "leave nothing to train on"),
        (Iid(), 5, {"test": float("nan")}, "test must be from 0 to below 1"),
        (Iid(), 5, {"seed": -1}, "seed must be a whole number from 0"),
    ],
)
def test_splits_that_cannot_be_made_are_refused(partition, clients, more, message):
    with pytest.raises(InputError) as refusal:
        split(balanced(), partition, clients, **({"seed": 0} | more))
    assert message in str(refusal.value)


def test_a_number_of_clients_that_does_not_fit_the_groups_is_refused():
    with pytest.raises(InputError, match="multiple of the 3 domains, got 4"):
        split(domains(), Domains(), 4, 0)
    for kind in (Natural, Timeline):
        with pytest.raises(InputError, match=f"{kind.name} makes 3 clients.*subset_of=3"):
            split(domains(), kind(), 2, 0)
    assert split(domains(), Natural(subset_of=3), 2, 0).clients == 2


def test_labels_out_of_range_are_refused():
    with pytest.raises(DataError, match="labels run from 0 to 9, but there are 5 classes"):
        split(Samples(balanced().y, ("a", "b", "c", "d", "e")), Iid(), 2, 0)


def test_whole_numbers_and_floats_make_the_same_split():
    assert split(balanced(), Dirichlet(alpha=1), 5, 0) == split(balanced(), Dirichlet(alpha=1.0), 5, 0)


def test_the_catalogue_is_sorted_and_knows_its_names():
    assert list(PARTITIONS) == sorted(PARTITIONS)
    assert all(kind.name == name for name, kind in PARTITIONS.items())
