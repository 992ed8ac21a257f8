"""A split is a value with a hash, and its file shows any change."""

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from perfed.errors import DataError, InputError
from perfed.partition import Split


def small() -> Split:
    """Three clients over ten samples."""
    return Split(
        train=(np.array([0, 1]), np.array([4]), np.array([7, 8])),
        validation=(np.array([2]), np.zeros(0, np.int64), np.array([9])),
        test=(np.array([3]), np.array([5, 6]), np.zeros(0, np.int64)),
        names=("a", "b", "c"),
        settings={"partition": "iid", "seed": 0},
        data="0" * 64,
    )


def test_clients_sizes_and_label_counts():
    split = small()
    assert split.clients == 3
    assert split.sizes().tolist() == [[2, 1, 1], [1, 0, 2], [2, 1, 0]]
    labels = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2, 0])
    assert split.label_counts(labels, 4).tolist() == [[2, 1, 1, 0], [1, 1, 1, 0], [1, 1, 1, 0]]


def test_arrays_cannot_be_written_to():
    with pytest.raises(ValueError, match="read-only"):
        small().train[0][0] = 5


def test_a_saved_split_is_read_back_equal(tmp_path):
    path = tmp_path / "split.safetensors"
    small().save(path)
    again = Split.load(path, data="0" * 64)
    assert again == small()
    assert again.digest() == small().digest()
    assert again.settings == small().settings
    assert [list(indices) for indices in again.test] == [[3], [5, 6], []]
    assert all(indices.dtype == np.int64 for indices in again.train)


def test_equal_splits_are_equal_files(tmp_path):
    for name in ("one", "two"):
        small().save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_nothing_but_the_file_is_left_behind(tmp_path):
    small().save(tmp_path / "split.safetensors")
    small().save(tmp_path / "split.safetensors")
    assert [path.name for path in tmp_path.iterdir()] == ["split.safetensors"]


def test_saving_where_there_is_no_folder_is_refused(tmp_path):
    with pytest.raises(DataError, match="cannot write the split .*none"):
        small().save(tmp_path / "none" / "split.safetensors")


@pytest.mark.parametrize("keep", [0, 5, 40, -1])
def test_a_cut_off_file_is_named(tmp_path, keep):
    path = tmp_path / "split.safetensors"
    small().save(path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataError, match="split.safetensors"):
        Split.load(path)


def test_every_flipped_byte_of_the_indices_is_noticed(tmp_path):
    path = tmp_path / "split.safetensors"
    small().save(path)
    contents = path.read_bytes()
    last = 3 * 3 * 8 + 10 * 4  # three sizes per part as int64, ten positions as int32
    for place in range(len(contents) - last, len(contents)):
        path.write_bytes(contents[:place] + bytes([contents[place] ^ 1]) + contents[place + 1 :])
        with pytest.raises(DataError, match="split.safetensors"):
            Split.load(path)


def test_edited_indices_do_not_match_the_hash(tmp_path):
    path = tmp_path / "split.safetensors"
    small().save(path)
    with safe_open(str(path), framework="np") as file:
        header = file.metadata()
    tensors = load_file(path)
    tensors["test"][0] = 4
    save_file(tensors, path, metadata=header)
    with pytest.raises(DataError, match="changed after it was written"):
        Split.load(path)


def test_a_split_of_other_data_is_refused(tmp_path):
    path = tmp_path / "split.safetensors"
    small().save(path)
    with pytest.raises(DataError, match="split.safetensors was made for other samples"):
        Split.load(path, data="1" * 64)


def test_a_missing_file_and_a_foreign_file_are_told_apart(tmp_path):
    with pytest.raises(DataError, match="no split at"):
        Split.load(tmp_path / "none")
    save_file({"x": np.zeros(3)}, tmp_path / "other")
    with pytest.raises(DataError, match="not a split"):
        Split.load(tmp_path / "other")


def test_a_subset_keeps_the_clients_own_samples_and_remembers_where_they_came_from():
    chosen = small().subset([2, 0])
    assert chosen.names == ("c", "a")
    assert chosen.train[0].tolist() == [7, 8]
    assert chosen.settings["subset"] == [2, 0]
    assert chosen.subset([1]).settings["subset"] == [0]
    assert chosen.digest() != small().digest()


@pytest.mark.parametrize("ids", [[3], [-1], [0, 0]])
def test_a_subset_of_clients_that_are_not_there_is_refused(ids):
    with pytest.raises(InputError, match="different clients from 0 to 2"):
        small().subset(ids)


def test_the_digest_sees_which_client_owns_a_sample():
    split = small()
    moved = Split(
        train=(np.array([0]), np.array([1, 4]), np.array([7, 8])),
        validation=split.validation,
        test=split.test,
        names=split.names,
        settings=split.settings,
        data=split.data,
    )
    assert moved.digest() != split.digest()


def test_parts_must_speak_of_the_same_clients():
    split = small()
    with pytest.raises(InputError, match="one array per client"):
        Split(split.train[:2], split.validation, split.test, split.names, {}, "")
