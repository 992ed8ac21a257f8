"""From an experiment to what trains: the only place that puts method, data, network and states together."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor, nn

from .. import keys, machine, methods, models
from ..attacks import poisoned
from ..data import Samples
from ..data import load as load_samples
from ..data.columns import fitted, laid
from ..data.inputs import inputs_for
from ..data.text import Vocabulary, tokenised
from ..errors import InputError, MethodError, PerfedError, RunError
from ..evaluate.metrics import Metric, chosen_by, defined, select, with_loss
from ..federation import Federation
from ..method import Method
from ..partition import Split
from ..partition import build as build_partition
from ..partition import split as make_split
from ..privacy import check as guard
from ..task import Task, each_of
from ..transport import Newcomers, Private, Site, Store, faster
from ..trees import Tree
from . import code
from .choice import Choice, record
from .experiment import Experiment
from .settle import settled
from .unseen import kept_out, parted

AnyMethod = Method[Any, Any, Any, Any]


@dataclass(frozen=True)
class Assembled:
    """One seed of an experiment, ready to train: the method on its clients' data, and the states it starts from."""

    experiment: Experiment
    seed: int
    site: Site
    server: Tree
    first: Private  # every client's private state at the start
    newcomers: Newcomers | None = None  # those who are kept out of training
    attackers: tuple[int, ...] = ()  # those who do what honest clients would not

    @property
    def method(self) -> AnyMethod:
        return self.site.method

    @property
    def federation(self) -> Federation:
        return self.site.federation

    @property
    def template(self) -> Private:
        """A private state with every leaf that may be in one."""
        return Private(self.first.mine, dict(self.site.withheld.start))

    def store(self) -> Store:
        """Return the clients' private states, none of which has begun."""
        return Store(self.first, len(self.federation), int(self.experiment.memory * 2**30))

    def faster(self) -> str:
        """Return a sentence where the transport that nobody named is not the fastest, else nothing."""
        return faster(self.site, self.store(), self.server) if self.experiment.transport == "auto" else ""


def assemble(
    experiment: Experiment,
    seed: int,
    federation: Federation | None = None,
    *,
    clients: int | None = None,
    words: Vocabulary | int | None = None,
) -> Assembled:
    """Return what trains one seed of an experiment; what cannot be trained is refused in a sentence.

    Args:
        experiment: what is asked for.
        seed: draws the network, the sampling and the order of visits.
        federation: the clients' data where it is at hand; otherwise it is loaded and shared out.
        clients: how many there are in all, where ``federation`` holds only some of them and the server has done the checks.
        words: the vocabulary, or its size, where the federation does not bring it.
    """
    if federation is None:
        samples = samples_of(experiment)
        federation = federation_of(experiment, samples, split_of(experiment, samples, seed), seed)
    federation, unseen = (federation, None) if clients is not None else parted(experiment, federation, seed)
    attackers = attackers_of(experiment, federation, seed)
    federation = poisoned(federation, experiment.attack, attackers)
    method = method_of(experiment)
    task = task_of(experiment, federation, seed, federation.words if words is None else words)
    if task.goal != "classification" and experiment.budget.balance != "none":
        raise InputError(f"budget.balance is for classes, and this data is for {task.goal}; leave it at none")
    if task.goal != "classification" and method.names_classes:
        raise MethodError(f"{method.title} is for classification, not for {task.goal}: {method.names_classes}")
    if clients is None:
        method.check(task, federation.sizes, experiment.sampling.fewest(len(federation)))
    measured = metrics_of(experiment, task)
    if clients is None and any(map(len, federation.test)):  # at a server there are none
        chooser = next(metric for metric in measured if metric.name == chosen_by(experiment.choose, task.goal))
        defined(chooser, (federation.y[rows] for rows in federation.test), federation.classes)
    site, server, first = Site.of(method, task, federation, measured, clients)
    guard(experiment.privacy, method, task, server, frozenset(site.withheld.start))
    site = replace(site, privacy=experiment.privacy)
    newcomers = None if unseen is None else Newcomers.of(site, unseen, experiment.join.epochs)
    if newcomers is not None:
        method.admit(server)  # refuse before anything is trained
    return Assembled(experiment, seed, site, server, first, newcomers, tuple(attackers))


def attackers_of(experiment: Experiment, federation: Federation, seed: int) -> list[int]:
    """Return the numbers of those who attack, drawn from the split's seed: for all methods of a comparison the same."""
    return experiment.attack.who(federation.names, seed if experiment.split_seed is None else experiment.split_seed)


def method_of(experiment: Experiment) -> AnyMethod:
    """Return the method of an experiment, its fields checked; a schedule's length is the experiment's."""
    choice = experiment.method
    if choice.made is not None:
        if isinstance(choice.made, Method):
            return choice.made
        raise InputError(f"a method is a name or an instance of a Method, such as FedPer(), got {choice.made!r}")
    kind = kind_of(choice)
    options = kind.renamed(choice.options)
    for taken in ("budget", "norm"):
        if taken in options:
            raise InputError(
                f"method.{taken} is set as {taken}{'.…' if taken == 'budget' else ''}: it is the same for all methods"
            )
    if stretched(experiment):
        options["rounds"] = experiment.rounds
    if experiment.norm is not None:
        options["norm"] = experiment.norm
    made: AnyMethod = record(kind, options, "method.")
    return replace(made, budget=experiment.budget)


