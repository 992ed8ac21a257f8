"""The real data sets, where PERFED_DATA has them: counts as published, and the same samples from either format."""

import struct

import numpy as np
import pytest
import torch

from perfed.data import listing, load

PUBLISHED = {  # name: (shape of x, samples per class of the first classes, official test samples)
    "ag_news": ((17_599, 0), [4414, 4404, 4419, 4362], 7_600),
    "amazon": ((27_677, 5000), [13_795, 13_882], 19_677),
    "cifar10": ((15_000, 3, 32, 32), [1500] * 10, 3_000),
    "fashion_mnist": ((70_000, 1, 28, 28), [7000] * 10, 10_000),
    "har": ((10_411, 9, 1, 128), [1722, 1544, 1407, 1801, 1979, 1958], 2_996),
    "mnist": ((70_000, 1, 28, 28), [6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958], 10_000),
    "mnist_m": ((5_000, 3, 32, 32), [500] * 10, 1_000),
    "optdigits": ((1_797, 1, 8, 8), [178, 182, 177, 183, 181, 182, 181, 179, 174, 180], None),
    "pacs": ((9_991, 3, 64, 64), [1729, 1654, 1566, 1113, 1540, 943, 1446], None),
    "tiny_imagenet": ((12_000, 3, 64, 64), [60] * 200, 2_000),
    "usps": ((9_298, 1, 16, 16), [1553, 1269, 929, 824, 852, 716, 834, 792, 708, 821], 2_007),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_counts_are_those_published(real, name):
    if not next(row for row in listing() if row["name"] == name)["here"]:
        pytest.skip(f"{name} is not in PERFED_DATA")
    shape, classes, test = PUBLISHED[name]
    made = load(name)
    assert tuple(made.x.shape) == shape
    assert torch.bincount(made.y).tolist() == classes
    assert (None if made.test is None else int(made.test.sum())) == test


def test_groups_are_those_published(real):
    assert torch.bincount(load("pacs", size=8).group).tolist() == [2048, 2344, 1670, 3929]
    assert torch.bincount(load("amazon", features=1).group).tolist() == [6465, 5586, 7681, 7945]
    subjects = torch.bincount(load("har").group)
    assert len(subjects) == 30 and subjects.min() == 284 and subjects.max() == 413


def test_fashion_mnist_is_kept_as_bytes(real):
    assert load("fashion_mnist").x.dtype == torch.uint8


def test_real_pixels_are_the_same_from_idx_files_and_from_the_archive(real, tmp_path):
    compact = load("fashion_mnist")
    (tmp_path / "fashion_mnist").mkdir()
    for part, chosen in (("train", ~compact.test), ("t10k", compact.test)):
        x, y = compact.x[chosen, 0].numpy(), compact.y[chosen].numpy().astype(np.uint8)
        head = b"\0\0\x08\x03" + struct.pack(">3I", *x.shape)
        (tmp_path / f"fashion_mnist/{part}-images-idx3-ubyte").write_bytes(head + x.tobytes())
        head = b"\0\0\x08\x01" + struct.pack(">I", len(y))
        (tmp_path / f"fashion_mnist/{part}-labels-idx1-ubyte").write_bytes(head + y.tobytes())
    assert load("fashion_mnist", root=tmp_path).digest() == compact.digest()


def test_real_counts_are_the_same_from_svmlight_and_from_the_archive(real, tmp_path):
    compact = load("amazon")
    (tmp_path / "amazon").mkdir()
    kept = []
    for group, domain in enumerate(compact.groups):
        for part in (False, True):
            chosen = torch.nonzero((compact.group == group) & (compact.test == part)).flatten()[:50]
            kept.append(chosen)
            lines = []
            for i in chosen.tolist():
                words = torch.nonzero(compact.x[i]).flatten().tolist()
                pairs = " ".join(f"{w}:{int(compact.x[i, w])}" for w in words)
                lines.append(f"{1 if compact.y[i] else -1} {pairs}\n")
            name = f"{domain}_{'test' if part else 'train'}.svmlight"
            (tmp_path / "amazon" / name).write_text("".join(lines))
    assert load("amazon", root=tmp_path).digest() == compact.take(torch.cat(kept)).digest()


def test_the_digits_in_the_archive_are_the_embedded_ones(real):
    assert load("optdigits").digest() == load("digits").digest()


def test_digit_domains_that_are_here_are_joined(real):
    made = load("digits_five", domains="mnist_m,usps,optdigits", fraction=0.1)
    assert made.x.shape[1:] == (3, 32, 32) and made.groups == ("mnist_m", "usps", "optdigits")
    assert set(made.y[made.group == 2].tolist()) == set(range(10))


def test_real_texts_are_kept_as_they_are(real):
    made = load("ag_news")
    first = made.texts[int(torch.nonzero(made.test)[0])]
    assert first.startswith("Fears for T N pension after talks . Unions representing workers at Turner")
    assert made.y[made.test][0] == 2 and made.classes[2] == "Business"
