"""Arrays and dicts out of a pickle, read as data: of its instructions only those that build numbers, and no code is ever run."""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum
from pickletools import genops
from typing import Any

import numpy as np

from ..errors import DataError
from .entry import Array


class _Maker(Enum):
    """What a pickle may name: markers that this reader acts on itself; nothing is imported or called by name."""

    ARRAY = "numpy.ndarray"
    DTYPE = "numpy.dtype"
    EMPTY = "_reconstruct"  # an array without contents, which its state brings
    BUFFER = "_frombuffer"  # an array with its contents
    SCALAR = "scalar"
    BYTES = "_codecs.encode"  # bytes in a text, as protocols up to 2 write them
    NO_BYTES = "bytes"


_HOMES = {"_reconstruct": "multiarray", "scalar": "multiarray", "_frombuffer": "numeric"}
_KNOWN = {
    ("numpy", "ndarray"): _Maker.ARRAY,
    ("numpy", "dtype"): _Maker.DTYPE,
    ("_codecs", "encode"): _Maker.BYTES,
    ("__builtin__", "bytes"): _Maker.NO_BYTES,
    **{(f"numpy.{core}.{home}", name): _Maker(name) for core in ("core", "_core") for name, home in _HOMES.items()},
}
_PLAIN = {"b", "i", "u", "f", "S", "U", "O"}  # kinds of numbers and texts; no fields, no subclasses
_MARK = object()
_DEEPEST = 16  # lists within lists: an archive of samples has four or five

# Values that stand in the instruction itself.
_VALUES = {
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "UNICODE", "BINUNICODE", "BINUNICODE8",
    "SHORT_BINUNICODE", "BINBYTES", "BINBYTES8", "SHORT_BINBYTES", "BYTEARRAY8", "STRING", "BINSTRING", "SHORT_BINSTRING",
}  # fmt: skip
_FIXED: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "MARK": lambda: _MARK,
}


class _Empty:
    """An array that waits for its state."""

    def __init__(self) -> None:
        self.array: Array | None = None


class _Dtype:
    """A type of numbers that may still hear its byte order."""

    def __init__(self, code: Any) -> None:
        if not isinstance(code, str) or len(code) > 16:
            raise DataError(f"a type of numbers called {code!r:.40}")
        try:
            self.plain = np.dtype(code)
        except (TypeError, ValueError, SyntaxError) as wrong:
            raise DataError(f"a type of numbers called '{code}'") from wrong
        if self.plain.kind not in _PLAIN or self.plain.shape or self.plain.names:
            raise DataError(f"numbers of the type '{code}'")

    def hear(self, state: Any) -> None:
        if not isinstance(state, tuple) or len(state) < 7 or state[1] not in ("<", ">", "|", "=") or any(state[2:5]):
            raise DataError("a type of numbers with parts of its own")
        if state[1] in "<>":
            self.plain = self.plain.newbyteorder(state[1])


def read(stream: bytes) -> Any:
    """Return what a pickle holds, if that is arrays, numbers, texts, lists, tuples and dicts; all else is refused.

    Args:
        stream: The pickle, whole.

    Raises:
        DataError: For every other instruction or name, and for a stream that is damaged.
    """
    try:
        return _finished(_Machine(len(stream)).run(stream), {})
    except DataError:
        raise
    except RecursionError as deep:
        raise DataError("lists within lists without end") from deep
    except (ValueError, IndexError, TypeError, KeyError, AttributeError, OverflowError, MemoryError) as broken:
        raise DataError(f"a damaged stream ({broken})") from broken


