"""Stored samples become the same network inputs on every transport."""

import math
import pickle
from types import SimpleNamespace

import pytest
import torch

from perfed import keys
from perfed.data.inputs import Inputs, inputs_for, moved
from perfed.errors import InputError


def pictures(count=6, channels=3, size=8, seed=0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count, channels, size, size), dtype=torch.uint8, generator=generator)


def test_pixels_are_scaled_and_normalised_to_plus_minus_one():
    x = torch.tensor([0, 51, 255], dtype=torch.uint8).view(1, 1, 1, 3)
    assert torch.allclose(Inputs()(x).flatten(), torch.tensor([-1.0, -0.6, 1.0]))
    assert torch.allclose(Inputs(mean=None, std=None)(x).flatten(), torch.tensor([0.0, 0.2, 1.0]))


def test_channels_have_their_own_mean_and_deviation():
    x = torch.full((1, 2, 1, 1), 255, dtype=torch.uint8)
    found = Inputs(mean=(0.5, 0.2), std=(0.25, 0.4))(x)
    assert torch.allclose(found.flatten(), torch.tensor([2.0, 2.0]))


def test_pictures_come_out_channels_last_and_keep_their_values():
    x = pictures()
    found = Inputs()(x)
    assert found.is_contiguous(memory_format=torch.channels_last)
    assert torch.allclose(found, (x.float() / 255 - 0.5) / 0.5)


def test_other_kinds_keep_their_numbers():
    assert Inputs(kind="tokens")(torch.tensor([[1, 2]], dtype=torch.int32)).dtype == torch.int64
    signal = torch.randn(2, 9, 128)
    assert torch.equal(Inputs(kind="signal")(signal), signal)
    assert Inputs(kind="features")(torch.ones(2, 5, dtype=torch.float64)).dtype == torch.float32


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (2, 3, 1, 4)])
def test_signals_and_features_are_normalised_per_channel_where_asked(shape):
    x = torch.ones(shape)
    found = Inputs(kind="signal" if len(shape) > 2 else "features", mean=(0, 1, 2), std=(1, 1, 0.5))(x)
    assert torch.equal(found.transpose(0, 1).flatten(1)[:, 0], torch.tensor([1.0, 0.0, -2.0]))
    assert found.shape == x.shape
    assert torch.equal(Inputs(kind="signal", mean=3, std=2)(x), torch.full(shape, -1.0))


def test_without_a_key_nothing_is_random():
    x = pictures()
    assert torch.equal(Inputs(flip=True, rotate=30.0, crop=2)(x), Inputs()(x))


def test_a_key_fixes_the_pictures():
    x, inputs = pictures(), Inputs(flip=True, rotate=30.0, crop=2)
    assert torch.equal(inputs(x, keys.key(1)), inputs(x, keys.key(1)))
    assert not torch.equal(inputs(x, keys.key(1)), inputs(x, keys.key(2)))


def test_a_picture_does_not_depend_on_how_many_follow_it():
    x, inputs = pictures(), Inputs(flip=True, rotate=30.0, crop=2)
    assert torch.equal(inputs(x, keys.key(1))[:3], inputs(x[:3], keys.key(1)))


def test_stacked_clients_see_the_same_pictures():
    x, inputs = torch.stack([pictures(seed=s) for s in range(3)]), Inputs(flip=True, rotate=30.0, crop=2)
    many = torch.stack([keys.key(s) for s in range(3)])
    together = torch.vmap(inputs)(x, many)
    for client in range(3):
        assert torch.equal(together[client], inputs(x[client], many[client]))


def test_half_of_the_pictures_are_mirrored():
    x = pictures(400)
    found = Inputs(mean=None, std=None, flip=True)(x, keys.key(0))
    plain = Inputs(mean=None, std=None)(x)
    kept = (found == plain).flatten(1).all(dim=1)
    mirrored = (found == plain.flip(3)).flatten(1).all(dim=1)
    assert (kept ^ mirrored).all()
    assert 150 < int(mirrored.sum()) < 250


def test_rotation_about_the_centre_and_shifts_are_exact():
    x = torch.tensor([[1, 2, 3], [4, 5, 6], [7, 8, 9]], dtype=torch.uint8).view(1, 1, 3, 3)
    none = torch.zeros(1)
    quarter = moved(x, torch.tensor([math.pi / 2]), none, none)
    assert torch.equal(quarter[0, 0], torch.rot90(x[0, 0]))
    assert torch.equal(moved(x, torch.tensor([math.pi]), none, none)[0, 0], torch.rot90(x[0, 0], 2))
    assert torch.equal(moved(x, none, none, none), x)
    shifted = moved(x, none, torch.tensor([1.0]), torch.tensor([-1.0]))
    assert shifted[0, 0].tolist() == [[0, 4, 5], [0, 7, 8], [0, 0, 0]]


