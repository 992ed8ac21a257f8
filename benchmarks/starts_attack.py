"""What a curious server sees in the first upload, by how private parts began: pictures from gradients, method by method.

The server replays the method's own training of one step on a dummy picture, in 64 bits, and moves the picture until the upload
is explained (L-BFGS). The label is given to it. Where it does not know the private start it tries all it can, and the best try
counts: a start drawn at random, one found along with the picture, and one that the upload gives away (FedCP's answer blends the
client's head with the received one, so that after the round the server has both).
"""

import argparse
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from perfed import keys, methods, trees
from perfed.analysis.psnr import measure
from perfed.local import Batch, Budget, Shard
from perfed.runs import parse
from perfed.runs.assemble import Assembled, assemble
from perfed.runs.choice import Choice
from perfed.silos import start
from perfed.trees import Tree

METHODS = ("fedcp", "fedcac", "dualfed", "gpfl", "fedpick", "fedper", "fedrep", "fedproto")
RATE = 0.005  # the default


class Smooth(nn.Module):
    """A small network with sigmoids, which gradient inversion is best at."""

    def __init__(self) -> None:
        super().__init__()
        layers = (nn.Conv2d(1, 12, 5, padding=2), nn.Sigmoid(), nn.Conv2d(12, 12, 5, stride=2, padding=2), nn.Sigmoid())
        self.body = nn.Sequential(*layers, nn.Flatten())
        self.head = nn.Linear(192, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Bare(Shard):
    """A shard whose frozen parts are looked through each time, so that gradients pass."""

    def epochs(self, count: int, stream: str = "fit", see: Any = None) -> Any:
        return super().epochs(count, stream)


def through(loss: Callable[..., Tensor], begin: Tree, batches: Iterable[Batch], budget: Budget, *, decay: Any = None) -> Tree:
    """Descend by plain steps that can be differentiated themselves."""
    paths, tree = [path for path, _ in trees.named(begin)], begin
    for batch in batches:
        leaves = [leaf if leaf.requires_grad else leaf.clone().requires_grad_() for leaf in trees.leaves(tree)]
        tree = trees.rebuild(tree, leaves)
        slopes = torch.autograd.grad(loss(tree, batch), leaves, create_graph=True, allow_unused=True)
        moved = []
        for path, leaf, slope in zip(paths, leaves, slopes, strict=True):
            falls = budget.weight_decay if decay is None else decay(path)
            step = (0 if slope is None else slope) + falls * leaf
            moved.append(leaf - budget.lr * step)
        tree = trees.rebuild(tree, moved)
    return tree


def double(tree: Tree) -> Tree:
    return trees.map(lambda leaf: leaf.detach().double() if leaf.is_floating_point() else leaf, tree)


class Server:
    """One method, one client with one picture, and what the server got from it."""

    def __init__(self, name: str, row: int) -> None:
        words = [f"method={name}", "data=digits", "clients=10", f"budget.lr={RATE}", "budget.batch_size=1", "budget.epochs=1"]
        words += ["method.projector_norm=false"] if name == "dualfed" else []
        asked = parse.load(None, words).but(model=Choice(name="smooth", made=Smooth))
        self.name, self.made = name, assemble(asked, 0)
        fed, self.method, self.task = self.made.federation, self.made.method, self.made.site.task
        own = fed.train[0][row : row + 1]
        self.inputs: Any = fed.inputs
        self.picture, self.label = replace(self.inputs, mean=None, std=None)(fed.x[own], None).double(), fed.y[own]
        self.down = double(self.method.send(self.made.server, 0))

    def shard(self, picture: Tensor, key: Tensor) -> Bare:
        def inputs(x: Tensor, _: Tensor | None) -> Tensor:
            return self.inputs.normalised(x)  # type: ignore[no-any-return]

        return Bare(picture, self.label, torch.arange(1), inputs, key, 1, self.task.classes)

    def upload(self, picture: Tensor, mine: Tree, key: Tensor) -> list[Tensor]:
        """Return what a client would send, less what it was sent, as a gradient."""
        if self.name == "fedproto":  # its prototypes are gathered without a gradient; of one picture they are its features
            return [self.task.features(mine, self.inputs.normalised(picture))]
        up, _ = self.method.local(self.task, self.down, mine, self.shard(picture, key))
        sent = dict(trees.named(self.down))
        return [(sent[path.removeprefix("params/")] - leaf) / RATE for path, leaf in trees.named(up) if leaf.is_floating_point()]

    def search(self, seen: list[Tensor], mine: Tree, key: Tensor, how: str, seed: int) -> Tensor:
        """Return the picture that explains an upload best; ``how``: the start is held, free, or told by the head's update."""
        free, used = how == "free", list(range(len(seen)))
        if how == "told":  # what told it explains nothing more
            used = [at for at, (path, _) in enumerate(trees.named(self.down)) if not path.startswith("head/")]
        generator = torch.Generator().manual_seed(seed)
        dummy = torch.randn(self.picture.shape, generator=generator, dtype=torch.float64).requires_grad_()
        parts = [leaf.clone().requires_grad_(free and leaf.is_floating_point()) for leaf in trees.leaves(double(mine))]
        moving = [dummy, *(part for part in parts if part.requires_grad)]
        power = sum(float(seen[at].square().sum()) for at in used)
        best: list[Any] = [math.inf, dummy.sigmoid().detach()]

        def step() -> float:
            found = self.upload(dummy.sigmoid(), trees.rebuild(mine, parts), key)
            value = torch.stack([(found[at] - seen[at]).square().sum() for at in used]).sum() / power
            for leaf, slope in zip(moving, torch.autograd.grad(value, moving, allow_unused=True), strict=True):
                leaf.grad = torch.zeros_like(leaf) if slope is None else slope
            reached = float(value.detach())
            if reached < best[0]:
                best[:] = [reached, dummy.sigmoid().detach()]
            return reached

        search = torch.optim.LBFGS(
            moving, max_iter=300, history_size=50, line_search_fn="strong_wolfe", tolerance_grad=1e-14, tolerance_change=1e-16
        )
        search.step(step)  # type: ignore[no-untyped-call]
        found: Tensor = best[1]
        return found


def drawn(made: Assembled, what: str) -> Assembled:
    return assemble(made.experiment, int.from_bytes(sha256(what.encode()).digest()[:7], "little"), made.federation)


def psnr(name: str, row: int, way: str) -> float:
    """Return how well the best of the server's tries recovers a picture, in dB."""
    one = Server(name, row)
    true_key, guessed_key = (keys.key(seed, "order") for seed in (1, 2))
    secret = drawn(one.made, "silos")
    mine = {"seeded": one.made.first, "entropy": secret.first, "new": start.first(one.made, secret)}[way].mine
    known = all(map(torch.equal, trees.leaves(mine), trees.leaves(one.made.first.mine)))  # a copy of what was sent
    seen = [leaf.detach().float().double() for leaf in one.upload(one.picture, double(mine), true_key)]
    if way == "seeded" or known:
        tries = [(mine, true_key if way == "seeded" else guessed_key, "held")]
    else:
        guess = drawn(one.made, "guess").first.mine
        tries = [(guess, guessed_key, "held"), (guess, guessed_key, "free")]
        if name == "fedcp":
            head = dict(zip((path for path, _ in trees.named(one.down)), seen, strict=True))
            told = {leaf: one.down.head[leaf] - 2 * RATE * head[f"head/{leaf}"] for leaf in one.down.head}
            tries += [(told, guessed_key, "told"), (told, guessed_key, "free")]
    found = [one.search(seen, *each, seed=0) for each in tries]
    return max(measure(one.picture.float(), picture.float()) for picture in found)


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--methods", default=",".join(METHODS))
    ask.add_argument("--pictures", type=int, default=3)
    given = ask.parse_args()
    torch.set_num_threads(1)
    print("| method | seeded (dB) | entropy (dB) | new (dB) |")
    for name in given.methods.split(","):
        home = import_module(methods.find(name).__module__)
        if hasattr(home, "descend"):
            home.descend = through  # type: ignore[attr-defined]
        shown = []
        for way in ("seeded", "entropy", "new"):
            found = [psnr(name, row, way) for row in range(given.pictures)]
            shown.append(f"{sum(found) / len(found):.1f} ({', '.join(f'{one:.0f}' for one in found)})")
        print(f"| {name} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main()
