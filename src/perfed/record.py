"""A run on disk: settings, manifest, one line per round, atomic checkpoints."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from . import trees
from .errors import RunError
from .evaluate.scores import current
from .files import writing
from .transport import Private, Store
from .trees import Tree


def put(path: Path, content: bytes) -> None:
    """Write a file so that it is either the old one or the new one, whatever happens."""
    with writing(path):
        half = path.with_name(path.name + ".half")
        with half.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        half.replace(path)
        _sync_folder(path.parent)


def put_json(path: Path, content: Any) -> None:
    put(path, (json.dumps(content, indent=1, allow_nan=False, default=str) + "\n").encode())


def put_yaml(path: Path, content: Any) -> None:
    put(path, yaml.safe_dump(content, sort_keys=False).encode())


def get_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise RunError(f"'{path}' is missing") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise RunError(f"'{path}' is damaged: {error}") from error


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold a folder for this process; a second one that trains in it would tear its lines and states."""
    if os.name != "posix":
        yield
        return
    import fcntl

    with writing(folder):
        file = (folder / "lock").open("w")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as taken:
            raise RunError(f"'{folder}' is being trained by another process; wait for it or end it") from taken
        yield


class Lines:
    """The rounds of one seed, a JSON line each."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, last: int | None = None) -> list[dict[str, Any]]:
        """Return the lines up to round ``last``; a torn line at the end is one that never was."""
        if not self.path.exists():
            return []
        lines = []
        for text in self.path.read_text(encoding="utf-8").splitlines():
            try:
                lines.append(current(json.loads(text)))
            except json.JSONDecodeError:
                break
        return [line for line in lines if last is None or line["round"] <= last]

    def append(self, line: dict[str, Any]) -> None:
        with writing(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, allow_nan=False) + "\n")

    def cut(self, last: int) -> None:
        """Forget the rounds after ``last``."""
        kept = self.read(last)
        put(self.path, "".join(json.dumps(line) + "\n" for line in kept).encode())

    def sync(self) -> None:
        if self.path.exists():
            with writing(self.path), self.path.open("rb") as file:
                os.fsync(file.fileno())


def save_state(folder: Path, number: int, server: Tree, store: Store) -> None:
    """Write the state after round ``number``: first the tensors under a new name, then the note that points to them."""
    path = folder / f"checkpoint-{number}.safetensors"
    _write_state(path, server, store)
    put_json(folder / "checkpoint.json", {"round": number, "file": path.name, "sha256": hash_file(path)})
    for old in folder.glob("checkpoint-*.safetensors*"):
        if old != path:
            old.unlink()


def keep_state(folder: Path, number: int, server: Tree, store: Store) -> None:
    """Keep the state after round ``number`` for analyses, beside those of other rounds."""
    with writing(folder):
        folder.mkdir(exist_ok=True)
    _write_state(folder / f"round-{number}.safetensors", server, store)


def _write_state(path: Path, server: Tree, store: Store) -> None:
    tensors = {f"server/{k}": v for k, v in trees.named(server)}
    for client in store:
        tensors |= {f"client-{client}/{k}": v for k, v in trees.named(store[client])}
    with writing(path):
        half = path.with_name(path.name + ".half")
        save_file(trees.apart(tensors), half)
        with half.open("rb") as file:
            os.fsync(file.fileno())
        half.replace(path)
        _sync_folder(path.parent)


def load_state(folder: Path, server: Tree, store: Store, template: Private) -> tuple[int, Tree]:
    """Return round and server of the last checkpoint, fill ``store``; names and shapes must be the method's."""
    note = get_json(folder / "checkpoint.json")
    path = folder / str(note.get("file"))
    if not path.is_file() or hash_file(path) != note.get("sha256"):
        raise RunError(f"checkpoint '{path}' is damaged or missing: its SHA-256 is not the recorded one")
    return int(note["round"]), read_state(path, server, store, template)


def snapshots(folder: Path) -> dict[int, Path]:
    """Return the states that were kept for analyses, by round."""
    found = {int(path.stem[6:]): path for path in (folder / "snapshots").glob("round-*.safetensors")}
    return dict(sorted(found.items()))


def read_state(path: Path, server: Tree, store: Store, template: Private) -> Tree:
    """Return the server's state in a file and fill ``store`` with the clients'."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise RunError(f"checkpoint '{path}' is damaged: {error}") from error
    for client in sorted({int(name.split("/")[0][7:]) for name in tensors if name.startswith("client-")}):
        kept = {k: v for k, v in template.kept.items() if f"client-{client}/kept/{k}" in tensors}  # none where nothing is sent
        store[client] = _rebuild(path, Private(template.mine, kept), tensors, f"client-{client}")
    return _rebuild(path, server, tensors, "server")


def _rebuild(path: Path, like: Tree, tensors: dict[str, Tensor], prefix: str) -> Any:
    leaves = []
    for name, own in trees.named(like):
        found = tensors.get(f"{prefix}/{name}")
        if found is None or found.shape != own.shape or found.dtype != own.dtype:
            raise RunError(f"checkpoint '{path}' does not fit this experiment: {prefix}/{name}")
        leaves.append(found.to(own.device, copy=True))  # aligned: sums over unaligned memory round differently
    return trees.rebuild(like, leaves)


def hash_file(path: Path) -> str:
    """Return a file's SHA-256."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest(server: Tree, store: Store) -> str:
    """Return a SHA-256 over the server's and every client's state in a canonical order."""
    whole = hashlib.sha256(fingerprint(server))
    own, first = set(store), fingerprint(store.first)
    for client in range(store.clients):
        whole.update(fingerprint(store[client]) if client in own else first)
    return whole.hexdigest()


def fingerprint(tree: Tree) -> bytes:
    """Return a SHA-256 over names, types, shapes and contents of a tree."""
    found = hashlib.sha256()
    for path, leaf in sorted(trees.named(tree), key=lambda item: item[0]):
        leaf = leaf.detach().cpu().contiguous()
        found.update(f"{path} {leaf.dtype} {tuple(leaf.shape)};".encode())
        found.update(leaf.reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.digest()
