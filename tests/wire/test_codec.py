"""Messages: every tree survives, and nothing else is let in."""

import hashlib
from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load, save
from torch import Tensor

from perfed import trees
from perfed.errors import WireError
from perfed.trees import Params
from perfed.wire import Withheld, decode, encode

KINDS = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8, torch.bool)


class Message(NamedTuple):
    params: Params
    mask: Params
    number: Tensor


def message() -> Message:
    mask = {"w": torch.tensor([[True, False, True], [False, False, True]])}
    return Message({"w": torch.arange(6.0).view(2, 3), "~n": torch.tensor(3)}, mask, torch.tensor(0.5))


def signed(payload: bytes) -> bytes:
    return hashlib.sha256(payload).digest() + payload


def test_a_message_comes_back_as_it_was() -> None:
    found = decode(encode(message()), trees.map(torch.zeros_like, message()))
    assert isinstance(found, Message) and trees.equal(found, message())


@given(st.sampled_from(KINDS), st.lists(st.integers(0, 5), max_size=3), st.integers(0, 2**31))
def test_every_type_and_shape_survives(kind: torch.dtype, shape: list[int], seed: int) -> None:
    leaf = (torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 3).to(kind)
    assert trees.equal(decode(encode({"x": leaf}), {"x": torch.zeros_like(leaf)}), {"x": leaf})


def test_booleans_take_one_bit_each() -> None:
    for count in (1, 8, 9, 800):
        packed = load(encode({"m": torch.ones(count, dtype=torch.bool)})[32:])["m"]
        assert packed.dtype == torch.uint8 and packed.numel() == -(-count // 8)


def test_nothing_at_all_is_a_message_too() -> None:
    assert decode(encode(()), ()) == () and decode(encode({}), {}) == {}


def test_tensors_that_share_memory_or_lie_across_it_survive() -> None:
    whole = torch.arange(6.0)
    tree = {"a": whole, "b": whole, "c": whole.view(2, 3).T, "d": whole[::2]}
    assert trees.equal(decode(encode(tree), trees.clone(tree)), tree)


def test_what_is_decoded_owns_aligned_memory() -> None:
    """Sums over unaligned memory round differently: the wire must not show in the last bit."""
    tree = {f"x{i}": torch.ones(i + 1) for i in range(8)} | {"odd": torch.ones(3, dtype=torch.uint8)}
    assert all(leaf.data_ptr() % 64 == 0 for leaf in trees.leaves(decode(encode(tree), tree)))


def test_a_gradient_does_not_travel() -> None:
    own = {"w": torch.ones(2, requires_grad=True)}
    assert not decode(encode(own), own)["w"].requires_grad


@pytest.mark.parametrize("place", [0, 31, 32, 40, -1])
def test_one_damaged_byte_is_noticed(place: int) -> None:
    bad = bytearray(encode(message()))
    bad[place] ^= 1
    with pytest.raises(WireError, match="SHA-256"):
        decode(bytes(bad), message())


@pytest.mark.parametrize("length", [0, 10, 32, 100])
def test_a_cut_message_is_noticed(length: int) -> None:
    with pytest.raises(WireError, match="SHA-256|safetensors"):
        decode(encode(message())[:length], message())


def test_what_is_signed_must_be_safetensors() -> None:
    for payload in (b"", b"not a message", b"\xff" * 64):
        with pytest.raises(WireError, match="safetensors"):
            decode(signed(payload), message())


def test_names_must_be_exactly_those_expected() -> None:
    with pytest.raises(WireError, match=r"missing \['b'\], unknown \['c'\]"):
        decode(encode({"a": torch.ones(1), "c": torch.ones(1)}), {"a": torch.ones(1), "b": torch.ones(1)})


@pytest.mark.parametrize("other", [torch.ones(3, 2), torch.ones(6), torch.ones(2, 3).double(), torch.ones(2, 3).bool()])
def test_shapes_and_types_must_be_those_expected(other: Tensor) -> None:
    with pytest.raises(WireError, match=r"w should be \(2, 3\) torch.float32"):
        decode(encode({"w": other}), {"w": torch.ones(2, 3)})


def test_a_mask_must_be_packed_to_the_right_length() -> None:
    for other in (torch.ones(17).bool(), torch.ones(2)):
        with pytest.raises(WireError, match="should be 9 packed bits"):
            decode(encode({"m": other}), {"m": torch.ones(9).bool()})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_values_that_are_no_numbers_are_refused_by_name(value: float) -> None:
    bad = {"a": torch.ones(2), "b": torch.tensor([1.0, value])}
    with pytest.raises(WireError, match=r"NaN or infinite values in \['b'\]"):
        decode(encode(bad), bad)
    assert torch.equal(decode(encode(bad), bad, finite=False)["a"], bad["a"])  # unless they are asked for


def test_what_is_withheld_does_not_cross_and_comes_from_the_receiver() -> None:
    withheld = Withheld({"~n": torch.tensor(0)})
    sent = encode(message(), withheld)
    assert set(load(sent[32:])) == {"params/w", "mask/w", "number"}
    mine = message()._replace(params={"w": torch.zeros(2, 3), "~n": torch.tensor(9)})
    found = decode(sent, mine, withheld)
    assert found.params["~n"].item() == 9 and torch.equal(found.params["w"], message().params["w"])
    with pytest.raises(WireError, match="unknown"):
        decode(encode(message()), mine, withheld)  # and is not taken from one who sends it all the same


def test_a_mask_named_as_a_withheld_leaf_crosses() -> None:
    withheld = Withheld({"w": torch.zeros(2, 3)})
    assert set(load(encode(message(), withheld)[32:])) == {"params/~n", "mask/w", "number"}


def test_hiding_keeps_what_stays_and_overlaying_brings_it_back() -> None:
    withheld = Withheld({"~n": torch.tensor(0)})
    shown, kept = withheld.hide(message())
    assert shown.params["~n"].item() == 0 and kept["~n"].item() == 3
    assert trees.equal(withheld.overlay(shown, kept), message())
    assert trees.equal(withheld.overlay(shown, {}), shown)  # a client that never trained has the start


def test_extra_bytes_inside_a_valid_signature_are_refused() -> None:
    with pytest.raises(WireError):
        decode(signed(save({"w": torch.ones(2)}) + b"x"), {"w": torch.ones(2)})
