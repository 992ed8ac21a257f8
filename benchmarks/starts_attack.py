"""What a curious server sees in the first upload, by how private parts began: pictures from gradients, method by method.

The server replays the method's own training of one step on a dummy picture, in 64 bits, and moves the picture until the upload
is explained (L-BFGS). The label is given to it. Where it does not know the private start it tries all it can, and the best try
counts: a start drawn at random, one found along with the picture, and a private pass replayed along with the upload. FedCP's
answer gives more away: the blend tells the client's head, from which the step is taken back, and the steps of the policy
network's first layer are its input times an error, so that the features can be read off.
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
WAYS = ("seeded", "entropy", "new", "pass", "pass20")  # as in starts.py; a pass over the picture alone, and over twenty others
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
        leaves = [_moving(path, leaf) for path, leaf in trees.named(tree)]
        tree = trees.rebuild(tree, leaves)
        moving = [leaf for leaf in leaves if leaf.requires_grad]
        slopes = dict(zip(map(id, moving), _slopes(loss(tree, batch), moving), strict=True))
        moved = []
        for path, leaf in zip(paths, leaves, strict=True):
            falls = budget.weight_decay if decay is None else decay(path)
            moved.append(leaf - budget.lr * (slopes[id(leaf)] + falls * leaf) if id(leaf) in slopes else leaf)
        tree = trees.rebuild(tree, moved)
    return tree


def _moving(path: str, leaf: Tensor) -> Tensor:
    if trees.is_state(path):
        return leaf.detach().clone()
    return leaf if leaf.requires_grad else leaf.clone().requires_grad_()


def _slopes(loss: Tensor, leaves: list[Tensor]) -> Iterable[Tensor]:
    found: Iterable[Tensor] = torch.autograd.grad(loss, leaves, create_graph=True, allow_unused=True, materialize_grads=True)
    return found


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
        self.inputs: Any = fed.inputs
        self.picture, self.label = self.pictures(row, 1)
        self.down = double(self.method.send(self.made.server, 0))

    def shard(self, pictures: Tensor, key: Tensor, labels: Tensor | None = None) -> Bare:
        def inputs(x: Tensor, _: Tensor | None) -> Tensor:
            return self.inputs.normalised(x)  # type: ignore[no-any-return]

        owned = self.label if labels is None else labels
        return Bare(pictures, owned, torch.arange(len(owned)), inputs, key, 1, self.task.classes)

    def upload(self, picture: Tensor, mine: Tree, key: Tensor) -> list[Tensor]:
        """Return what a client would send, less what it was sent, as a gradient."""
        if self.name == "fedproto":  # its prototypes are gathered without a gradient; of one picture they are its features
            return [self.task.features(mine, self.inputs.normalised(picture))]
        up, _ = self.method.local(self.task, self.down, mine, self.shard(picture, key))
        sent = dict(trees.named(self.down))
        return [(sent[path.removeprefix("params/")] - leaf) / RATE for path, leaf in trees.named(up) if leaf.is_floating_point()]

    def passed(self, mine: Tree, pictures: Tensor, labels: Tensor, key: Tensor) -> Tree:
        """Return a private start after a training whose answer nobody sees."""
        _, found = self.method.local(self.task, self.down, mine, self.shard(pictures, key, labels))
        return found

    def pictures(self, first: int, count: int) -> tuple[Tensor, Tensor]:
        """Return some of the client's pictures, with their labels."""
        fed = self.made.federation
        own = fed.train[0][first : first + count]
        return replace(self.inputs, mean=None, std=None)(fed.x[own], None).double(), fed.y[own]

    def search(self, seen: list[Tensor], start: "Start", key: Tensor, free: Tree | None = None, heads: bool = True) -> Tensor:
        """Return the picture that explains an upload best, where ``start`` says how private parts began for a picture.

        ``free`` is a start to be found along with the picture; without ``heads`` their update explains nothing.
        """
        used = list(range(len(seen)))
        if not heads:
            used = [at for at, (path, _) in enumerate(trees.named(self.down)) if not path.startswith("head/")]
        dummy = self._dummy()
        parts = [leaf.clone().requires_grad_(leaf.is_floating_point()) for leaf in trees.leaves(double(free or {}))]
        power = sum(float(seen[at].square().sum()) for at in used)

        def mismatch() -> Tensor:
            picture = dummy.sigmoid()
            mine = start(picture) if free is None else trees.rebuild(free, parts)
            found = self.upload(picture, mine, key)
            return torch.stack([(found[at] - seen[at]).square().sum() for at in used]).sum() / power

        return descended(dummy, [part for part in parts if part.requires_grad], mismatch)

    def told(self, seen: list[Tensor]) -> Tree:
        """Return FedCP's own head after the step, which the blend with the received one gives away."""
        found = dict(zip((path for path, _ in trees.named(self.down)), seen, strict=True))
        return {leaf: self.down.head[leaf] - 2 * RATE * found[f"head/{leaf}"] for leaf in self.down.head}

    def undone(self, told: Tree, picture: Tensor, key: Tensor) -> Tree:
        """Return the head from which one step on a picture leads to the one that was told."""
        mine = told
        for _ in range(4):
            after = self.passed(mine, picture, self.label, key)
            mine = {leaf: told[leaf] + mine[leaf] - after[leaf] for leaf in told}
        return mine

    def read(self, seen: list[Tensor], told: Tree) -> Tensor | None:
        """Return the picture whose features FedCP's policy network has seen, or nothing where it made no step."""
        found = dict(zip((path for path, _ in trees.named(self.down)), seen, strict=True))
        weight, bias = found["policy/policy.0.weight"], found["policy/policy.0.bias"]
        if not float(bias.square().sum()):
            return None
        direction = self.method._vector(self.task, told)
        input_ = (weight * bias[:, None]).sum(0) / bias.square().sum()
        dummy = self._dummy()

        def mismatch() -> Tensor:
            features = self.task.features(self.down.body, self.inputs.normalised(dummy.sigmoid()))[0]
            return (direction * features - input_).square().sum() / input_.square().sum()

        return descended(dummy, [], mismatch)

    def _dummy(self) -> Tensor:
        generator = torch.Generator().manual_seed(0)
        return torch.randn(self.picture.shape, generator=generator, dtype=torch.float64).requires_grad_()


