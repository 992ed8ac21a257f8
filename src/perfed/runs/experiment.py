"""The experiment as a frozen value: each part a name with options, or an object."""

import hashlib
import json
from dataclasses import asdict, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from .. import advice
from ..attacks import Attack
from ..errors import InputError
from ..evaluate.metrics import CATALOGUE as METRICS
from ..evaluate.metrics import refuse, select
from ..local.budget import Budget
from ..method import Method
from ..methods import find
from ..partition import Split
from ..privacy import Privacy
from ..sampling import Join, Sampling
from . import code
from .choice import Choice, former, name_of, record, recorded, sentence
from .engine import Engine

# what changes how a run is done, not what it is
_ELSEWHERE = (
    *("transport", "workers", "device", "devices", "out", "name", "checkpoint", "snapshots", "keep", "memory", "track", "engine"),
)
# what version 0.1.0 did not have: at its default it leaves a digest as it was
SINCE = ("metrics", "choose", "protocol", "unseen", "join", "loss", "privacy", "admission", "suspend", "attack")
_BUDGET_SINCE = ("steps", "balance", "order")


class Experiment(BaseModel):
    """Everything that decides a run, as a frozen value; defaults here are the only ones that are not a method's.

    ``method``, ``model``, ``data`` and ``partition`` are each a name, a name with options (``{"name": "fedcp", "align": 5}``),
    code of the user's own (``"my_method.py:MyMethod"``), or an object: a `Method`, an ``nn.Module`` or a function that makes
    one, `Samples` or a `Federation`, a `Split`.

    Args:
        method: how clients learn together.
        model: the network.
        data: a data set of the list, or one's: ``folder:PATH``, ``csv:``, ``npz:``, ``npy:``, ``hf:``, ``leaf:`` or ``pfllib:``.
        partition: who owns which samples.
        clients: how many; by default one per group for domains and natural, else 20.
        rounds: how often clients and server exchange.
        seeds: one run each; splits, networks and the order of samples are drawn from it.
        budget: what a client may spend in a round: a `Budget`, or its fields as a mapping.
        sampling: who takes part in a round: a `Sampling`, or its fields as a mapping.
        privacy: whom noise on uploads protects: ``client``, ``sample`` or ``none``, a `Privacy`, or its fields as a mapping.
        unseen: clients kept out of training, who join after the last round: a share, a number, or names.
        join: what a newcomer may spend, and how often the unseen join: a `Join`, or its fields as a mapping.
        admission: which uploads are merged: ``structure`` (right names, shapes and types, finite numbers), ``bounds`` (also not
            far too long, nor far from what was sent), ``strict`` (also not against the others).
        suspend: refused uploads in a row after which a client is asked no more; 0 asks for ever.
        attack: what some clients do that honest ones would not, for simulation: an `Attack`, its name, or its fields.
        loss: what is minimised: ``usual`` for the data's task; of regression ``squared``, ``absolute`` or ``huber``.
        norm: what becomes of BatchNorm; by default the method's own policy.
        validation: the share of every client's own data that rounds are chosen on.
        test: the share of every client's own data that it is tested on.
        split: a split or its file, instead of a partition.
        split_seed: what the split is drawn from; by default the run's seed.
        augment: whether training images are flipped and turned.
        inputs: how samples become inputs: ``mean``, ``std``, ``size``; with ``augment`` also ``flip``, ``rotate``, ``crop``.
        text: ``length``, ``least`` and ``size`` of the vocabulary.
        metrics: what clients are scored by; accuracy and loss always are.
        choose: the metric by which rounds are chosen.
        every: rounds between tests.
        after: whether clients are also tested right after local training.
        protocol: ``pflbench`` for tables that also show who is helped, who is hurt, pace and FLOPs.
        report: ``weighted`` for the accuracy over all samples, ``mean`` for the mean over clients.
        best: ``round`` for the best round of all clients, ``per_client`` for that of each.
        series: which tests tables show; ``after`` needs ``after=True``.
        precision: of the network's arithmetic.
        transport: what carries messages; ``auto`` takes serial or pooled, which come to the same bits.
        workers: processes of the pooled transport; by default one per core.
        device: ``cpu``, ``cuda``, ``cuda:1`` or ``mps``.
        devices: where the pooled transport trains, one worker each, such as ``cuda:0,cuda:1``; the server stays on the CPU.
        out: the folder in which run folders are made.
        name: of the run's folder; by default method, data and a hash.
        checkpoint: seconds between checkpoints; 0 writes one every round; by default 30, and more where writing takes long, so
            that it takes no more than a twentieth of the time.
        snapshots: rounds between states kept for analyses; 0 keeps none besides ``keep``.
        keep: which state a finished run leaves on disk: the ``last``, the ``best`` on validation data, or ``none``.
        memory: GiB of private states held in memory before they go to files.
        track: who else hears of every round: ``tensorboard``, ``mlflow``, ``wandb``.
        engine: who trains the cells of a study: ``processes``, ``ray``, or an `Engine`'s fields as a mapping.

    Raises:
        InputError: one sentence about the first setting that cannot be right, with the nearest name.

    Example:
        >>> from perfed import Experiment
        >>> asked = Experiment(method="fedper", rounds=3, seeds=(0, 1))
        >>> asked.method.name, asked.rounds, asked.seeds
        ('fedper', 3, (0, 1))
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    method: Choice = Choice(name="fedavg")  # how clients learn together; method.* are its fields
    model: Choice = Choice(name="mlp", open=True)  # the network; by default one that fits the data; model.* are its options
    data: Choice = Choice(name="digits")  # of the list, or your own as folder:, csv:, npz:, npy:, hf:, leaf: or pfllib:PATH
    partition: Choice = Choice(name="dirichlet", open=True)  # who owns which samples; by default the data's own groups, if any
    clients: int | None = None  # None: one per group for domains and natural, else 20
    rounds: int = 50  # how often clients and server exchange
    seeds: tuple[int, ...] = (0,)  # one run each: splits, networks and order of samples are drawn from it
    budget: Budget = Budget()
    sampling: Sampling = Sampling()
    privacy: Privacy = Privacy()
    unseen: float | int | tuple[str, ...] = 0  # clients kept out of training, who join after it: a share, a number, or names
    join: Join = Join()
    admission: Literal["structure", "bounds", "strict"] = "bounds"  # which uploads are merged; strict also compares directions
    suspend: int = 3  # refused uploads in a row after which a client is asked no more; 0: never
    attack: Attack = Attack()
    loss: str = "usual"  # what is minimised: what fits the data's task; for numbers also absolute or huber
    norm: Literal["all", "local_stats", "local_all"] | None = None  # None: the method's own policy for BatchNorm
    validation: float = 0.1  # share of every client's own data that rounds are chosen on
    test: float = 0.25  # share of every client's own data that it is tested on
    split: Path | Split | dict[str, Any] | None = None  # a split or its file, instead of partition
    split_seed: int | None = None  # None: the run's seed
    augment: bool = False  # flips and rotations of training images
    inputs: dict[str, Any] = Field(default_factory=dict)  # mean, std, size; with augment flip, rotate, crop
    text: dict[str, Any] = Field(default_factory=dict)  # length, least, size of the vocabulary
    metrics: tuple[Any, ...] = ("accuracy", "loss")  # what clients are scored by; these two always are
    choose: str = "accuracy"  # the metric by which rounds are chosen
    every: int = 1  # rounds between tests
    after: bool = False  # also test right after local training
    protocol: Literal["usual", "pflbench"] = "usual"  # pflbench: tables also show who is helped, who is hurt, pace and FLOPs
    report: Literal["weighted", "mean"] = "weighted"  # accuracy over all samples, or the mean over clients
    best: Literal["round", "per_client"] = "round"  # the best round of all clients, or of each
    series: Literal["test", "after"] = "test"  # which tests tables show; after needs after=true
    precision: Literal["fp32", "bf16"] = "fp32"  # of the network's arithmetic
    transport: Literal["auto", "serial", "pooled", "stacked", "ray"] = "auto"  # auto: serial or pooled, same bits
    workers: int | None = None  # None: one per core
    device: str = "cpu"  # or cuda, cuda:1, mps
    devices: tuple[str, ...] = ()  # of the pooled transport: one worker on each, such as cuda:0,cuda:1
    out: Path = Path("runs")  # the folder in which run folders are made
    name: str | None = None  # of the run's folder; None: method, data and a hash
    checkpoint: float | None = None  # seconds between checkpoints, 0: every round; None: 30, more where writing takes long
    snapshots: int = 0  # rounds between states kept for analyses; 0 keeps none besides keep
    keep: Literal["last", "best", "none"] = "last"  # which state a finished run leaves on disk; best is chosen on validation data
    memory: float = 4.0  # GiB of private states held in memory before they go to files
    track: tuple[str, ...] = ()  # who else hears of every round: tensorboard, mlflow, wandb
    engine: Engine = Engine()

    def __init__(self, **given: Any) -> None:
        for name in given:
            if name not in type(self).model_fields:
                raise advice.unknown(str(name), given)
        advice.check(given)
        for name in ("privacy", "attack", "engine"):
            if isinstance(given.get(name), str):
                given[name] = {"name": given[name]}
        records = {"budget": Budget, "sampling": Sampling, "privacy": Privacy, "join": Join, "attack": Attack, "engine": Engine}
        for name, kind in records.items():
            if isinstance(given.get(name), dict):
                given[name] = record(kind, given[name], f"{name}.")
        try:
            super().__init__(**_own_method(given))
        except ValidationError as wrong:
            raise sentence(wrong, "") from wrong

    @field_validator("seeds", "metrics", "track", "devices", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        if isinstance(value, str):
            return [part.strip() for part in value.split(",") if part.strip()]
        if value is None:
            return []
        return value if isinstance(value, list | tuple) else [value]

    @field_validator("method")
    @classmethod
    def _written_down(cls, value: Choice) -> Choice:
        """Name what version 0.1.0 did otherwise: a record that does not is one of before."""
        then = former(value)
        today = {f.name: f.default for f in fields(find(value.name)) if f.name in then} if then else {}
        return value.model_copy(update={"options": today | value.options}) if then else value

    @field_validator("unseen", mode="before")
    @classmethod
    def _who(cls, value: Any) -> Any:
        return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value or 0

    @model_validator(mode="after")
    def _sensible(self) -> "Experiment":
        for name, least in (("rounds", 1), ("every", 1), ("clients", 1), ("workers", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"{name} must be at least {least}, got {value}")
        if not self.seeds:
            raise InputError("seeds must name at least one seed, such as seeds=0,1,2")
        if min(self.seeds) < 0 or max(self.seeds) >= 2**63 or len(set(self.seeds)) < len(self.seeds):
            raise InputError(f"seeds must be different whole numbers from 0, got {','.join(map(str, self.seeds))}")
        self._check_newcomers()
        if self.transport == "ray" and self.engine.name == "ray":
            raise InputError("engine=ray spreads the cells of a study and transport=ray the clients of a run; choose one of them")
        if self.transport != "ray":
            self.engine.needed()
        self._check_devices()
        if not 0 < self.test < 1:
            raise InputError(f"test must be above 0 and below 1, got {self.test:g}: without test samples nothing can be scored")
        named = {name_of(metric) for metric in self.metrics}
        select((metric for metric in self.metrics if not isinstance(metric, dict) and metric not in self.own.values()), None)
        if self.choose not in named - set(METRICS):  # one's own is known when it is found
            refuse(self.choose)
        if self.series == "after" and not self.after:
            raise InputError("series=after reports tests right after local training; it needs after=true")
        if self.suspend < 0:
            raise InputError(f"suspend is a number of refused uploads in a row, 0 for never, got {self.suspend}")
        if (self.checkpoint or 0) < 0 or self.memory <= 0:
            raise InputError("checkpoint (seconds) must not be negative and memory (GiB) must be positive")
        return self

    def _check_newcomers(self) -> None:
        most = 1 if isinstance(self.unseen, float) else 2**31
        if not isinstance(self.unseen, tuple) and not 0 <= self.unseen < most:
            raise InputError(f"unseen is a share below 1, a number of clients, or their names, got {self.unseen}; 0.2 is a fifth")
        if not self.unseen and self.join.every:
            raise InputError("join.every says how often unseen clients are tested; keep some out, such as unseen=0.2")

    def _check_devices(self) -> None:
        if not self.devices:
            return
        said = f"devices={','.join(self.devices)} gives transport=pooled a worker on each"
        if self.transport not in ("auto", "pooled"):
            raise InputError(f"{said}, and {self.transport} has none; leave out one of the two")
        if self.workers is not None or self.device != "cpu":
            other = "workers" if self.workers is not None else "device"
            raise InputError(f"{said}, and its server is on the CPU; leave out {other}")
        if self.engine.name == "ray":
            raise InputError(f"{said} on this machine; on a Ray cluster engine.gpus says what a cell gets")
        if len({name.partition(":")[0] for name in self.devices}) > 1:
            raise InputError(f"{said}; of two kinds they would round differently, and who trains where is left to chance")

    @property
    def own(self) -> dict[str, str]:
        """The parts that are code of the user's own, named by file or module."""
        found = {what: getattr(self, what).name for what in ("method", "model") if getattr(self, what).made is None}
        found |= {f"metrics-{place}": metric for place, metric in enumerate(self.metrics) if isinstance(metric, str)}
        return {what: name for what, name in found.items() if code.is_own(name)}

    @property
    def stem(self) -> str:
        """What a run's folder is called unless it is given a name: method, data and a hash."""
        return f"{self.method.stem}-{self.data.stem}-{self.digest()[:8]}"

    def but(self, **changed: Any) -> "Experiment":
        """Return this experiment with other values, which are taken as they are.

        Args:
            **changed: the settings that differ.

        Returns:
            Another experiment; this one stays.

        Example:
            >>> from perfed import Experiment
            >>> asked = Experiment(rounds=5)
            >>> asked.but(rounds=9).rounds, asked.rounds
            (9, 5)
        """
        return self.model_copy(update=changed)

    def plain(self) -> dict[str, Any]:
        """Return the settings as they are written to YAML.

        Returns:
            Names and plain values; an object is what is known of it.

        Example:
            >>> from perfed import Experiment
            >>> Experiment(method={"name": "fedper"}, seeds=(0, 1)).plain()["seeds"]
            [0, 1]
        """
        out: dict[str, Any] = {}
        for name in type(self).model_fields:
            value = getattr(self, name)
            if isinstance(value, Choice):
                value = value.plain()
            elif isinstance(value, Split):
                value = {"object": code.described(value)}
            elif is_dataclass(value) and not isinstance(value, type):
                value = asdict(value)
            elif isinstance(value, Path):
                value = str(value)
            elif isinstance(value, tuple):
                value = [each if isinstance(each, str | int | dict) else recorded(each) for each in value]
            out[name] = value
        return out

    def digest(self) -> str:
        """Return a hash of what decides the results; where and how it runs does not count.

        Returns:
            A SHA-256. Equal digests ask for equal results.

        Example:
            >>> from perfed import Experiment
            >>> Experiment(rounds=5).digest() == Experiment(rounds=5, out="elsewhere").digest()
            True
        """
        usual = type(self).model_fields
        decisive = {
            name: value
            for name, value in self.plain().items()
            if name not in (*_ELSEWHERE, "seeds") and not (name in SINCE and getattr(self, name) == usual[name].default)
        }
        spent = decisive["budget"].items()
        decisive["budget"] = {k: v for k, v in spent if k not in _BUDGET_SINCE or v != getattr(Budget(), k)}
        if then := former(self.method):  # asks for what it asked for when it was the default
            own = {k: v for k, v in self.method.options.items() if k not in then or v != then[k]}
            decisive["method"] = self.method.model_copy(update={"options": own}).plain()
        return hashlib.sha256(json.dumps(decisive, sort_keys=True, default=str).encode()).hexdigest()


def _own_method(given: dict[str, Any]) -> dict[str, Any]:
    """Lay budget and norm over a method that is given as an object, and take over those it has."""
    method = given.get("method")
    if isinstance(method, Choice):
        method = method.made
    if not isinstance(method, Method):
        return given
    budget = given.get("budget")
    if budget is None:
        budget = method.budget
    elif method.budget not in (Budget(), budget):
        raise InputError(f"{type(method).__name__} has a budget of its own; give it there or as budget=, not both")
    norm = given.get("norm") or method.norm
    return given | {"method": replace(method, budget=budget, norm=norm), "budget": budget}
