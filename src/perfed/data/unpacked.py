"""What a packed file says of itself is looked at before anything is unpacked or allocated."""

import lzma
import math
import struct
import tarfile
import zipfile
import zlib
from typing import IO, Any

import numpy as np

from ..errors import DataError
from ..units import weighed

# whatever a damaged or hostile archive makes its reader raise
BROKEN: tuple[type[Exception], ...] = (
    OSError,
    EOFError,
    ValueError,
    LookupError,
    TypeError,
    ArithmeticError,
    MemoryError,
    RuntimeError,  # an encrypted member; NotImplementedError: a version of zip that nobody writes
    struct.error,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    tarfile.TarError,
)
_LARGE = 1 << 30  # bytes up to which any packing is believed
_PACKED = 100  # times smaller than what comes out: measured data are not


def refuse_bomb(archive: zipfile.ZipFile, member: str) -> None:
    """Refuse a member that would unpack to far more than the file could hold of real data."""
    told = archive.getinfo(member)
    if told.file_size > _LARGE and told.file_size > _PACKED * max(1, told.compress_size):
        raise DataError(
            f"'{member}' would unpack to {weighed(told.file_size)} from {weighed(told.compress_size)}, which no measured data "
            "do; if they are real, store them unpacked (np.savez, or npy:FOLDER)"
        )


def refuse_header(archive: zipfile.ZipFile, member: str) -> None:
    """Refuse an array whose header promises more than the member holds, or what is no array of numbers or names."""
    with archive.open(member) as file:
        shape, kind = header(file)
    if kind.hasobject:
        raise ValueError("it holds Python objects, and pickle is not read")
    if kind.kind == "V":
        raise DataError(f"'{member}' holds records or raw bytes ({kind}), but arrays are numbers or names")
    wanted, there = math.prod(shape) * kind.itemsize, archive.getinfo(member).file_size
    if min(shape, default=0) < 0 or wanted > there:
        raise DataError(f"the header of '{member}' promises {'×'.join(map(str, shape))} of {kind}, but it holds {weighed(there)}")


def header(file: IO[bytes]) -> tuple[tuple[int, ...], "np.dtype[Any]"]:
    """Return the shape and the type of the array in an ``.npy``, without reading the array."""
    version = np.lib.format.read_magic(file)
    reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, kind = reader(file)
    return shape, kind
