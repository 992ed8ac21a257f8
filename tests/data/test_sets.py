"""Data sets by name: where they are looked for, what is fetched, and what the list says."""

import hashlib
import struct
import zipfile
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
import torch

from perfed.data import CATALOGUE, fetch, listing, load
from perfed.data.download import RemoteFile
from perfed.errors import DataError, InputError


def archive(folder, name, value, size=8):
    folder.mkdir(parents=True, exist_ok=True)
    x, y = np.full((4, size, size), value, np.uint8), np.array([0, 1, 2, 3], np.uint8)
    np.savez(folder / f"{name}.npz", x_train=x, y_train=y, x_test=x[:2], y_test=y[:2])


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder, its server on the loopback address, and the address."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "site"
    folder.mkdir()

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def test_the_catalogue_is_sorted_and_names_the_papers_sets():
    assert list(CATALOGUE) == sorted(CATALOGUE)
    assert all(entry.name == name for name, entry in CATALOGUE.items())
    papers = "ag_news amazon cifar10 cifar100 digits_five domainnet fashion_mnist har mnist office_caltech office_home"
    assert set(papers.split()) | {"pacs", "tiny_imagenet", "digits", "digits_domains"} <= set(CATALOGUE)


def test_every_set_can_be_fetched_or_says_how_to_get_it():
    for entry in CATALOGUE.values():
        embedded = any(not layout.files for layout in entry.layouts)
        assert embedded or entry.parts or entry.remotes or entry.by_hand, entry.name
        assert entry.licence and entry.source, entry.name
        for remote in entry.remotes:
            assert len(remote.md5) in (0, 32) and remote.url.startswith("http"), remote


