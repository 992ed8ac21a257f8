"""What a race is: who runs, what is searched of each, over which rungs, and what that costs in client-steps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...errors import InputError
from ...local.budget import Budget
from ...method import search
from ...method.search import Space
from ...methods import title
from .. import parse
from ..assemble import AnyMethod, method_of, stretched
from ..choice import Choice
from ..experiment import Experiment
from .meter import Meter

CANDIDATES, FRESH = 20, (1, 2, 3)  # settings of every method, and the seeds on which the best of each is tested
DIVIDE = 3  # one of so many candidates reaches the next rung, which is so many times as long
LAST = 2  # candidates of a method that are run to the end: early scores are too noisy to leave one alone
MOST = 3**5  # candidates of a method
ALWAYS = ("local", "fedavgft")  # what collaborating has to beat, with the same budget
LR = "budget.lr"
STEP = {"sgd": search.log(0.002, 0.5), "adam": search.log(0.0001, 0.02)}  # the range of step sizes, for all methods
SAMPLERS = ("quasi", "tpe")


@dataclass(frozen=True)
class Racer:
    """A method as it runs: what was fixed of it stands in its experiment, the rest of what is worth it is searched."""

    name: str
    experiment: Experiment
    search: Mapping[str, Space]

    @property
    def title(self) -> str:
        """How tables write it: two racers of one method are told apart by their folders' names."""
        known = self.experiment.method.name
        written = title(known) if self.experiment.method.made is None and ":" not in known else known.rpartition(":")[2]
        return written if self.name in (known, self.experiment.method.stem) else f"{written} [{self.name}]"

    def setting(self, values: Mapping[str, Any], rounds: int) -> Experiment:
        """Return the experiment of one candidate; a schedule's length is that of a full run, however soon it falls out."""
        asked = self.experiment
        own = {name: value for name, value in values.items() if name != LR}
        budget = replace(asked.budget, lr=values[LR]) if LR in values else asked.budget
        choice = asked.method
        if choice.made is not None:
            return asked.but(method=Choice(name=choice.name, made=replace(choice.made, budget=budget, **own)), budget=budget)
        if stretched(asked):
            own["rounds"] = rounds
        return asked.but(method=choice.model_copy(update={"options": choice.options | own}), budget=budget)

    def plain(self) -> dict[str, Any]:
        """Return the racer as JSON holds it."""
        spaces = {name: space.plain() for name, space in self.search.items()}
        return {"name": self.name, "settings": self.experiment.plain(), "search": spaces}

    @staticmethod
    def of(found: Mapping[str, Any]) -> "Racer":
        """Return what `plain` made plain."""
        spaces = {name: search.of(space) for name, space in found["search"].items()}
        return Racer(found["name"], parse.recorded(found["settings"]), spaces)


@dataclass(frozen=True)
class RacePlan:
    """Everything that decides a race."""

    racers: tuple[Racer, ...]
    rounds: int  # of a full run that goes over the data once a round; others have so many that they take as many steps
    candidates: int = CANDIDATES
    seed: int = 0  # the race is run on it; clients and draws follow from it
    seeds: tuple[int, ...] = FRESH  # on which the best setting of every method is tested
    sampler: str = "quasi"
    own_choice: bool = False  # whether every client chooses between local, common and personal
    plainly: bool = False  # whether the methods' own settings are tested beside the tuned ones: what tuning brings
    left_out: Mapping[str, str] = field(default_factory=dict)  # methods that cannot run here, and why
    pilot: Mapping[str, float] = field(default_factory=dict)  # seconds of a client-step, measured once
    minutes: float | None = None  # what was asked for, where steps follow from it

    @property
    def sizes(self) -> list[int]:
        """How many candidates of a method are in each rung."""
        found = [self.candidates]
        while found[-1] > LAST:
            found.append(max(LAST, found[-1] // DIVIDE))
        return found

    @property
    def shares(self) -> list[float]:
        """The part of a full run that a candidate has had at the end of each rung."""
        last = len(self.sizes) - 1
        return [DIVIDE ** -(last - rung) for rung in range(last + 1)]

    @property
    def runs(self) -> float:
        """How many full runs the race of one method costs."""
        before = [0.0, *self.shares]
        return sum(size * (before[rung + 1] - before[rung]) for rung, size in enumerate(self.sizes))

    @property
    def tested(self) -> int:
        """How many full runs test one method at the end."""
        return len(self.seeds) * (2 if self.plainly else 1)

    def plain(self) -> dict[str, Any]:
        """Return the plan as JSON holds it."""
        return self.__dict__ | {"racers": [racer.plain() for racer in self.racers], "seeds": list(self.seeds)}

    @staticmethod
    def of(found: Mapping[str, Any]) -> "RacePlan":
        """Return what `plain` made plain."""
        racers = tuple(Racer.of(own) for own in found["racers"])
        return RacePlan(**{**found, "racers": racers, "seeds": tuple(found["seeds"])})

    def first(self, racer: Racer) -> AnyMethod:
        """Return a racer's method with the settings that it comes with."""
        return method_of(racer.setting({}, self.rounds))


@dataclass(frozen=True)
class Purse:
    """What a race may spend, in client-steps."""

    plan: RacePlan
    meters: Mapping[str, Meter]

    @property
    def full(self) -> int:
        """Client-steps of a full run, the same for every method."""
        racer = self.plan.racers[0]
        return self.meters[racer.name].visits(self.plan.rounds) * racer.experiment.budget.epochs

    @property
    def share(self) -> float:
        """Client-steps of one method's race."""
        return self.full * self.plan.runs

    @property
    def total(self) -> float:
        """Client-steps of the race and of the tests on fresh seeds."""
        return len(self.plan.racers) * self.full * (self.plan.runs + self.plan.tested)

    def length(self, racer: Racer, method: AnyMethod, share: float = 1.0) -> int:
        """Return the rounds in which a candidate spends its share of a full run."""
        return self.meters[racer.name].rounds(method, share * self.full, served=share == 1)

    def check(self) -> None:
        """Refuse a race whose first rung is shorter than one round."""
        each = self.plan.runs + self.plan.tested
        if self.full >= (needed := self.needed):
            return
        rounds = next(
            r for r in range(self.plan.rounds, 10**9) if replace(self, plan=replace(self.plan, rounds=r)).full >= needed
        )
        steps = round(len(self.plan.racers) * replace(self, plan=replace(self.plan, rounds=rounds)).full * each + 0.5)
        raise InputError(
            f"{self.plan.rounds} rounds are too few for one rung of {self.plan.candidates} candidates; "
            f"give rounds={rounds} (steps={steps} in all), or fewer candidates"
        )

    @property
    def needed(self) -> float:
        """Client-steps that a full run needs so that every method has a round in every rung."""
        return max(self._least(own) for own in self.plan.racers)

    def _least(self, racer: Racer) -> float:
        """Return the client-steps that a full run of a method needs to have a round in the first rung, and one after it."""
        method, meter = self.plan.first(racer), self.meters[racer.name]
        round_ = meter.spent(method, 0, 1)
        return max(round_ / self.plan.shares[0], len(self.plan.shares) * round_ + meter.tuning(method))


def within(plan: RacePlan, meters: Mapping[str, Meter], steps: float, rounds: int | None, candidates: int | None) -> RacePlan:
    """Return the plan that a number of client-steps pays for: as long as it can be, or of as many candidates as there can be."""
    each = steps / len(plan.racers)
    if rounds is not None:
        wide = (Purse(replace(plan, candidates=n), meters) for n in range(1, MOST + 1))
        fits = [own.plan.candidates for own in wide if own.total <= steps and own.full >= own.needed]
        if not fits:
            least = Purse(replace(plan, candidates=1), meters).total
            short = f"{steps:,.0f} client-steps are too few for rounds={rounds}"
            raise InputError(f"{short}: one candidate of each method takes {least:,.0f}")
        return replace(plan, candidates=max(fits))
    plan = replace(plan, candidates=candidates or plan.candidates)
    racer, full = plan.racers[0], each / (plan.runs + plan.tested)
    return replace(plan, rounds=meters[racer.name].within(full / racer.experiment.budget.epochs))


def searched(kind: type[AnyMethod], fixed: Sequence[str], budget: Budget, asked: Mapping[str, Space]) -> dict[str, Space]:
    """Return what is searched of a method: the step size and its own ranges, without what was fixed, with what was asked."""
    found: dict[str, Space] = {LR: STEP[budget.optimizer], **kind.search}
    return {name: space for name, space in found.items() if name not in fixed} | dict(asked)