def test_rotation_agrees_with_grid_sampling():
    x, angle = pictures(4, 2, 9), torch.tensor([0.3, -0.5, 0.1, 0.0])
    found = moved(x, angle, torch.zeros(4), torch.zeros(4))
    cos, sin, zero = torch.cos(angle), torch.sin(angle), torch.zeros(4)
    theta = torch.stack([torch.stack([cos, -sin, zero], 1), torch.stack([sin, cos, zero], 1)], 1)
    grid = torch.nn.functional.affine_grid(theta, list(x.shape), align_corners=False)
    other = torch.nn.functional.grid_sample(x.float(), grid, mode="nearest", align_corners=False)
    assert (found.float() != other).float().mean() < 0.02  # a pixel halfway between two may go either way


def test_angles_spread_over_the_whole_range():
    x = torch.zeros(300, 1, 41, 41, dtype=torch.uint8)
    x[:, 0, 20, 38] = 255  # a point 18 pixels right of the centre
    found = Inputs(mean=None, std=None, rotate=30.0)(x, keys.key(3))
    rows = [(picture[0] > 0).nonzero()[0, 0].item() - 20 for picture in found if picture.sum() > 0]
    assert max(rows) <= 9 and min(rows) >= -9  # 18·sin 30°
    assert max(rows) >= 8 and min(rows) <= -8


def test_shifts_reach_every_offset():
    x = torch.zeros(300, 1, 9, 9, dtype=torch.uint8)
    x[:, 0, 4, 4] = 255
    found = Inputs(mean=None, std=None, crop=2)(x, keys.key(3)).nonzero()[:, 2:]
    assert {tuple(place) for place in found.tolist()} == {(row, column) for row in range(2, 7) for column in range(2, 7)}


def test_pictures_are_resized_and_the_shape_follows():
    inputs = Inputs(size=16)
    x = torch.full((2, 3, 8, 8), 255, dtype=torch.uint8)
    assert inputs(x).shape == (2, *inputs.shape((3, 8, 8))) == (2, 3, 16, 16)
    assert torch.allclose(inputs(x), torch.ones(2, 3, 16, 16))
    assert Inputs().shape((3, 8, 8)) == (3, 8, 8)


@pytest.mark.parametrize("channels", [1, 3])
def test_convolutions_take_pictures_for_channels_last_also_where_there_is_one_channel(channels):
    x = Inputs()(pictures(count=4, channels=channels))
    assert x[1:3].stride() == (64 * channels, 1, 8 * channels, channels)
    out = torch.nn.functional.conv2d(x[1:3], torch.ones(5, channels, 3, 3))
    assert out.is_contiguous(memory_format=torch.channels_last)


def test_inputs_are_values_that_travel_to_other_processes():
    inputs = Inputs(flip=True, rotate=15.0, mean=(0.1, 0.2, 0.3), std=(1, 1, 1))
    assert pickle.loads(pickle.dumps(inputs)) == inputs
    assert hash(inputs) == hash(pickle.loads(pickle.dumps(inputs)))


def stored(kind="image", channels=3):
    return SimpleNamespace(kind=kind, x=pictures(channels=channels))


def test_defaults_follow_the_kind_and_augmentation_is_the_papers():
    assert inputs_for(stored()) == Inputs()
    assert inputs_for(stored(), augment=True) == Inputs(flip=True, rotate=30.0)
    assert inputs_for(stored(), augment=True, flip=False, rotate=15, crop=4) == Inputs(rotate=15, crop=4)
    assert inputs_for(stored(), mean=None, std=None) == Inputs(mean=None, std=None)
    assert inputs_for(stored("tokens")).kind == "tokens"
    assert not inputs_for(stored()).augments


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Inputs(kind="images"), "no kind of samples 'images'; did you mean 'image'?"),
        (lambda: Inputs(rotate=-5), "rotate must be from 0 to 180 degrees, got -5"),
        (lambda: Inputs(rotate=float("nan")), "rotate must be from 0 to 180 degrees"),
        (lambda: Inputs(std=(0.0,)), "std must be positive"),
        (lambda: Inputs(std=None), "mean and std go together"),
        (lambda: Inputs(mean="half"), "mean is one number, or a list of one per channel, not 'half'"),
        (lambda: Inputs(crop=-1), "crop and size are numbers of pixels"),
        (lambda: inputs_for(stored("signal"), mean=(0, 1), std=(1, 1)), "mean has 2 values for samples with 3 channels"),
        (lambda: Inputs(kind="tokens", mean=0.5, std=0.5), "mean and std are for numbers"),
        (lambda: Inputs(kind="tokens", flip=True), "for pictures, this data is of kind tokens"),
        (lambda: inputs_for(stored("signal"), augment=True), "augmentation is for pictures"),
        (lambda: inputs_for(stored(), mean=(0.1, 0.2)), "mean has 2 values for samples with 3 channels"),
    ],
)
def test_what_cannot_be_right_is_refused(make, message):
    with pytest.raises(InputError) as refusal:
        make()
    assert message in str(refusal.value)
