"""The states of a run as tensors in files: written whole, read back against the method's own names and shapes."""

import hashlib
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from .. import trees
from ..disk import put
from ..errors import RunError
from ..transport import Private, Store
from ..trees import Tree

GOES_ON = "the last checkpoint is intact, and `perfed resume` goes on from it"


def write_state(path: Path, server: Tree, store: Store) -> None:
    """Write the server's state and every client's own."""
    tensors = {f"server/{k}": v for k, v in trees.named(server)}
    for client in store:
        tensors |= {f"client-{client}/{k}": v for k, v in trees.named(store[client])}
    put(path, lambda half: save_file(trees.apart(tensors), half), kept=GOES_ON)


def read_state(path: Path, server: Tree, store: Store, template: Private) -> Tree:
    """Return the server's state in a file and fill ``store`` with the clients'; names and shapes must be the method's."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise RunError(f"checkpoint '{path}' is damaged: {error}") from error
    for client in sorted({int(name.split("/")[0][7:]) for name in tensors if name.startswith("client-")}):
        kept = {k: v for k, v in template.kept.items() if f"client-{client}/kept/{k}" in tensors}  # none where nothing is sent
        store[client] = _rebuild(path, Private(template.mine, kept), tensors, f"client-{client}")
    return _rebuild(path, server, tensors, "server")


def shape_of(path: Path, name: str) -> tuple[int, ...]:
    """Return the shape of a tensor in a file of states, without reading the rest."""
    try:
        with safe_open(path, framework="pt") as file:
            return tuple(file.get_slice(name).get_shape())
    except (SafetensorError, OSError) as error:
        raise RunError(f"checkpoint '{path}' is damaged: {error}") from error


def _rebuild(path: Path, like: Tree, tensors: dict[str, Tensor], prefix: str) -> Any:
    leaves = []
    for name, own in trees.named(like):
        found = tensors.get(f"{prefix}/{name}")
        if found is None or found.shape != own.shape or found.dtype != own.dtype:
            raise RunError(f"checkpoint '{path}' does not fit this experiment: {prefix}/{name}")
        leaves.append(found.to(own.device, copy=True))  # aligned: sums over unaligned memory round differently
    return trees.rebuild(like, leaves)


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