def kind_of(choice: Choice) -> type[AnyMethod]:
    """Return the class of a method: a built-in one, or one of the user's own."""
    if choice.made is not None:
        return type(choice.made)
    there("method", choice)
    if not code.is_own(choice.name):
        return methods.find(choice.name)
    found = code.find(choice.name, "method")
    if not (isinstance(found, type) and issubclass(found, Method)):
        raise InputError(f"method={choice.name}: {choice.name.rpartition(':')[2]} is no perfed.Method")
    return found


def metrics_of(experiment: Experiment, task: Task) -> tuple[Metric, ...]:
    """Return what clients are scored by, the user's own among them."""
    found = asked_for(experiment)
    if task.goal != "classification":  # what is measured unless something else is asked for
        found = [metric for metric in found if metric != "accuracy"]
    by = chosen_by(experiment.choose, task.goal)
    chosen = [] if by in {metric.name for metric in select(found, task.goal)} else [by]
    return with_loss(select([*found, *chosen], task.goal), task.goal, each_of(task.goal, task.objective))


def asked_for(experiment: Experiment) -> list[Any]:
    """Return the metrics that an experiment names, the user's own as what they are."""
    found: list[Any] = []
    for metric in experiment.metrics:
        if isinstance(metric, dict):
            again = "name it as file.py:name where a run is to be resumed"
            raise RunError(f"the metric '{metric['name']}' was a function in memory and cannot be found again; {again}")
        found.append(code.find(metric, "metrics") if isinstance(metric, str) and code.is_own(metric) else metric)
    return found


def stretched(experiment: Experiment) -> bool:
    """Return whether the method takes the length of its schedule from the experiment."""
    choice = experiment.method
    if choice.made is not None:
        return False
    return "rounds" in {f.name for f in fields(kind_of(choice))} and "rounds" not in choice.options


def samples_of(experiment: Experiment) -> Samples:
    """Return the data set of an experiment."""
    choice = experiment.data
    there("data", choice)
    if isinstance(choice.made, Federation):
        return _source(choice.made)[0]
    if isinstance(choice.made, Samples):
        return choice.made
    if choice.made is not None:
        given = type(choice.made).__name__
        frame = ", such as Samples.of(frame, 'diagnosis', group='hospital')" if given == "DataFrame" else ""
        raise InputError(f"data is a name, perfed.Samples.of(…) or perfed.federate(…), got {given}{frame}")
    return load_samples(choice.name, **choice.options)


def split_of(experiment: Experiment, samples: Samples, seed: int) -> Split:
    """Return who owns what: the given split, or a fresh one."""
    if isinstance(experiment.data.made, Federation):
        return _source(experiment.data.made)[1]
    if isinstance(experiment.split, Split):
        return experiment.split
    if isinstance(experiment.split, dict):  # what a record knows of an object; a run's folder has the split itself
        raise RunError("the split was an object in memory, and a record knows only its digest; give it again")
    if experiment.split is not None:
        return Split.load(experiment.split, samples.digest())
    experiment = settled(experiment, samples)
    partition = build_partition(experiment.partition.name, **experiment.partition.options)
    clients = experiment.clients if experiment.clients is not None or partition.by_group else 20
    owner = seed if experiment.split_seed is None else experiment.split_seed
    return make_split(samples, partition, clients, owner, experiment.validation, experiment.test)


def federation_of(experiment: Experiment, samples: Samples, split: Split, seed: int) -> Federation:
    """Return the clients' data ready for training, with the vocabulary of their training texts where there are any."""
    machine.device(experiment.device)
    for name in experiment.devices:
        machine.device(name, "devices")
    given = experiment.data.made
    if isinstance(given, Federation):
        if experiment.unseen and given.vocabulary is not None:
            raise InputError("unseen clients' words are in the vocabulary of this federation; name the data instead: data=…")
        return replace(given, seed=seed).to(experiment.device)
    vocabulary, columns, told, own = None, None, samples, split
    out = kept_out(experiment, split.names, seed)  # who decides no column, and whose words no vocabulary knows
    if samples.sheet is not None:
        columns = fitted(samples.sheet, split.train, out)
        told, own = laid(samples, split, columns)
    if samples.texts is not None:
        rows = sorted({int(row) for place, trained in enumerate(split.train) if place not in out for row in trained})
        told, vocabulary = tokenised(samples, rows, **experiment.text)
    inputs = inputs_for(told, augment=experiment.augment, **experiment.inputs)
    made = Federation.of(told, own, inputs, seed=seed, augment=experiment.augment)
    return replace(made, source=(samples, split), vocabulary=vocabulary, columns=columns).to(experiment.device)


