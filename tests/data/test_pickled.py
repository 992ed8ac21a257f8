"""Pickles read as data: arrays come out, and nothing that a pickle asks for is ever done."""

import io
import os
import pickle
import struct
import zipfile

import numpy as np
import pytest

from perfed.data import load
from perfed.data.pickled import read
from perfed.errors import DataError

ARRAYS = {
    "x": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
    "big": np.arange(3, dtype=">i4"),
    "columns": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "bytes": np.array([[1, 2], [255, 0]], dtype=np.uint8),
    "words": np.array(["one", "three"]),
    "no": np.zeros((0, 3)),
    "scalar": np.float64(1.5),
    "list": [1, 2.5, None, True, "text", b"bytes", (1, [2]), -(2**70)],
    "objects": np.array([([1, 2], 2), ([3], 1)], dtype=object),
}


@pytest.mark.parametrize("protocol", range(6))
def test_arrays_lists_and_dicts_come_out_as_they_went_in(protocol):
    found = read(pickle.dumps(ARRAYS, protocol=protocol))
    assert found.keys() == ARRAYS.keys() and found["list"] == ARRAYS["list"]
    for name in set(ARRAYS) - {"list", "objects"}:
        assert np.array_equal(found[name], ARRAYS[name]) and found[name].dtype == np.asarray(ARRAYS[name]).dtype, name
    assert found["objects"].tolist() == [[[1, 2], 2], [[3], 1]]


def test_older_numpys_names_are_known():
    stream = pickle.dumps(ARRAYS["x"], protocol=2).replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
    assert np.array_equal(read(stream), ARRAYS["x"])


class Calls:
    """What pickles as a call of anything."""

    def __init__(self, function, *given, state=None):
        self.call = (function, given, state) if state is not None else (function, given)

    def __reduce__(self):
        return self.call


def short(text):
    return b"\x8c" + bytes([len(text)]) + text.encode()


def named(module, name):
    return short(module) + short(name) + b"\x93"


def attacks(mark):
    """Return twenty and more kinds of pickles that try to write the file ``mark``, to exhaust the machine, or to deceive."""
    order = f"open({str(mark)!r}, 'w').close()"
    shell = f"touch {mark}"
    array = named("numpy._core.multiarray", "_reconstruct") + named("numpy", "ndarray") + b"K\x00\x85" + short("b") + b"\x87R"
    i8 = named("numpy", "dtype") + short("i8") + b"\x85R"
    own = pickle.dumps(np.arange(3), protocol=4)
    return {
        "os.system": pickle.dumps(Calls(os.system, shell)),
        "exec": pickle.dumps(Calls(exec, order)),
        "eval": pickle.dumps(Calls(eval, order)),
        "by GLOBAL": b"cos\nsystem\n(S'" + shell.encode() + b"'\ntR.",
        "by INST": b"(S'" + shell.encode() + b"'\nios\nsystem\n.",
        "by OBJ": b"(cos\nsystem\nS'" + shell.encode() + b"'\no.",
        "by NEWOBJ": b"\x80\x02cbuiltins\nexec\n(S'" + order.encode() + b"'\nt\x81.",
        "by NEWOBJ_EX": b"\x80\x04" + named("os", "system") + short(shell) + b"\x85}\x92.",
        "__import__": pickle.dumps(Calls(__import__, "antigravity")),
        "getattr": b"cbuiltins\ngetattr\n(cos\nenviron\nS'clear'\ntR(tR.",
        "a dotted name": b"\x80\x04" + named("numpy", "testing._private.utils.runstring") + short(order) + b"}\x86R.",
        "numpy's own loader": b"\x80\x04" + named("numpy", "load") + short(str(mark)) + b"\x85R.",
        "numpy's runstring": b"\x80\x04" + named("numpy.testing", "runstring") + short(order) + b"}\x86R.",
        "a partial": b"\x80\x04" + named("functools", "partial") + named("os", "system") + short(shell) + b"\x86R)R.",
        "a persistent id": b"P" + str(mark).encode() + b"\n.",
        "a binary persistent id": short(str(mark)) + b"Q.",
        "a code of the registry": b"\x80\x02\x82\x01.",
        "a long code of the registry": b"\x80\x02\x84\x01\x00\x00\x00.",
        "a buffer from outside": b"\x80\x05\x97.",
        "a state with __setstate__": b"\x80\x02}U\x0c__setstate__cos\nsystem\ns(S'" + shell.encode() + b"'\ntb.",
        "the state of a list": b"\x80\x02](K\x01tb.",
        "a call of an array": b"\x80\x04" + array + b"(K\x01tR.",
        "an array of another class": b"\x80\x04"
        + named("numpy._core.multiarray", "_reconstruct")
        + named("numpy", "dtype")
        + b"K\x00\x85"
        + short("b")
        + b"\x87R.",
        "another codec": b"\x80\x04" + named("_codecs", "encode") + short("x") + short("rot13") + b"\x86R.",
        "a type with fields": b"\x80\x04" + named("numpy", "dtype") + short("i4,O") + b"\x85R.",
        "more numbers than bytes": b"\x80\x04" + array + b"(K\x01J\xff\xff\xff\x7f\x85" + i8 + b"\x89C\x08" + b"\0" * 8 + b"tb.",
        "objects beyond number": b"\x80\x04" + array + b"(K\x01J\xff\xff\xff\x7f\x85" + i8.replace(b"i8", b"O8") + b"\x89]tb.",
        "a list in itself": b"\x80\x04]\x94h\x00a.",
        "lists in lists": b"]" * 5000 + b"a" * 4999 + b".",
        "a second pickle behind": own + pickle.dumps(Calls(os.system, shell)),
        "cut short": own[:-20],
        "no bytes": b"",
        "an empty stack": b"\x80\x04R.",
        "a memory that nobody wrote": b"\x80\x04h\x07.",
        "a length that lies": b"\x80\x04\x8e" + struct.pack("<Q", 2**62) + b"x.",
        "a marker": b"\x80\x04" + named("numpy", "ndarray") + b".",
    }


NAMES = sorted(attacks("/nowhere"))


@pytest.mark.parametrize("name", NAMES)
def test_a_malicious_pickle_is_refused_and_does_nothing(name, tmp_path, monkeypatch):
    mark, ran = tmp_path / "mark", []
    stream = attacks(mark)[name]
    monkeypatch.setattr(os, "system", lambda *given: ran.append(given))  # also where the shell's file would come late
    with pytest.raises(DataError):
        read(stream)
    assert not ran and not mark.exists()


def test_the_sentence_names_the_file_and_says_that_nothing_ran(tmp_path):
    for part in ("train", "test"):
        (tmp_path / part).mkdir()
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(header, {"descr": "|O", "fortran_order": False, "shape": ()})
        with zipfile.ZipFile(tmp_path / part / "0.npz", "w") as archive:
            archive.writestr("data.npy", header.getvalue() + attacks(tmp_path / "mark")["os.system"])
    with pytest.raises(DataError, match=r"train/0\.npz holds 'posix\.system', which is no array; .* nothing was run"):
        load(f"pfllib:{tmp_path}")
    assert not (tmp_path / "mark").exists()


def test_there_are_at_least_twenty_kinds():
    assert len(NAMES) >= 20
