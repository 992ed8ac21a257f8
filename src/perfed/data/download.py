"""Downloads that can be interrupted, resumed and trusted, into a cache that is never half written."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import sys
import tarfile
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path, PurePosixPath
from typing import IO, Any

from ..disk import locked
from ..errors import DataError
from .unpacked import BROKEN, refuse_bomb

Progress = Callable[[str, int, int | None], None]  # (file, bytes so far, bytes in all if known)
BLOCK = 1 << 16
ATTEMPTS = 3


@dataclass(frozen=True, kw_only=True)
class RemoteFile:
    """A file at its publisher."""

    url: str
    file: str = ""  # its name here, if not that of the address
    md5: str = ""
    sha256: str = ""
    unpack: bool = False  # an archive that readers want as files
    only: tuple[str, ...] = ()  # folder names; with any, just the members below one of them are unpacked

    @property
    def name(self) -> str:
        """Return the file's name in the cache."""
        return self.file or urllib.parse.unquote(PurePosixPath(urllib.parse.urlsplit(self.url).path).name)


def cache() -> Path:
    """Return the folder of downloads: PERFED_CACHE, or the platform's place for caches."""
    chosen = os.environ.get("PERFED_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "perfed"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "perfed"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "perfed"


def obtain(remote: RemoteFile, folder: Path, progress: Progress | None = None, timeout: float = 30.0) -> Path:
    """Return the file of ``remote`` in ``folder``, downloaded, checked and unpacked if it is not there yet."""
    target = folder / remote.name
    done = unpacked(remote, folder)
    if remote.unpack and done.exists():
        return target
    make(folder)
    with alone(folder / f".{remote.name}.lock"):
        if not target.exists() or fault(target, remote):
            download(remote, target, progress, timeout)
        if remote.unpack:
            unpack(target, folder, remote.only)
            done.touch()
            target.unlink()  # the files are what readers want; the archive would double the space
    return target


def unpacked(remote: RemoteFile, folder: Path) -> Path:
    """Return the mark that an archive has been unpacked into ``folder``."""
    return folder / f".{remote.name}.unpacked"


def download(remote: RemoteFile, target: Path, progress: Progress | None = None, timeout: float = 30.0) -> None:
    """Bring ``remote`` to ``target``, going on from an interrupted ``target.part`` where the server allows it."""
    part = target.with_name(target.name + ".part")
    for attempt in range(1, ATTEMPTS + 1):
        resumed = part.exists() and part.stat().st_size > 0
        try:
            transfer(remote, part, progress, timeout)
        except Interrupted as stopped:
            if attempt == ATTEMPTS:
                raise DataError(f"{stopped}; what has arrived is kept, run it again to go on from there") from stopped
            continue
        wrong = fault(part, remote)
        if not wrong:
            part.replace(target)
            tag(part).unlink(missing_ok=True)
            return
        part.unlink()
        tag(part).unlink(missing_ok=True)
        if not resumed:  # a stale beginning explains a wrong sum; a fresh download does not
            raise DataError(f"{remote.url} is not the file it should be: {wrong}; it was discarded")
    raise DataError(f"{remote.url} did not arrive whole in {ATTEMPTS} attempts")


class Interrupted(Exception):
    """The connection ended before the file did."""


def transfer(remote: RemoteFile, part: Path, progress: Progress | None, timeout: float) -> None:
    """Append to ``part`` what it lacks of the file."""
    start = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(remote.url, headers={"User-Agent": "perfed", "Accept-Encoding": "identity"})
    if start:
        request.add_header("Range", f"bytes={start}-")
        if tag(part).exists():
            request.add_header("If-Range", tag(part).read_text())
    answer = reach(remote, request, part, timeout)
    if answer is None:  # the server says that there is nothing after `start`
        return
    with answer:
        if answer.status != 206:
            start = 0
        length = answer.headers.get("Content-Length")
        total = start + int(length) if length is not None else None
        validator = answer.headers.get("ETag") or answer.headers.get("Last-Modified")
        if validator and not validator.startswith("W/"):
            tag(part).write_text(validator)
        arrived = start
        with part.open("ab" if start else "wb") as file:
            for block in blocks(answer, remote):
                put(file, block, part)
                arrived += len(block)
                if progress:
                    progress(remote.name, arrived, total)
    if total is not None and arrived != total:
        raise Interrupted(f"{host(remote)} ended the connection after {arrived:,} of {total:,} bytes of {remote.name}")


def reach(remote: RemoteFile, request: urllib.request.Request, part: Path, timeout: float) -> HTTPResponse | None:
    """Return the server's answer, or None when ``part`` already holds all of the file."""
    try:
        answer: HTTPResponse = urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as refused:
        refused.close()
        if refused.code == 416:  # the range begins at or after the end
            size = refused.headers.get("Content-Range", "").rpartition("/")[2]
            if size == str(part.stat().st_size):
                return None
            part.unlink()
            tag(part).unlink(missing_ok=True)
            raise Interrupted(f"{part.name} was longer than the file at {host(remote)}") from refused
        raise DataError(f"{remote.url} answered {refused.code} {refused.reason}; {by_hand(remote, part)}") from refused
    except (OSError, HTTPException) as failed:
        reason = getattr(failed, "reason", failed)
        raise DataError(f"cannot reach {host(remote)} ({reason}); are you offline? {by_hand(remote, part)}") from failed
    return answer


def blocks(answer: HTTPResponse, remote: RemoteFile) -> Iterator[bytes]:
    """Yield the body; a broken connection is an interruption."""
    while True:
        try:
            block = answer.read(BLOCK)
        except (OSError, HTTPException) as broken:
            raise Interrupted(f"the connection to {host(remote)} broke amid {remote.name} ({broken})") from broken
        if not block:
            return
        yield block


def put(file: IO[bytes], block: bytes, part: Path) -> None:
    """Write a block, or say that the disk does not take it."""
    try:
        file.write(block)
    except OSError as full:
        raise DataError(f"cannot write {part} ({full.strerror or full})") from full


def by_hand(remote: RemoteFile, part: Path) -> str:
    """Return what a user without a connection can do."""
    return f"Bring {remote.url} here another way and put it into {part.parent} as {remote.name}, then run this again"


def host(remote: RemoteFile) -> str:
    """Return the server's name."""
    return urllib.parse.urlsplit(remote.url).netloc


def tag(part: Path) -> Path:
    """Return the file with the server's validator for what ``part`` holds the beginning of."""
    return part.with_name(part.name + ".tag")


def fault(path: Path, remote: RemoteFile) -> str:
    """Return what is wrong with the sums of ``path``, or nothing."""
    for kind, wanted in (("sha256", remote.sha256), ("md5", remote.md5)):
        if wanted:
            sums = hashlib.new(kind, usedforsecurity=False)
            with path.open("rb") as file:
                while block := file.read(1 << 20):
                    sums.update(block)
            found = sums.hexdigest()
            if found != wanted:
                return f"its {kind} is {found}, not {wanted}"
    return ""


def make(folder: Path) -> None:
    """Create ``folder`` or say why it cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as refused:
        raise DataError(f"cannot create {folder} ({refused.strerror}); set PERFED_CACHE to another folder") from refused


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Keep a second process from writing the same file; the system lets go when this process ends."""
    with locked(lock) as held:
        if not held:
            what = lock.name.removeprefix(".").removesuffix(".lock")
            raise DataError(f"another process is fetching {what}; wait for it")
        yield  # the empty lock file stays: removing it would let a third process lock a new one


def unpack(archive: Path, folder: Path, only: tuple[str, ...] = ()) -> None:
    """Unpack zip, tar and gz into ``folder``: first beside it, then moved in as a whole."""
    with tempfile.TemporaryDirectory(prefix=".unpack-", dir=folder) as beside:
        try:
            extract(archive, Path(beside), only)
        except BROKEN as broken:
            raise DataError(f"{archive} cannot be unpacked ({broken}); delete it and fetch it again") from broken
        merge(Path(beside), folder)


def extract(archive: Path, into: Path, only: tuple[str, ...]) -> None:
    """Write the members of ``archive`` below ``into``, and those of zips directly inside it."""
    if zipfile.is_zipfile(archive):
        unzip(archive, into, only)
        for inner in sorted(into.rglob("*.zip")):  # UCI wraps its zips in a zip
            unzip(inner, into, only)
            inner.unlink()
    elif tarfile.is_tarfile(archive):
        with tarfile.open(archive) as packed_tar:
            members: list[Any] = [m for m in packed_tar.getmembers() if wanted(m.name, only)]
            packed_tar.extractall(into, members, filter="data")
    else:
        with gzip.open(archive) as packed_gz, (into / archive.stem).open("wb") as file:
            shutil.copyfileobj(packed_gz, file)


def unzip(archive: Path, into: Path, only: tuple[str, ...]) -> None:
    """Write the wanted members of a zip; zipfile itself drops '..' and absolute paths."""
    with zipfile.ZipFile(archive) as packed:
        members = [member for member in packed.namelist() if wanted(member, only)]
        for member in members:
            refuse_bomb(packed, member)
        packed.extractall(into, members)


def wanted(member: str, only: tuple[str, ...]) -> bool:
    """Return whether a member is to be unpacked; what macOS adds to zips never is."""
    parts = PurePosixPath(member).parts
    return "__MACOSX" not in parts and (not only or any(part in only for part in parts))


def merge(source: Path, target: Path) -> None:
    """Move everything in ``source`` into ``target``; folders that exist are merged."""
    for item in sorted(source.iterdir()):
        place = target / item.name
        if item.is_dir() and place.is_dir():
            merge(item, place)
        else:
            item.replace(place)