class _Machine:
    """The stack and the memory of a pickle, moved by its instructions as `pickletools` lists them."""

    def __init__(self, size: int) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.left = 8 * size + 1024  # numbers that lists may come to: no stream of honest data holds more

    def run(self, stream: bytes) -> Any:
        for code, given, place in genops(stream):
            name = code.name
            if name == "STOP":
                if place is not None and place + 1 != len(stream):
                    raise DataError("something behind its end")
                (found,) = self.stack
                return found
            if name in _VALUES:
                self.stack.append(given)
            elif name in _FIXED:
                self.stack.append(_FIXED[name]())
            elif name not in ("PROTO", "FRAME"):
                act = getattr(self, f"_{name.lower()}", None)
                if act is None:
                    raise DataError(f"the instruction {name}, which can run code")
                act(given)
        raise DataError("no end")

    def _put(self, place: Any) -> None:
        self.memo[int(place)] = self.stack[-1]

    _binput = _long_binput = _put

    def _memoize(self, _: Any) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def _get(self, place: Any) -> None:
        self.stack.append(self.memo[int(place)])

    _binget = _long_binget = _get

    def _marked(self) -> list[Any]:
        at = max(i for i, value in enumerate(self.stack) if value is _MARK)
        found = self.stack[at + 1 :]
        del self.stack[at:]
        return found

    def _pop(self, _: Any) -> None:
        self.stack.pop()

    def _pop_mark(self, _: Any) -> None:
        self._marked()

    def _tuple(self, _: Any) -> None:
        self.stack.append(tuple(self._marked()))

    def _last(self, count: int) -> None:
        found = tuple(self.stack[-count:])
        if len(found) < count:
            raise DataError("a damaged stream")
        del self.stack[-count:]
        self.stack.append(found)

    def _tuple1(self, _: Any) -> None:
        self._last(1)

    def _tuple2(self, _: Any) -> None:
        self._last(2)

    def _tuple3(self, _: Any) -> None:
        self._last(3)

    def _list(self, _: Any) -> None:
        self.stack.append(self._marked())

    def _append(self, _: Any) -> None:
        value = self.stack.pop()
        self._a(list, self.stack[-1]).append(value)

    def _appends(self, _: Any) -> None:
        values = self._marked()
        self._a(list, self.stack[-1]).extend(values)

    def _dict(self, _: Any) -> None:
        found = self._marked()
        self.stack.append(dict(zip(found[::2], found[1::2], strict=True)))

    def _setitem(self, _: Any) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._a(dict, self.stack[-1])[key] = value

    def _setitems(self, _: Any) -> None:
        found = self._marked()
        self._a(dict, self.stack[-1]).update(zip(found[::2], found[1::2], strict=True))

    @staticmethod
    def _a(kind: type[Any], value: Any) -> Any:
        if type(value) is not kind:
            raise DataError("a damaged stream")
        return value

    def _global(self, named: Any) -> None:
        module, _, name = str(named).partition(" ")
        self._named(module, name)

    def _stack_global(self, _: Any) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        self._named(module, name)

    def _named(self, module: Any, name: Any) -> None:
        if not isinstance(module, str) or not isinstance(name, str) or (module, name) not in _KNOWN:
            raise DataError(f"'{module}.{name}', which is no array")
        self.stack.append(_KNOWN[module, name])

    def _reduce(self, _: Any) -> None:
        given, maker = self.stack.pop(), self.stack.pop()
        if not isinstance(maker, _Maker) or not isinstance(given, tuple):
            raise DataError("a call of something that is no array")
        self.stack.append(_made(maker, given))

    def _build(self, _: Any) -> None:
        state, made = self.stack.pop(), self.stack[-1]
        if isinstance(made, _Dtype):
            made.hear(state)
        elif isinstance(made, _Empty):
            _, shape, dtype, _, contents = state if len(state) == 5 else (1, *state)
            made.array = _filled(shape, dtype, state[-2], contents, self.left)
        else:
            raise DataError("the state of something that is no array")


def _made(maker: _Maker, given: tuple[Any, ...]) -> Any:
    """Return what a call would have made."""
    if maker is _Maker.DTYPE:
        return _Dtype(given[0])
    if maker is _Maker.EMPTY and given[0] is _Maker.ARRAY:
        return _Empty()
    if maker is _Maker.BUFFER:
        contents, dtype, shape, order = given
        return _filled(shape, dtype, order == "F", contents, 0)
    if maker is _Maker.SCALAR and len(given) == 2:
        return _filled((), given[0], False, given[1], 0)[()]
    if maker is _Maker.BYTES and given[1:] in ((), ("latin1",), ("latin-1",)) and isinstance(given[0], str):
        return given[0].encode("latin-1")
    if maker is _Maker.NO_BYTES and not given:
        return b""
    raise DataError(f"a call of {maker.value} with something else than an array")


def _filled(shape: Any, dtype: Any, columns: Any, contents: Any, left: int) -> Array:
    """Return an array of this shape and type; its contents must be exactly as many bytes or objects."""
    if not isinstance(dtype, _Dtype) or not isinstance(shape, tuple) or not all(type(n) is int and n >= 0 for n in shape):
        raise DataError("an array without shape or type")
    count, order = math.prod(shape), "F" if columns else "C"
    if dtype.plain.kind == "O":
        if not isinstance(contents, list) or len(contents) != count or count > left:
            raise DataError(f"an array of {count} objects that has not so many")
        objects = np.empty(count, dtype=object)
        for place, value in enumerate(contents):
            objects[place] = value
        return objects.reshape(shape, order=order)  # type: ignore[call-overload, no-any-return]
    if isinstance(contents, str):
        contents = contents.encode("latin-1")
    if not isinstance(contents, bytes | bytearray) or len(contents) != count * dtype.plain.itemsize:
        raise DataError(f"an array of {count} numbers whose bytes are not so many")
    return np.frombuffer(contents, dtype.plain).reshape(shape, order=order)  # type: ignore[call-overload, no-any-return]


def _finished(value: Any, done: dict[int, Any], depth: int = 0) -> Any:
    """Return a value with arrays in the places where they were made; each is looked at once, and depth has an end."""
    if isinstance(value, _Maker | _Dtype) or value is _MARK or depth > _DEEPEST:
        raise DataError("lists within lists without end" if depth > _DEEPEST else "something that is neither number nor array")
    if isinstance(value, int | float | str | bytes):
        return value
    if id(value) not in done:
        done[id(value)] = _inside(value, lambda each: _finished(each, done, depth + 1))
    return done[id(value)]


def _inside(value: Any, of: Callable[[Any], Any]) -> Any:
    if isinstance(value, _Empty):
        if value.array is None:
            raise DataError("an array without contents")
        value = value.array
    if isinstance(value, np.ndarray) and value.dtype == object:
        for place in np.ndindex(value.shape):
            value[place] = of(value[place])
    elif isinstance(value, list | tuple):
        return type(value)(of(each) for each in value)
    elif isinstance(value, dict):
        return {key: of(each) for key, each in value.items()}
    return value