def test_the_documentation_lists_every_set_with_its_sizes():
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text()
    rows = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `") and line.count("|") == 9}
    assert list(rows) == list(CATALOGUE)
    for name, entry in CATALOGUE.items():
        sizes = f"{entry.train:,} + {entry.test:,}" if entry.test else f"{entry.train:,}" if entry.train else "–"
        assert f"| {entry.kind} | {sizes} | {entry.classes} |" in rows[name] and entry.licence in rows[name]


def test_a_wrong_name_or_option_names_the_nearest():
    with pytest.raises(InputError, match="no data set 'fashon_mnist'; did you mean 'fashion_mnist'"):
        load("fashon_mnist")
    with pytest.raises(InputError, match="no option of data set digits 'sice'; did you mean 'size'"):
        load("digits", sice=3)
    with pytest.raises(InputError, match="no option of data set har 'size'"):
        load("har", size=32)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"fraction": 0}, "fraction must be a number above 0 and at most 1, got 0"),
        ({"fraction": 2}, "at most 1, got 2"),
        ({"fraction": "half"}, "got 'half'"),
        ({"size": -3}, "size must be a positive whole number, got -3"),
        ({"size": 2.5}, "got 2.5"),
        ({"size": True}, "got True"),
    ],
)
def test_options_out_of_range_are_refused(option, said):
    with pytest.raises(InputError, match=said):
        load("digits", **option)


def test_the_root_comes_first_then_the_environment_then_the_cache(tmp_path, monkeypatch):
    archive(tmp_path / "cache/data/mnist", "mnist", 3)
    monkeypatch.setenv("PERFED_CACHE", str(tmp_path / "cache"))
    assert load("mnist").x.unique().tolist() == [3]
    archive(tmp_path / "environment/mnist", "mnist", 2)
    monkeypatch.setenv("PERFED_DATA", str(tmp_path / "environment"))
    assert load("mnist").x.unique().tolist() == [2]
    archive(tmp_path / "root/mnist", "mnist", 1)
    assert load("mnist", root=tmp_path / "root").x.unique().tolist() == [1]
    assert load("mnist", root=tmp_path / "empty").x.unique().tolist() == [2]


def test_a_missing_set_says_what_was_looked_for_where_and_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PERFED_DATA", str(tmp_path / "d"))
    monkeypatch.setenv("PERFED_CACHE", str(tmp_path / "c"))
    with pytest.raises(DataError) as missing:
        load("cifar10", root=tmp_path / "r")
    said = str(missing.value)
    for place in (tmp_path / "r", tmp_path / "d", tmp_path / "c" / "data"):
        assert str(place) in said
    assert "data_batch_1.bin" in said and "test_batch.bin" in said and "cifar10_subset.npz" in said
    assert "cifar-10-batches-bin" in said and "perfed data fetch cifar10" in said


def test_size_resizes_images_and_fraction_thins_them(tmp_path):
    archive(tmp_path / "mnist", "mnist", 9)
    assert load("mnist", root=tmp_path, size=5).x.shape == (6, 1, 5, 5)
    assert load("mnist", root=tmp_path, size=8).x.unique().tolist() == [9]
    tenth = load("digits", fraction=0.1)  # of 178, 182, 177, 183, 181, 182, 181, 179, 174 and 180
    assert torch.bincount(tenth.y).tolist() == [18, 18, 18, 18, 18, 18, 18, 18, 17, 18]
    assert load("digits", fraction=0.1).digest() == tenth.digest()


def digit_domains(root):
    archive(root / "mnist", "mnist", 10, 28)
    archive(root / "digits5", "usps", 20, 16)
    x, y = np.full((2, 32, 32, 3), 30, np.uint8), np.array([5, 6])
    np.savez(root / "digits5/mnist_m.npz", x_train=x, y_train=y, x_test=x, y_test=y)


def test_digit_domains_are_unified_in_colour_and_size(tmp_path):
    digit_domains(tmp_path)
    made = load("digits_five", root=tmp_path, domains="usps,mnist,mnist_m")
    assert made.groups == ("mnist", "mnist_m", "usps") and made.x.shape == (16, 3, 32, 32)
    for group, value in enumerate((10, 30, 20)):
        assert made.x[made.group == group].unique().tolist() == [value]
    assert made.test.tolist() == [False] * 4 + [True] * 2 + [False] * 2 + [True] * 2 + [False] * 4 + [True] * 2
    assert load("digits_five", root=tmp_path, domains=("usps", "mnist"), size=28).x.shape == (12, 3, 28, 28)


def test_missing_digit_domains_are_named_with_the_ones_that_are_here(tmp_path):
    digit_domains(tmp_path)
    with pytest.raises(DataError, match="svhn and synth_digits are not here.*domains=mnist,mnist_m,usps,optdigits"):
        load("digits_five", root=tmp_path)


def test_a_digit_domain_without_an_official_test_part_gets_a_fixed_fifth(tmp_path):
    made = load("digits_five", root=tmp_path, domains=["optdigits"], size=8)
    counts = [int((made.y == c).sum()) for c in range(10)]
    assert [int((made.test & (made.y == c)).sum()) for c in range(10)] == [int(n / 5 + 0.5) for n in counts]


def test_the_list_says_what_is_here(tmp_path):
    archive(tmp_path / "mnist", "mnist", 1)
    rows = {row["name"]: row for row in listing(tmp_path)}
    assert list(rows) == list(CATALOGUE)
    assert rows["mnist"]["here"] and rows["mnist"]["where"] == str(tmp_path / "mnist")
    assert rows["mnist"]["samples"] == 70_000 and rows["mnist"]["classes"] == 10 and rows["mnist"]["kind"] == "image"
    assert rows["digits"]["here"] and not rows["cifar10"]["here"]
    assert rows["cifar10"]["get"] == "get it with: perfed data fetch cifar10" and rows["mnist"]["get"] == ""
    assert rows["digits_five"]["edition"] == "1 of 5 domains" and not rows["digits_five"]["here"]


def idx_files(folder):
    for part in ("train", "t10k"):
        (folder / f"{part}-images-idx3-ubyte").write_bytes(b"\0\0\x08\x03" + struct.pack(">3I", 1, 2, 2) + b"abcd")
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(b"\0\0\x08\x01" + struct.pack(">I", 1) + b"\x05")
    return sorted(folder.iterdir())


def test_a_fetched_set_can_be_loaded(site, monkeypatch, tmp_path):
    folder, address = site
    remotes = [RemoteFile(url=address + file.name, md5=hashlib.md5(file.read_bytes()).hexdigest()) for file in idx_files(folder)]
    monkeypatch.setitem(CATALOGUE, "mnist", replace(CATALOGUE["mnist"], remotes=tuple(remotes)))
    seen = []
    place = fetch("mnist", progress=lambda *step: seen.append(step))
    assert load("mnist").y.tolist() == [5, 5]
    assert place.name == "mnist" and {name for name, _, _ in seen} == {file.name for file in folder.iterdir()}
    for file in folder.iterdir():
        file.unlink()
    assert fetch("mnist") == place  # nothing more to bring


def test_a_fetched_archive_without_the_files_is_refused(site, monkeypatch):
    folder, address = site
    with zipfile.ZipFile(folder / "set.zip", "w") as packed:
        packed.writestr("readme.txt", "sorry")
    wrong = replace(CATALOGUE["cifar10"], remotes=(RemoteFile(url=address + "set.zip", unpack=True),))
    monkeypatch.setitem(CATALOGUE, "cifar10", wrong)
    with pytest.raises(DataError, match="lacks data_batch_1.bin"):
        fetch("cifar10")


def test_terms_must_be_accepted_before_anything_is_downloaded():
    with pytest.raises(DataError, match="non-commercial research only.*perfed data fetch tiny_imagenet --accept"):
        fetch("tiny_imagenet")


def test_sets_to_be_got_by_hand_say_so(tmp_path):
    with pytest.raises(DataError, match=f"Office-Home cannot be fetched for you: accept the terms.*{tmp_path}"):
        fetch("office_home", into=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_embedded_sets_need_no_download(tmp_path):
    assert fetch("digits", into=tmp_path) == tmp_path and fetch("optdigits", into=tmp_path) == tmp_path


def test_digits_five_fetches_its_parts_and_names_the_rest(site, monkeypatch, tmp_path):
    folder, address = site
    files = idx_files(folder)
    for name in ("mnist", "svhn", "usps"):
        entry = CATALOGUE[name]
        remotes = tuple(RemoteFile(url=address + f.name) for f in files)
        monkeypatch.setitem(CATALOGUE, name, replace(entry, remotes=remotes, layouts=CATALOGUE["mnist"].layouts[:1]))
    with pytest.raises(DataError, match="must be got by hand and put below.*MNIST-M.*SynthDigits"):
        fetch("digits_five", into=tmp_path / "into", accept=True)
    assert load("mnist", root=tmp_path / "into").y.tolist() == [5, 5]
