"""Ten thousand fuzzed messages through the codec: none is taken for another one, none crashes it, none runs code."""

import hashlib
import json
import random
import sys
import tracemalloc
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from perfed import trees
from perfed.errors import WireError
from perfed.trees import Params
from perfed.wire import decode, encode

COUNT = 10_000


class Message(NamedTuple):
    params: Params
    mask: Params
    number: Tensor


def message() -> Message:
    draw = torch.Generator().manual_seed(0)
    params = {"w": torch.randn(4, 6, generator=draw), "~n": torch.tensor(3), "h": torch.ones(3).half()}
    return Message(params, {"w": torch.tensor([[True, False, True]])}, torch.tensor(0.5))


def signed(payload: bytes) -> bytes:
    return hashlib.sha256(payload).digest() + payload


def split(whole: bytes) -> tuple[bytes, bytes]:
    """Return header and data of a payload."""
    size = int.from_bytes(whole[:8], "little")
    return whole[8 : 8 + size], whole[8 + size :]


def joined(header: bytes, data: bytes, size: int | None = None) -> bytes:
    return (len(header) if size is None else size).to_bytes(8, "little") + header + data


def flipped(draw: random.Random, whole: bytes) -> bytes:
    """A few bytes of the message are others; nobody signed that."""
    made = bytearray(whole)
    for _ in range(draw.randint(1, 8)):
        made[draw.randrange(len(made))] ^= draw.randint(1, 255)
    return bytes(made)


def torn(draw: random.Random, whole: bytes) -> bytes:
    """Cut short or made longer, and signed."""
    payload = whole[32:]
    return signed(
        payload[: draw.randrange(len(payload))] if draw.random() < 0.5 else payload + draw.randbytes(draw.randint(1, 99))
    )


def scribbled(draw: random.Random, whole: bytes) -> bytes:
    """A byte of the header is another one, and signed."""
    header, data = split(whole[32:])
    made = bytearray(header)
    made[draw.randrange(len(made))] = draw.randint(0, 255)
    return signed(joined(bytes(made), data))


def bombed(draw: random.Random, whole: bytes) -> bytes:
    """A header that says that it, or a tensor, is huge; and signed."""
    header, data = split(whole[32:])
    if draw.random() < 0.3:
        return signed(joined(header, data, size=draw.choice([2**63, 2**64 - 1, 10**8, len(header) + 1, 0])))
    if draw.random() < 0.3:
        return signed(joined(b"[" * 50_000, b""))
    found = json.loads(header)
    name = draw.choice([k for k in found if k != "__metadata__"])
    huge = draw.choice([2**62, 2**40, 10**30, -1, 1.5, "4", None, [4]])
    change = draw.choice(["shape", "data_offsets", "dtype", "name", "extra"])
    if change == "shape":
        found[name]["shape"] = [huge, huge]
    elif change == "data_offsets":
        found[name]["data_offsets"] = [0, huge]
    elif change == "dtype":
        found[name]["dtype"] = draw.choice(["F64", "C64", "X9", "", None, 7, "F8_E4M3", "U64"])
    elif change == "name":
        found[draw.choice(["__class__", "../../x", "params/w2", "\u0000", "x" * 999])] = found.pop(name)
    else:
        found["more"] = {"dtype": "U8", "shape": [0, 2**40], "data_offsets": [len(data), len(data)]}
    return signed(joined(json.dumps(found).encode(), data))


def noise(draw: random.Random, whole: bytes) -> bytes:
    """Bytes of no meaning, signed or not; sometimes a pickle that would run code."""
    made = b"cos\nsystem\n(S'false'\ntR." if draw.random() < 0.2 else draw.randbytes(draw.randint(0, 400))
    return signed(made) if draw.random() < 0.5 else made


def test_ten_thousand_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, like = encode(message()), trees.map(torch.zeros_like, message())
    draw, heard, watching = random.Random(0), [], [False]

    def hook(event: str, arguments: object) -> None:  # it cannot be taken off again, only told to be quiet
        if watching[0] and event in ("exec", "compile", "import", "os.system", "subprocess.Popen", "pickle.find_class", "open"):
            heard.append((event, str(arguments)[:80]))

    sys.addaudithook(hook)
    accepted = same = 0
    tracemalloc.start()
    for number in range(COUNT):
        bad = draw.choice([flipped, torn, scribbled, bombed, noise])(draw, whole)
        watching[0] = number > 100  # the first ones let torch and safetensors import what they need
        try:
            found = decode(bad, like)
            same += trees.equal(found, message())  # white space in a header changes nothing
            accepted += not trees.equal(found, message())
        except WireError as refused:
            assert len(str(refused)) < 2000
        finally:
            watching[0] = False
        if number == 1000:
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
    now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert accepted == 0 and same < 50 and heard == []
    assert now - before < 1 << 20 and peak - before < 8 << 20  # flat, whatever a header says


def test_a_message_larger_than_what_is_expected_is_refused_before_it_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    like = message()
    monkeypatch.setattr("perfed.wire.codec.hashlib", None)  # not even hashed
    with pytest.raises(WireError, match="at most"):
        decode(bytes(1 << 20), like)
