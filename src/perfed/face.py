"""The Python face: load or bring data, train, look at accuracies, take a client's model home."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from . import comparison, experiment, trees
from . import settings as setting
from .build import method_of, samples_of, task_of
from .data import Samples
from .data import load as load_samples
from .errors import InputError, RunError
from .evaluate.scores import columns
from .evaluate.summary import average
from .experiment import Run
from .federation import Federation
from .job import Job
from .local import Budget
from .method import Method
from .partition import Split
from .partition import build as build_partition
from .partition import split as make_split
from .record import Lines, load_state, read_state, snapshots
from .rounds import Protocol, Round, round_of
from .rounds import rounds as loop
from .sampling import Sampling
from .task import Task
from .transport import Private, Site, Store, choose
from .trees import Tree


class PersonalModel(nn.Module):
    """One client's model as an ordinary module: network inputs, or stored samples through ``raw``, to scores.

    Its tensors are buffers; the client's samples stay reachable for tests. ``perfed.export`` writes a file without them.
    """

    def __init__(self, site: Site, down: Tree, private: Private, client: int, number: int) -> None:
        super().__init__()
        self.client, self.name, self.number, self.site = client, site.federation.names[client], number, site
        down, mine = site.adapted(client, site.withheld.overlay(down, private.kept), private.mine, number)
        whole = {"down": down, "mine": mine}
        self._like = trees.map(lambda leaf: leaf.new_empty(0), whole)
        for path, leaf in trees.named(whole):
            self.register_buffer(path.replace(".", "_"), leaf)

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        return self.scores(list(self._buffers.values()), x)  # type: ignore[arg-type]

    def scores(self, leaves: Sequence[Tensor], x: Tensor) -> Tensor:
        """Return the scores of network inputs with other tensors in the buffers' places."""
        whole = trees.rebuild(self._like, leaves)
        return self.site.method.predict(self.site.task.served, whole["down"], whole["mine"], x)

    def raw(self, x: Tensor) -> Tensor:
        """Return the scores of samples as they are stored (uint8 images, tokens, …)."""
        return self(self.site.federation.inputs(x, None))  # type: ignore[no-any-return]


@dataclass
class Trained:
    """A trained federation: what every round scored, and every client's model."""

    site: Site
    server: Tree
    store: Store
    history: list[Round]

    def model(self, client: int) -> PersonalModel:
        """Return the model that a client takes home."""
        count = len(self.site.federation)
        if not 0 <= client < count:
            raise InputError(f"there is no client {client}; clients are numbered 0 to {count - 1}")
        down = self.site.method.send(self.server, client)
        return PersonalModel(self.site, down, self.store[client], client, self.history[-1].number)

    def accuracies(self, part: str = "test") -> dict[str, float]:
        """Return each client's accuracy after the last round, by name."""
        scores = self.history[-1].scores[part]
        return {name: score["accuracy"] for name, score in zip(self.site.federation.names, scores, strict=True)}

    @property
    def accuracy(self) -> float:
        """Accuracy over all clients' test samples after the last round."""
        return average(columns(self.history[-1].scores["test"]))


def federate(
    data: str | Samples,
    *,
    clients: int | None = None,
    partition: str = "dirichlet",
    seed: int = 0,
    validation: float = 0.1,
    test: float = 0.25,
    split: Split | None = None,
    **options: Any,
) -> Federation:
    """Return a data set, by name or of one's own, shared among clients; ``options`` are the partition's."""
    from .data.inputs import inputs_for

    samples = load_samples(data) if isinstance(data, str) else data
    if samples.texts is not None:
        raise InputError("texts need a vocabulary of the training data; train them through `perfed run data=…`")
    made = split or make_split(samples, build_partition(partition, **options), clients, seed, validation, test)
    return Federation.of(samples, made, inputs_for(samples), seed=seed)


def train(
    federation: Federation,
    method: str | Method[Any, Any, Any, Any] = "fedavg",
    *,
    model: str | nn.Module = "mlp",
    rounds: int = 50,
    budget: Budget | Mapping[str, Any] | None = None,
    sampling: Sampling | None = None,
    seed: int | None = None,
    transport: str = "auto",
    workers: int | None = None,
    device: str = "cpu",
    on_round: Callable[[Round], None] | None = None,
    **options: Any,
) -> Trained:
    """Train ``method`` on a federation and return every client's model; ``options`` are the method's fields."""
    federation = federation.to(device)
    seed = federation.seed if seed is None else seed
    chosen = (
        method
        if isinstance(method, Method)
        else method_of(setting.build({"method": {"name": method, **options}, "rounds": rounds, "budget": budget or Budget()}))
    )
    task = task_for(federation, model, seed, device)
    chosen.check(task, federation.sizes, (sampling or Sampling()).fewest(len(federation)))
    site, server, first = Site.of(chosen, task, federation)
    store = Store(first, len(federation))
    carrier, _ = choose(site, store, transport, workers)
    history = []
    try:
        for done in loop(
            chosen,
            server,
            carrier,
            sampling or Sampling(),
            Protocol(),
            seed=seed,
            clients=len(federation),
            count=rounds,
        ):
            history.append(done)
            if on_round:
                on_round(done)
    finally:
        carrier.close()
    return Trained(site, history[-1].server, store, history)


def task_for(federation: Federation, model: str | nn.Module, seed: int, device: str) -> Task:
    """Return a network by name, or one of the user's own, as a task."""
    from .models import wrap

    if isinstance(model, str):
        return task_of(setting.build({"model": model, "device": device}), federation, seed)
    net = model if isinstance(getattr(model, "body", None), nn.Module) else wrap(model)
    example = federation.inputs(federation.x[:2], None)
    return Task.of(net, tuple(federation.x.shape[1:]), federation.classes, seed=seed, device=device, example=example)


def open(path: Path | str, seed: int | None = None, at: int | None = None) -> Trained:
    """Return a run as it stands after its last checkpoint, or after round ``at`` where that snapshot was kept."""
    found = experiment.opened(path)
    number = found.settings.seeds[0] if seed is None else seed
    if number not in found.settings.seeds:
        raise InputError(f"'{path}' has seeds {', '.join(map(str, found.settings.seeds))}, not {number}")
    return restore(found, number, at)


def restore(found: Run, seed: int, at: int | None = None) -> Trained:
    """Return one seed of a run with its states."""
    samples = samples_of(found.settings)
    job = Job(found.settings, seed, found.path / f"seed-{seed}", samples, experiment.splits_of(found, samples)[seed])
    if at is None:
        last, server = load_state(job.folder, job.server, job.store, job.template)
    elif at in (kept := snapshots(job.folder)):
        last, server = at, read_state(kept[at], job.server, job.store, job.template)
    else:
        raise RunError(f"'{found.path}' kept no state after round {at}; run it with snapshots=N to keep every Nth")
    lines = Lines(job.folder / "rounds.jsonl").read(last)
    return Trained(job.site, server, job.store, [round_of(line, server) for line in lines])


def compare(methods: str, *overrides: str) -> dict[str, Any]:
    """Compare methods (names joined by commas) under ``key=value`` settings; return the table and the summaries."""
    return comparison.run(comparison.load(None, [f"methods={methods}", *overrides]))
