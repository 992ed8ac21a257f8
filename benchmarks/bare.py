"""The limit: plain PyTorch loops that do a method's arithmetic and nothing else, in as many processes as there are cores.

Nothing here comes from perfed. The loops use what is known to be fast: data as float32 in memory, channels last, freed memory
kept by the process, gradients by `torch.autograd.grad`, updates by `foreach`, frozen features in large batches.
"""

import ctypes
import multiprocessing as mp
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LR, BATCH, LARGE = 0.005, 10, 1000
Client = tuple[Tensor, Tensor, Tensor, Tensor]  # training inputs and labels, test inputs and labels


def body(channels: int = 1, side: int = 28) -> nn.Sequential:
    left = ((side - 4) // 2 - 4) // 2
    return nn.Sequential(
        nn.Conv2d(channels, 32, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * left * left, 512),
        nn.ReLU(),
    )


def batches(x: Tensor, y: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    order = torch.randperm(len(y))
    x, y = x[order], y[order]
    yield from zip(x.split(BATCH), y.split(BATCH), strict=True)


def down(loss: Tensor, params: list[Tensor]) -> None:
    slopes = torch.autograd.grad(loss, params)
    with torch.no_grad():
        torch._foreach_add_(params, slopes, alpha=-LR)


def tested(predict: Callable[[Tensor], Tensor], x: Tensor, y: Tensor) -> tuple[int, float]:
    correct, loss = 0, 0.0
    with torch.no_grad():
        for a, b in zip(x.split(LARGE), y.split(LARGE), strict=True):
            logits = predict(a)
            correct += int((logits.argmax(1) == b).sum())
            loss += float(F.cross_entropy(logits, b, reduction="sum"))
    return correct, loss


def frozen(module: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.cat([module(part) for part in x.split(LARGE)])


class FedAvg:
    """Train, then test."""

    def __init__(self, classes: int) -> None:
        self.body, self.head = body(), nn.Linear(512, classes)
        self.start = [p.detach().clone() for p in (*self.body.parameters(), *self.head.parameters())]

    def again(self, params: list[Tensor]) -> None:
        with torch.no_grad():
            for p, s in zip(params, self.start, strict=True):
                p.copy_(s)

    def __call__(self, x: Tensor, y: Tensor, test_x: Tensor, test_y: Tensor) -> Any:
        params = [*self.body.parameters(), *self.head.parameters()]
        self.again(params)
        for a, b in batches(x, y):
            down(F.cross_entropy(self.head(self.body(a)), b), params)
        return tested(lambda a: self.head(self.body(a)), test_x, test_y)


class FedCAC(FedAvg):
    """As FedAvg; then which half of each tensor matters most."""

    def __call__(self, x: Tensor, y: Tensor, test_x: Tensor, test_y: Tensor) -> Any:
        scores = super().__call__(x, y, test_x, test_y)
        for p, old in zip((*self.body.parameters(), *self.head.parameters()), self.start, strict=True):
            rank = ((p.detach() - old) * p.detach()).abs().flatten()
            _ = rank >= rank.topk(len(rank) // 2).values[-1]
        return scores


class FedRep(FedAvg):
    """The head on frozen features, then the body."""

    def __call__(self, x: Tensor, y: Tensor, test_x: Tensor, test_y: Tensor) -> Any:
        ends, deep = list(self.head.parameters()), list(self.body.parameters())
        self.again([*deep, *ends])
        for z, b in batches(frozen(self.body, x), y):
            down(F.cross_entropy(self.head(z), b), ends)
        for a, b in batches(x, y):
            down(F.cross_entropy(self.head(self.body(a)), b), deep)
        return tested(lambda a: self.head(self.body(a)), test_x, test_y)


class FedCP(FedAvg):
    """A policy network splits features between two heads; features stay near those of the received body."""

    def __init__(self, classes: int) -> None:
        super().__init__(classes)
        self.common, self.received = nn.Linear(512, classes).requires_grad_(False), body().requires_grad_(False)
        self.policy = nn.Sequential(nn.Linear(512, 1024), nn.LayerNorm(1024), nn.ReLU())
        self.start += [p.detach().clone() for p in self.policy.parameters()]

    def logits(self, z: Tensor, vector: Tensor) -> Tensor:
        s = torch.softmax(self.policy(z * vector).view(-1, 2, 512), 1)[:, 0]
        return self.head(s * z) + self.common((1 - s) * z)

    def __call__(self, x: Tensor, y: Tensor, test_x: Tensor, test_y: Tensor) -> Any:
        params = [*self.body.parameters(), *self.head.parameters(), *self.policy.parameters()]
        self.again(params)
        vector = F.normalize(self.head.weight.detach().sum(0), dim=0)
        order = torch.randperm(len(y))
        x, y = x[order], y[order]
        near = frozen(self.received, x)
        for a, b, r in zip(x.split(BATCH), y.split(BATCH), near.split(BATCH), strict=True):
            z = self.body(a)
            down(F.cross_entropy(self.logits(z, vector), b) + 5 * mmd(z, r), params)
        return tested(lambda a: self.logits(self.body(a), vector), test_x, test_y)


def mmd(a: Tensor, b: Tensor) -> Tensor:
    def kernels(square: Tensor) -> Tensor:
        return sum(torch.exp(square * (-0.5 / w)) for w in (10.0, 15.0, 20.0, 50.0))  # type: ignore[return-value]

    squares = [(p[:, None] - q[None]).square().sum(-1) for p, q in ((a, a), (b, b), (a, b))]
    return (kernels(squares[0]) + kernels(squares[1]) - 2 * kernels(squares[2])).mean()


class GPFL(FedAvg):
    """Features bent towards the embedding of their category and for the head, by what a valve makes of two conditions."""

    def __init__(self, classes: int) -> None:
        super().__init__(classes)
        bend = lambda: nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.LayerNorm(512))  # noqa: E731
        self.gamma, self.beta, self.table = bend(), bend(), nn.Embedding(classes, 512)
        self.added = [*self.gamma.parameters(), *self.beta.parameters(), *self.table.parameters()]
        self.start += [p.detach().clone() for p in self.added]

    def bent(self, z: Tensor, condition: Tensor) -> Tensor:
        return F.relu((self.gamma(condition) + 1) * z + self.beta(condition))

    def __call__(self, x: Tensor, y: Tensor, test_x: Tensor, test_y: Tensor) -> Any:
        params = [*self.body.parameters(), *self.head.parameters(), *self.added]
        self.again(params)
        plain = len(params) - len(self.added)
        table = self.table.weight.detach().clone()
        shares = torch.bincount(y, minlength=len(table)).float() / len(y)
        general, own = table.mean(0), shares @ table
        for a, b in batches(x, y):
            z = self.body(a)
            loss = F.cross_entropy(self.head(self.bent(z, own)), b)
            far = self.bent(z, general)
            angle = F.normalize(far, dim=1) @ F.normalize(self.table.weight, dim=1).T
            loss = loss + F.cross_entropy(angle, b) + 0.01 * torch.linalg.vector_norm(far - table[b])
            slopes = torch.autograd.grad(loss, params)
            with torch.no_grad():
                torch._foreach_add_(slopes[plain:], self.added, alpha=0.1)
                torch._foreach_add_(params, slopes, alpha=-LR)
        return tested(lambda a: self.head(self.bent(self.body(a), own)), test_x, test_y)


class DualFed(FedAvg):
    """The main branch through a projector with a contrastive loss, then the common classifier before it."""

    def __init__(self, classes: int) -> None:
        super().__init__(classes)
        self.projector = nn.Sequential(
            nn.Linear(512, 256), nn.ReLU(), nn.BatchNorm1d(256), nn.Linear(256, 512), nn.BatchNorm1d(512)
        )
        self.personal = nn.Linear(512, classes)
        self.start += [p.detach().clone() for p in (*self.projector.parameters(), *self.personal.parameters())]

    def __call__(self, x: Tensor, y: Tensor, test_x: Tensor, test_y: Tensor) -> Any:
        ends = list(self.head.parameters())
        branch = [*self.body.parameters(), *self.projector.parameters(), *self.personal.parameters()]
        self.again([*self.body.parameters(), *ends, *self.projector.parameters(), *self.personal.parameters()])
        self.projector.train()
        for a, b in batches(x, y):
            if len(b) > 1:  # BatchNorm
                u = self.projector(self.body(a))
                down(F.cross_entropy(self.personal(u), b) + 40 * contrast(u, b), branch)
        for z, b in batches(frozen(self.body, x), y):
            if len(b) > 1:
                with torch.no_grad():
                    self.projector(z)  # its statistics move
                down(F.cross_entropy(self.head(z), b), ends)
        self.projector.eval()

        def both(a: Tensor) -> Tensor:
            z = self.body(a)
            return self.personal(self.projector(z)) + self.head(z)

        return tested(both, test_x, test_y)


def contrast(u: Tensor, y: Tensor) -> Tensor:
    u = F.normalize(u, dim=1)
    other = ~torch.eye(len(u), dtype=torch.bool)
    sim = (u @ u.T / 0.2).masked_fill(~other, -1e9)
    alike = other & (y[:, None] == y[None])
    chance = (sim - torch.logsumexp(sim, 1, keepdim=True)).masked_fill(~alike, 0.0)
    return (-chance.sum(1) / (alike.sum(1) + 1e-6)).mean()


class FedPick(FedAvg):
    """All features for one classifier, selected ones for another, rejected ones for a third."""

    def __init__(self, classes: int) -> None:
        super().__init__(classes)
        self.selector = nn.Sequential(nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 512))
        self.chosen, self.rejected = nn.Linear(512, classes), nn.Linear(512, classes)
        self.added = [*self.selector.parameters(), *self.chosen.parameters(), *self.rejected.parameters()]
        self.start += [p.detach().clone() for p in self.added]

    def mask(self, z: Tensor, noisy: bool) -> Tensor:
        scores = self.selector(z)
        if noisy:  # two Gumbel numbers differ by a logistic one
            luck = torch.rand_like(scores)
            scores = scores + torch.log(luck / (1 - luck))
        soft = torch.sigmoid(scores)
        return soft + ((scores >= 0).float() - soft).detach()

    def __call__(self, x: Tensor, y: Tensor, test_x: Tensor, test_y: Tensor) -> Any:
        params = [*self.body.parameters(), *self.head.parameters(), *self.added]
        self.again(params)
        for a, b in batches(x, y):
            z = self.body(a)
            mask = self.mask(z, True)
            common, own, rest = self.head(z), self.chosen(z * mask), self.rejected(z * (1 - mask))
            p, q, r = F.log_softmax(own, 1), F.log_softmax(common, 1), F.log_softmax(rest, 1)
            p0, q0 = p.detach(), q.detach()
            lesson = (p0.exp() * (p0 - q) + q0.exp() * (q0 - p)).sum(1).mean()
            loss = F.nll_loss(q, b) + F.nll_loss(p, b) + lesson + 0.001 * (r.exp() * r).sum(1).mean()
            down(loss, params)

        def both(a: Tensor) -> Tensor:
            z = self.body(a)
            return self.chosen(z * self.mask(z, False)) + self.head(z)

        return tested(both, test_x, test_y)


LOOPS: dict[str, Callable[[int], Any]] = {
    "dualfed": DualFed,
    "fedavg": FedAvg,
    "fedcac": FedCAC,
    "fedcp": FedCP,
    "fedpick": FedPick,
    "fedrep": FedRep,
    "gpfl": GPFL,
}


class Limit:
    """A bare loop over all clients, longest first, whoever is free takes the next; ``()`` is one round."""

    def __init__(self, clients: list[Client], make: Callable[[int], Any], classes: int, processes: int | None = None) -> None:
        self._context = mp.get_context("fork")
        self._order = sorted(range(len(clients)), key=lambda i: -len(clients[i][1]))
        self._next = self._context.Value("i", 0)
        self._workers = []
        for _ in range(processes or os.cpu_count() or 1):
            here, there = self._context.Pipe()
            process = self._context.Process(target=self._work, args=(there, clients, make, classes), daemon=True)
            process.start()
            there.close()
            self._workers.append((process, here))
        self()  # warm

    def __call__(self) -> None:
        self._next.value = 0
        for _, pipe in self._workers:
            pipe.send(True)
        for _, pipe in self._workers:
            pipe.recv()

    def _work(self, pipe: Any, clients: list[Client], make: Callable[[int], Any], classes: int) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        torch.set_num_threads(1)
        keep_memory()
        torch.manual_seed(0)
        loop = make(classes)
        while pipe.recv():
            done = 0
            while (place := self._claim()) < len(self._order):
                loop(*clients[self._order[place]])
                done += 1
            pipe.send(done)

    def _claim(self) -> int:
        with self._next.get_lock():
            self._next.value += 1
            return int(self._next.value) - 1

    def close(self) -> None:
        for process, pipe in self._workers:
            pipe.send(False)
            process.join(2)
            if process.is_alive():
                process.terminate()
                process.join()


def keep_memory() -> None:
    libc = ctypes.CDLL("libc.so.6")
    libc.mallopt(-1, 1 << 30)  # M_TRIM_THRESHOLD
    libc.mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD
