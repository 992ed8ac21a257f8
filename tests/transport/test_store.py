"""The store of private states: in memory within a budget, then in files, always the same bits."""

from pathlib import Path

import torch

from perfed import trees
from perfed.transport import Private, Store


def state(value: float, size: int = 100) -> Private:
    mine = {"w": torch.full((size,), float(value)), "n": torch.tensor(int(value)), "m": torch.arange(9) % 2 == 0}
    return Private((mine, ()), {"~mean": torch.full((3,), -float(value))})


def test_a_client_that_never_trained_has_the_common_start_and_costs_nothing() -> None:
    store = Store(state(0), 5)
    assert store[3] is store.first and list(store) == []


def test_what_is_put_in_comes_out_in_client_order() -> None:
    store = Store(state(0), 5)
    for i in (3, 1):
        store[i] = state(i)
    assert list(store) == [1, 3] and trees.equal(store[3], state(3)) and trees.equal(store[2], state(0))


def test_beyond_the_budget_states_go_to_files_and_come_back_to_the_bit(tmp_path: Path) -> None:
    store = Store(state(0), 6, budget=1000, folder=tmp_path)  # two states of about 430 bytes
    for i in range(6):
        store[i] = state(i)
    assert len(list(tmp_path.iterdir())) == 4 and list(store) == list(range(6))
    for i in range(6):
        assert trees.equal(store[i], state(i)) and isinstance(store[i], Private)
        assert all(leaf.data_ptr() % 64 == 0 for leaf in trees.leaves(store[i]) if leaf.numel() > 8)


def test_the_longest_unused_goes_first(tmp_path: Path) -> None:
    store = Store(state(0), 3, budget=1000, folder=tmp_path)
    store[0], store[1] = state(0), state(1)
    store[0]
    store[2] = state(2)
    assert [path.stem for path in tmp_path.iterdir()] == ["client-1"]


def test_a_new_state_replaces_the_file(tmp_path: Path) -> None:
    store = Store(state(0), 3, budget=1000, folder=tmp_path)
    for i in (0, 1, 2):
        store[i] = state(i)
    store[0] = state(7)
    for i in (1, 2):
        store[i] = state(i)  # pushes client 0 out again
    assert trees.equal(store[0], state(7))


def test_one_state_larger_than_the_budget_still_fits(tmp_path: Path) -> None:
    store = Store(state(0), 2, budget=10, folder=tmp_path)
    store[0], store[1] = state(1), state(2)
    assert trees.equal(store[0], state(1)) and trees.equal(store[1], state(2))


def test_tensors_that_share_memory_can_be_put_away(tmp_path: Path) -> None:
    """A method may keep the very leaf that a BatchNorm policy keeps as well, or a slice of a larger tensor."""
    mean = torch.arange(3.0)
    shared = Private({"~mean": mean, "row": torch.arange(6.0).view(2, 3)[1]}, {"~mean": mean})
    store = Store(state(0), 2, budget=10, folder=tmp_path)
    store[0], store[1] = shared, state(1)
    assert trees.equal(store[0], shared)


def test_states_without_a_leaf_can_be_put_away(tmp_path: Path) -> None:
    store = Store(Private((), {}), 3, budget=10, folder=tmp_path)
    store[0], store[1] = Private((), {}), state(1)
    assert store[0] == Private((), {}) and list(store) == [0, 1]


def test_files_of_its_own_vanish_with_it() -> None:
    store = Store(state(0), 3, budget=10)
    store[0], store[1] = state(1), state(2)
    folder = store._folder
    assert folder is not None and folder.is_dir() and trees.equal(store[0], state(1))
    del store
    assert not folder.exists()
