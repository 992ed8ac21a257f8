"""Archives that lie, are damaged or would burst: each is refused in a sentence, before anything is allocated."""

import io
import random
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfed.data.download import unpack
from perfed.data.own import load
from perfed.errors import DataError, PerfedError

X, Y = np.random.default_rng(0).normal(size=(30, 5)).astype(np.float32), np.arange(30) % 3

ODD: dict[str, tuple[dict[str, Any], str]] = {
    "raw bytes": ({"x": np.zeros(30, "V8"), "y": Y}, "records or raw bytes"),
    "records": ({"x": np.zeros(30, [("a", "f4")]), "y": Y}, "records or raw bytes"),
    "objects": ({"x": np.array([{}] * 30), "y": Y}, "never unpickled"),
    "dates": ({"x": np.zeros((30, 2), "M8[s]"), "y": Y}, "x is datetime64"),
    "words": ({"x": np.array([["a"]] * 30), "y": Y}, "samples are numbers"),
    "one number": ({"x": np.float32(3), "y": Y}, "x is a single value"),
    "infinite labels": ({"x": X, "y": np.full(30, np.inf)}, "whole numbers or names"),
    "a table of tests": ({"x": X, "y": Y, "test": np.zeros((30, 2), bool)}, "test has the shape"),
    "other widths": ({"x_train": X, "y_train": Y, "x_test": X[:, :3], "y_test": Y}, "differ in more than their length"),
    "other dimensions": ({"x_train": X, "y_train": Y, "x_test": X[:, :, None], "y_test": Y}, "differ in more than their length"),
}


@pytest.mark.parametrize("case", sorted(ODD))
def test_arrays_of_another_kind_are_refused_in_a_sentence(case: str, tmp_path: Path) -> None:
    arrays, said = ODD[case]
    np.savez_compressed(tmp_path / "it.npz", **arrays)
    with pytest.raises(DataError, match=said) as wrong:
        load("npz", str(tmp_path / "it.npz"), {})
    assert str(wrong.value).count("it.npz") == 1


def packed(path: Path, shape: str, kind: str = "<f4", size: int = 64) -> Path:
    """An archive whose array x has this header, with so many bytes of zeros after it."""
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (63 - (len(text) + 10) % 64) + b"\n"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("x.npy", "w", force_zip64=True) as file:
            file.write(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
            for _ in range(size >> 20):
                file.write(bytes(1 << 20))
        held = io.BytesIO()
        np.save(held, Y)
        archive.writestr("y.npy", held.getvalue())
    return path


@pytest.mark.parametrize(
    ("shape", "kind"),
    [("(30, 1099511627776)", "<f4"), ("(30, 99999999999999999999)", "<f4"), ("(30, -5)", "<f4"), ("(30, 5)", "|S900000000")],
)
def test_a_header_that_promises_more_than_there_is_is_refused_before_anything_is_allocated(
    shape: str, kind: str, tmp_path: Path
) -> None:
    path = packed(tmp_path / "it.npz", shape, kind)
    tracemalloc.start()
    with pytest.raises(DataError, match="the header of 'x.npy' promises"):
        load("npz", str(path), {})
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()


def test_a_bomb_is_refused_by_what_it_says_of_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfed.data.unpacked._LARGE", 8 << 20)  # as 3 GB are for the real limit
    path = packed(tmp_path / "it.npz", "(30, 100000)", size=12 << 20)
    tracemalloc.start()
    with pytest.raises(DataError, match=r"'x.npy' would unpack to 12 MiB from .* store them unpacked"):
        load("npz", str(path), {})
    with pytest.raises(DataError, match="would unpack"):
        unpack(path, tmp_path)
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()


def test_damaged_archives_are_sentences(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "good.npz", x=X, y=Y)
    np.savez(tmp_path / "plain.npz", x=X, y=Y)
    good, draw, path = (
        [(tmp_path / f"{name}.npz").read_bytes() for name in ("good", "plain")],
        random.Random(6),
        tmp_path / "it.npz",
    )
    for number in range(600):
        whole = bytearray(good[number % 2])
        for _ in range(draw.choice([1, 1, 2, 8])):
            at = draw.randrange(len(whole))
            if number % 3 == 0:
                whole[at] = draw.randrange(256)
            elif number % 3 == 1:
                del whole[at : at + draw.randrange(1, 40)]
            else:
                whole[at:at] = bytes([draw.randrange(256)])
        path.write_bytes(whole)
        try:
            load("npz", str(path), {})  # some damage is to what nobody reads
        except PerfedError:
            continue
