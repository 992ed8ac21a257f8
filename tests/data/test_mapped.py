"""Data in files: seen where it lies, and what is larger than memory made in a file."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

import perfed
from perfed.data import Samples, load, mapped
from perfed.errors import DataError, RunError


@pytest.fixture
def small(monkeypatch, tmp_path):
    """Let every array be a large one, made in files below a cache of the test's own."""
    monkeypatch.setattr(mapped, "LARGE", 0)
    monkeypatch.setattr(mapped, "_BLOCK", 64)
    monkeypatch.setenv("PERFED_CACHE", str(tmp_path / "cache"))


def in_file(tensor):
    """Whether a tensor's memory is a mapped file."""
    maps = (re.match(r"(\w+)-(\w+) \S+ \S+ \S+ (\d+)", line) for line in Path("/proc/self/maps").read_text().splitlines())
    return any(int(m[1], 16) <= tensor.data_ptr() < int(m[2], 16) and int(m[3]) > 0 for m in maps if m)


def folder(path, **arrays):
    path.mkdir(exist_ok=True)
    for name, array in arrays.items():
        np.save(path / f"{name}.npy", array)
    return path


PICTURES = np.arange(40 * 3 * 8 * 8, dtype=np.uint8).reshape(40, 3, 8, 8)
LABELS = np.arange(40) % 2


def test_a_mapped_array_is_not_copied_and_equals_the_same_in_memory(tmp_path):
    folder(tmp_path, x=PICTURES)
    seen = Samples.of(np.load(tmp_path / "x.npy", mmap_mode="r"), LABELS)
    assert in_file(seen.x) and not in_file(Samples.of(PICTURES, LABELS).x)
    assert seen.digest() == Samples.of(PICTURES, LABELS).digest()


def test_a_folder_of_npy_files_is_mapped_and_trains_as_if_it_were_in_memory(tmp_path):
    where = folder(tmp_path / "clinics", x=PICTURES, y=LABELS, group=np.arange(40) % 4, groups=np.array(list("abcd")))
    samples = load(f"npy:{where}")
    assert in_file(samples.x) and samples.groups == tuple("abcd") and samples.name == "clinics"
    memory = Samples.of(PICTURES, LABELS, group=np.arange(40) % 4, groups="abcd")
    one, two = (
        perfed.train(perfed.federate(data), "fedper", rounds=1, transport="serial", progress=False) for data in (samples, memory)
    )
    assert one.digest == two.digest


@pytest.mark.parametrize(
    "made, kind",
    [
        (PICTURES.transpose(0, 2, 3, 1).copy(), "image"),  # channels last
        (PICTURES[:, 0], "image"),  # grey
        ((PICTURES / 255).astype(np.float32), "image"),
        (PICTURES.reshape(40, -1).astype(np.float64), "features"),
        (PICTURES.reshape(40, 3, -1).astype(">f4"), "signal"),
    ],
)
def test_what_must_be_changed_is_changed_block_by_block_into_a_file(tmp_path, small, made, kind):
    samples = load(f"npy:{folder(tmp_path, x=made, y=LABELS)}")
    assert samples.kind == kind and in_file(samples.x)
    with pytest.MonkeyPatch.context() as usual:
        usual.setattr(mapped, "LARGE", 1 << 30)
        assert samples.digest() == Samples.of(made, LABELS).digest()


def test_parts_are_joined_and_rows_taken_in_files(tmp_path, small):
    where = folder(tmp_path, x_train=PICTURES[:30], y_train=LABELS[:30], x_test=PICTURES[30:], y_test=LABELS[30:])
    samples = load(f"npy:{where}")
    assert in_file(samples.x) and samples.test.tolist() == [False] * 30 + [True] * 10
    assert np.array_equal(samples.x.numpy(), PICTURES)
    some = load(f"npy:{where}", fraction=0.2)
    assert in_file(some.x) and len(some) == 8 and some.test.sum() == 2
    assert all((samples.x == row).flatten(1).all(1).any() for row in some.x)


class Photos(torch.utils.data.Dataset):
    """A map-style data set that counts how often it is asked."""

    asked = 0

    def __len__(self):
        return 40

    def __getitem__(self, position):
        self.asked += 1
        return torch.from_numpy(PICTURES[position]), int(LABELS[position])


def test_a_map_style_dataset_is_read_item_by_item_and_once(small):
    photos = Photos()
    samples = Samples.of(photos)
    assert photos.asked == 40 and in_file(samples.x) and np.array_equal(samples.x.numpy(), PICTURES)


def test_items_of_wider_numbers_widen_the_rest():
    assert Samples.of([([1, 2], 0), ([0.5, 3], 1)], kind="features").x.tolist() == [[1, 2], [0.5, 3]]


def test_a_value_that_is_no_number_is_found_in_a_file_too(tmp_path, small):
    x = np.zeros((40, 5), np.float32)
    x[33, 2] = np.nan
    with pytest.raises(DataError, match="sample 33 has a value that is not a finite number"):
        load(f"npy:{folder(tmp_path, x=x, y=LABELS)}")


def test_the_file_vanishes_with_what_was_made_and_a_full_disk_is_a_sentence(tmp_path, small, monkeypatch):
    assert in_file(torch.from_numpy(mapped.empty((3, 2), np.float32)))
    assert list((tmp_path / "cache/mapped").iterdir()) == []

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(RunError, match="the disk is full"):
        mapped.empty((3, 2), np.float32)


@pytest.mark.parametrize(
    "arrays, said",
    [
        ({"y": LABELS}, r"has no x\.npy; of \.npy files it has y\.npy"),
        ({"x": PICTURES}, r"has no y\.npy"),
        ({"x": PICTURES, "y": LABELS[:3]}, "x has 40 samples, but y has 3"),
        ({"x": np.array([{}, {}]), "y": LABELS}, "never unpickled"),
    ],
)
def test_a_folder_that_lacks_something_is_refused_in_a_sentence(tmp_path, arrays, said):
    with pytest.raises(DataError, match=said):
        load(f"npy:{folder(tmp_path, **arrays)}")


def test_large_samples_are_tested_a_few_at_a_time(monkeypatch):
    clients = perfed.federate("digits", clients=3, partition="iid")
    monkeypatch.setattr("perfed.local.shard._BLOCK", 64 * 20)
    assert {len(batch.y) for batch in clients.batches(0, "test")} == {20, 10}