Start = Callable[[Tensor], Tree]


def descended(dummy: Tensor, parts: list[Tensor], mismatch: Callable[[], Tensor]) -> Tensor:
    """Return the picture with the smallest mismatch on the way of L-BFGS."""
    moving = [dummy, *parts]
    best: list[Any] = [math.inf, dummy.sigmoid().detach()]

    def step() -> float:
        value = mismatch()
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


def begun(one: Server, way: str, key: Tensor) -> Tree:
    """Return how the private parts of the client begin."""
    public, secret = double(one.made.first.mine), drawn(one.made, "silos")
    if way == "pass":
        return one.passed(public, one.picture, one.label, key)
    if way == "pass20":
        return one.passed(public, *one.pictures(10, 20), key)
    return double({"seeded": one.made.first, "entropy": secret.first, "new": start.first(one.made, secret)}[way].mine)


def psnr(name: str, row: int, way: str) -> float:
    """Return how well the best of the server's tries recovers a picture, in dB."""
    one = Server(name, row)
    true_key, guessed_key = (keys.key(seed, "order") for seed in (1, 2))
    public, mine = double(one.made.first.mine), trees.map(lambda leaf: leaf.detach(), begun(one, way, true_key))
    seen = [leaf.detach().float().double() for leaf in one.upload(one.picture, mine, true_key)]
    if way == "seeded" or all(map(torch.equal, trees.leaves(mine), trees.leaves(public))):  # a copy of what was sent
        found = [one.search(seen, lambda _: public, true_key if way == "seeded" else guessed_key)]
    else:
        guess = public if way.startswith("pass") else double(drawn(one.made, "guess").first.mine)
        found = [one.search(seen, lambda _: guess, guessed_key), one.search(seen, lambda _: guess, guessed_key, free=guess)]
        if way.startswith("pass"):
            replayed = lambda picture: one.passed(public, picture, one.label, guessed_key)  # noqa: E731
            found.append(one.search(seen, replayed, guessed_key))
        if name == "fedcp":
            told = one.told(seen)
            found.append(one.search(seen, lambda picture: one.undone(told, picture, guessed_key), guessed_key, heads=False))
            found += [picture for picture in [one.read(seen, told)] if picture is not None]
    return max(measure(one.picture.float(), picture.float()) for picture in found)


def second(row: int) -> float:
    """Return how well FedCP's second upload gives a picture away when the start was secret: the first one told the head."""
    one, other = Server("fedcp", row), Server("fedcp", row + 5)
    true_key, guessed_key = (keys.key(seed, "order") for seed in (1, 2))
    mine = begun(one, "entropy", true_key)
    up, mine = one.method.local(one.task, one.down, mine, one.shard(one.picture, true_key))
    another, _ = other.method.local(one.task, one.down, begun(other, "entropy", true_key), other.shard(other.picture, true_key))
    head = {leaf: 2 * up.head[leaf].detach() - one.down.head[leaf] for leaf in up.head}
    one.picture, one.label = one.pictures(row + 3, 1)
    one.down = trees.map(lambda leaf: leaf.detach(), trees.lerp(up, another, 0.5))
    seen = [leaf.detach().float().double() for leaf in one.upload(one.picture, double(mine), true_key)]
    found = [one.search(seen, lambda _: head, guessed_key), one.read(seen, head)]
    return max(measure(one.picture.float(), picture.float()) for picture in found if picture is not None)


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--methods", default=",".join(METHODS))
    ask.add_argument("--pictures", type=int, default=3)
    given = ask.parse_args()
    torch.set_num_threads(1)
    print(f"| method | {' | '.join(f'{way} (dB)' for way in WAYS)} |")
    for name in given.methods.split(","):
        home = import_module(methods.find(name).__module__)
        if hasattr(home, "descend"):
            home.descend = through  # type: ignore[attr-defined]
        shown = []
        for way in WAYS:
            found = [psnr(name, row, way) for row in range(given.pictures)]
            shown.append(f"{sum(found) / len(found):.1f} ({', '.join(f'{one:.0f}' for one in found)})")
        print(f"| {name} | {' | '.join(shown)} |", flush=True)
        if name == "fedcp":
            found = [second(row) for row in range(given.pictures)]
            print(f"| fedcp's second upload, each silo's own start | {', '.join(f'{one:.0f}' for one in found)} |", flush=True)


if __name__ == "__main__":
    main()
