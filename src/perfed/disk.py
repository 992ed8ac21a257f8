"""Files that are either the old ones or the new ones, whatever happens, and folders that one process holds at a time."""

import errno
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from safetensors import SafetensorError

from .errors import InputError, RunError


@contextmanager
def writing(path: Path, kept: str = "") -> Iterator[None]:
    """Turn what can go wrong while writing into one sentence.

    Args:
        path: what is being written; the sentence names it.
        kept: what is still there and how to go on, where that is true of this file.
    """
    try:
        yield
    except (OSError, SafetensorError) as error:
        number = error.errno if isinstance(error, OSError) else _number(error)
        reason = "the disk is full" if number == errno.ENOSPC else os.strerror(number) if number else str(error)
        raise RunError(f"cannot write '{path}': {reason}{f'; {kept}' if kept else ''}") from error


def _number(error: SafetensorError) -> int | None:
    """Return the system's error that safetensors only has in its words."""
    found = re.search(r"os error (\d+)", str(error))
    return int(found[1]) if found else None


def put(
    path: Path, content: bytes | Callable[[Path], object], *, kept: str = "", private: bool = False, synced: bool = True
) -> None:
    """Write a file: under another name, synced, then renamed.

    Args:
        path: where it goes.
        content: its bytes, or a function that writes them to the path it is given.
        kept: for the sentence where it fails, see `writing`.
        private: whether only this user may read it.
        synced: whether it is on the disk when this returns; without, only a loss of power can bring the old one back.
    """
    half = path.with_name(path.name + ".half")
    with writing(path, kept):
        half.unlink(missing_ok=True)  # left by a process that ended right here
        if callable(content):
            content(half)
            with half.open("rb") as file:
                os.fsync(file.fileno())
        else:
            with open(half, "wb", opener=_hidden if private else None) as file:
                file.write(content)
                file.flush()
                if synced:
                    os.fsync(file.fileno())
        half.replace(path)
        if synced:
            _sync_folder(path.parent)


def put_json(path: Path, content: Any, *, kept: str = "") -> None:
    """Write a value as JSON, as `put` does."""
    put(path, (json.dumps(content, indent=1, allow_nan=False, default=str) + "\n").encode(), kept=kept)


def put_yaml(path: Path, content: Any, *, kept: str = "") -> None:
    """Write a value as YAML, as `put` does."""
    put(path, yaml.safe_dump(content, sort_keys=False).encode(), kept=kept)


def get_yaml(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file, or say what is wrong with it."""
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read settings from '{path}': {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"'{path}' is not YAML: {str(error).splitlines()[0]}") from error
    if not isinstance(found, dict):
        raise InputError(f"'{path}' must hold settings as `key: value` lines")
    return found


def get_json(path: Path) -> Any:
    """Return the value in a JSON file, or say whether it is missing or damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise RunError(f"'{path}' is missing") from error
    except (ValueError, RecursionError) as error:
        raise RunError(f"'{path}' is damaged: {error}") from error


def get_object(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; anything else in it is damage."""
    found = get_json(path)
    if not isinstance(found, dict):
        raise RunError(f"'{path}' is damaged: it holds no object")
    return found


def hash_file(path: Path) -> str:
    """Return a file's SHA-256."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def locked(path: Path, *, wait: bool = False) -> Iterator[bool]:
    """Hold a lock file; yield whether it could be had. The lock ends with the process.

    Args:
        path: the lock's file; its folder must be there.
        wait: whether to wait for whoever holds it.
    """
    if os.name != "posix":
        yield True
        return
    import fcntl

    with writing(path):
        file = path.open("a")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError:
            yield False
        else:
            yield True


def sync(path: Path, *, kept: str = "") -> None:
    """See to it that what was written to a file is on the disk."""
    if path.exists():
        with writing(path, kept), path.open("rb") as file:
            os.fsync(file.fileno())


def _hidden(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
