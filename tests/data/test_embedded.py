"""The embedded digits, and the five domains made from them."""

import numpy as np
import torch
from sklearn.datasets import load_digits

from perfed.data import load
from perfed.data.embedded import double, faint, inverted, tilted


def test_the_digits_are_bytes_with_full_contrast():
    made, bunch = load("digits"), load_digits()
    assert made.x.shape == (1797, 1, 8, 8) and made.x.dtype == torch.uint8
    assert made.x.max() == 255 and made.x.min() == 0
    assert np.abs(made.x[:, 0].numpy() - bunch.images * 255 / 16).max() <= 0.5
    assert np.array_equal(made.y.numpy(), bunch.target) and made.group is None and made.test is None


def test_every_domain_has_its_own_digits_with_balanced_labels():
    made = load("digits_domains")
    assert made.groups == ("faint", "inverted", "plain", "textured", "tilted")
    assert made.x.shape == (1797, 1, 16, 16) and torch.equal(made.y, load("digits").y)
    counts = torch.stack([torch.bincount(made.y[made.group == g], minlength=10) for g in range(5)])
    assert counts.sum() == 1797
    assert (counts.max(dim=0).values - counts.min(dim=0).values).max() <= 1  # of each class
    assert counts.sum(dim=1).max() - counts.sum(dim=1).min() <= 2


def test_the_domains_look_different():
    made = load("digits_domains")
    parts = [made.x[made.group == g].float() for g in range(5)]
    mean = dict(zip(made.groups, (float(p.mean()) for p in parts), strict=True))
    spread = dict(zip(made.groups, (float(p.flatten(1).std(dim=1).mean()) for p in parts), strict=True))
    assert mean["inverted"] > 150 > 100 > mean["plain"]
    assert spread["faint"] < 30 < spread["textured"] < spread["plain"]
    assert mean["tilted"] > 1.2 * mean["plain"]  # bold
    corner = {name: float(p[:, 0, :2, :2].std()) for name, p in zip(made.groups, parts, strict=True)}
    assert corner["textured"] > 20 > corner["plain"] + 5  # a background that is not flat


def test_the_rendering_is_the_same_on_every_machine():
    assert load("digits_domains").digest() == "64b076edef803992a25610f12366cc327cc5c16f2274496c4faf037a9bfbadf9"
    assert load("digits").digest() == "9d92d358fdf988b1cb25f2b0bdcadd645579df5c33363ebeab9cf69595140e3b"


def test_domains_can_be_chosen():
    made = load("digits_domains", domains="plain,faint", fraction=0.5)
    assert made.groups == ("faint", "plain") and set(made.group.tolist()) == {0, 1}


def test_doubling_weighs_neighbours_three_to_one():
    row = np.array([[[0, 8]]])
    assert double(row)[0].tolist() == [[0, 2, 6, 8], [0, 2, 6, 8]]


def test_inverting_twice_changes_nothing():
    x = np.arange(256).reshape(1, 16, 16)
    assert np.array_equal(inverted(inverted(x)), x)


def test_turning_moves_twelve_to_eleven_o_clock():
    x = np.zeros((1, 16, 16), dtype=np.int64)
    x[0, 1:8, 7:9] = 208  # a hand at twelve o'clock
    turned = tilted(x)[0]
    row, column = np.nonzero(turned > 100)
    # the tip, 6 pixels above the centre (7.5, 7.5), moves 6 · 5/13 = 2.3 to the left, and boldness half a pixel more
    assert abs(column[row < 4].mean() - (7.5 - 6 * 5 / 13 - 0.5)) < 0.5
    assert turned.max() <= 208


def test_blurring_keeps_a_flat_picture_flat_and_the_contrast_low():
    assert np.unique(faint(np.full((1, 16, 16), 255))).tolist() == [96 + 255 * 5 // 16]
    assert np.unique(faint(np.zeros((1, 16, 16), dtype=np.int64))).tolist() == [96]