def _source(federation: Federation) -> tuple[Samples, Split]:
    """Return what a federation was made of; one that was put together by hand is its own source."""
    if federation.source is not None:
        return federation.source
    from ..data.samples import KINDS

    kind = getattr(federation.inputs, "kind", None)
    if kind not in KINDS:
        raise InputError(
            "a federation that was put together by hand cannot be recorded; make it with perfed.federate(Samples.of(…))"
        )
    names = tuple(map(str, range(federation.classes)))
    samples = Samples(federation.x.cpu(), federation.y.cpu(), names, kind=kind, task=federation.goal)
    parts = [tuple(rows.cpu().numpy() for rows in own) for own in (federation.train, federation.validation, federation.test)]
    return samples, Split(parts[0], parts[1], parts[2], federation.names, {"partition": "by hand"}, samples.digest())


def task_of(experiment: Experiment, federation: Federation, seed: int, vocabulary: Vocabulary | int | None = None) -> Task:
    """Return the network that all clients start from, drawn from the seed."""
    example = federation.inputs(federation.x[:2], None)
    shape = tuple(example.shape[1:])
    choice, kind = experiment.model, getattr(federation.inputs, "kind", None)
    if choice.open and kind:
        choice = Choice(name=models.usual(kind, shape))
    elif choice.made is None and kind:
        models.fits(choice.name, kind)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(keys.seed_of(keys.key(seed, "network")))
            net = _network(choice, shape, federation.classes, vocabulary, example, federation.goal)
        made = Task.of(
            net, shape, federation.classes, seed=seed, device=experiment.device, example=example, precision=experiment.precision
        )
        each_of(federation.goal, experiment.loss)  # refuses a loss for something else
        return replace(made, goal=federation.goal, objective=experiment.loss, named=_named(choice, vocabulary))
    except PerfedError:
        raise
    except Exception as wrong:
        size = "×".join(map(str, shape))
        why = f"{type(wrong).__name__}: {wrong}"
        raise InputError(f"model {choice.name} cannot take this data's inputs ({size}): {why}") from wrong


def _named(choice: Choice, vocabulary: Vocabulary | int | None) -> dict[str, Any]:
    """Return by what a network is made again from its numbers; a file of weights to start from is no part of it."""
    if choice.made is not None:
        return {}
    options = {name: value for name, value in choice.options.items() if name != "weights"}
    return {
        "name": choice.name,
        "options": options,
        "words": len(vocabulary) if isinstance(vocabulary, Vocabulary) else vocabulary,
    }


def _network(
    choice: Choice, shape: tuple[int, ...], classes: int, vocabulary: Vocabulary | int | None, example: Tensor, goal: str
) -> nn.Module:
    """Return a network by name, an object, or what a user's function makes, with a body and a head."""
    there("model", choice)
    made = choice.made
    if made is None and not code.is_own(choice.name):
        if goal == "classification" and classes < 2:
            raise InputError(f"a classifier needs at least 2 classes, got {classes}")
        options = choice.options | ({"paired": False} if choice.name == "logistic" and goal != "classification" else {})
        return models.build(choice.name, shape=shape, classes=classes, vocabulary=vocabulary, **options)
    if made is None:
        made = code.find(choice.name, "model")
    later: dict[str, Any] = {}
    if isinstance(made, Callable) and not isinstance(made, nn.Module):  # type: ignore[arg-type]
        offered = {"shape": shape, "classes": classes, "vocabulary": vocabulary}
        later = {name: value for name, value in choice.options.items() if name in models.OPTIONS and not code.takes(made, name)}
        made = code.called_with(made, "model", offered, {k: v for k, v in choice.options.items() if k not in later})
    if not isinstance(made, nn.Module):
        raise InputError(f"a model is a name, an nn.Module or a function that makes one, got {type(made).__name__}")
    own = made if isinstance(getattr(made, "body", None), nn.Module) else models.wrap(made, example=example.to(_place(made)))
    return models.prepared(own, choice.name, **later) if later else own


def _place(module: nn.Module) -> torch.device:
    return next((leaf.device for leaf in module.parameters()), torch.device("cpu"))


def there(what: str, choice: Choice) -> None:
    """Refuse an object that a record only describes."""
    if choice.known is not None and choice.made is None:
        again = f"give it again: perfed.resume(folder, {what}=…)"
        raise RunError(f"the {what} '{choice.name}' was an object and cannot be found by its name; {again}")


@dataclass(frozen=True)
class SharedData:
    """What all methods of a comparison have in common: the samples, and who owns them under every seed."""

    samples: Samples
    splits: dict[int, Split]

    @staticmethod
    def of(experiment: Experiment, samples: Samples | None = None) -> "SharedData":
        """Load the data of an experiment, unless it is at hand, and share it out."""
        samples = samples_of(experiment) if samples is None else samples
        return SharedData(samples, {seed: split_of(experiment, samples, seed) for seed in experiment.seeds})

    def assemble(self, experiment: Experiment, seed: int) -> Assembled:
        """Return what trains one seed of an experiment on this data."""
        return assemble(experiment, seed, federation_of(experiment, self.samples, self.splits[seed], seed))
