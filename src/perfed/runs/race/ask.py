"""What a person asks of a race: a YAML file and words, or keyword arguments, as methods, ranges and a budget."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from ...disk import get_yaml
from ...errors import InputError, suggest
from ...method.search import Space, written
from ...methods import CATALOGUE
from .. import compare, parse
from ..assemble import kind_of
from ..experiment import Experiment
from .plan import ALWAYS, FRESH, LR, MOST, SAMPLERS

OPTIONS = ("steps", "minutes", "candidates", "seed", "sampler", "own_choice", "search")
EVERYONE = "all"
ALL = "*"  # what holds for every method


@dataclass(frozen=True)
class Wanted:
    """A race as it is asked for, before anybody has looked at the data."""

    experiments: tuple[Experiment, ...]
    fixed: Mapping[str, Sequence[str]] = field(default_factory=dict)  # fields that are not searched, by method
    search: Mapping[str, Mapping[str, Space]] = field(default_factory=dict)  # ranges of one's own, by method
    options: Mapping[str, Any] = field(default_factory=dict)  # steps, minutes, candidates, seed, sampler, own_choice
    rounds: int | None = None  # of a full run, where they were given
    seeds: tuple[int, ...] | None = None
    everyone: bool = False  # methods=all: those that cannot run here are left out
    alone: bool = False  # one method is tuned

    def __post_init__(self) -> None:
        """Refuse what cannot be right."""
        given = self.options
        for name in ("steps", "minutes", "candidates"):
            if (value := given.get(name)) is not None and not (isinstance(value, int | float) and value > 0):
                raise InputError(f"{name} must be a positive number, got {value!r}")
        if given.get("steps") is not None and given.get("minutes") is not None:
            raise InputError("steps and minutes both say what the race may cost; give one of them")
        if (paid := next((n for n in ("steps", "minutes") if given.get(n)), None)) and self.rounds and given.get("candidates"):
            raise InputError(f"{paid}, rounds and candidates cannot all be given: the third follows from two")
        if (many := given.get("candidates")) is not None and not (float(many).is_integer() and many <= MOST):
            raise InputError(f"candidates must be a whole number up to {MOST}, got {many}")
        if given.get("sampler", SAMPLERS[0]) not in SAMPLERS:
            raise suggest("sampler", str(given["sampler"]), SAMPLERS)
        if not isinstance(self.seed, int) or self.seed < 0:
            raise InputError(f"seed must be a whole number from 0, got {self.seed!r}")
        if self.seed in self.tested:
            raise InputError(f"seed {self.seed} is raced on, so it is not fresh; test on other seeds, such as seeds=1,2,3")
        for one in self.experiments:
            kind_of(one.method)

    @property
    def seed(self) -> int:
        """The seed that the race is run on."""
        found = self.options.get("seed")
        return 0 if found is None else found

    @property
    def tested(self) -> tuple[int, ...]:
        """The fresh seeds."""
        return self.seeds or tuple(n for n in (*FRESH, 0) if n != self.seed)[: len(FRESH)]

    def elsewhere(self, out: Path) -> "Wanted":
        """Return the same race in another folder."""
        return replace(self, experiments=tuple(one.but(out=out) for one in self.experiments))


def load(path: Path | str | None, overrides: Sequence[str] = (), *, alone: bool = False) -> Wanted:
    """Return the race that a YAML file and words ask for; ``alone``: the tuning of one method, named by ``method=``."""
    raw = get_yaml(Path(path)) if path is not None else {}
    options = {name: raw.pop(name) for name in OPTIONS if name in raw}
    ranges, rest = dict(options.pop("search", None) or {}), list[str]()
    for text in overrides:
        key, mark, value = text.partition("=")
        if mark and key in OPTIONS and key != "search":
            options[key] = parse.value_of(value)
        elif mark and _ranged(key, value):
            ranges[key] = value
        else:
            rest.append(text)
    given = {key.partition("=")[0] for key in rest} | set(raw)
    fixed = {ALL: [LR]} if LR in given or "lr" in (raw.get("budget") or {}) else {}
    for key in sorted(given):
        head, _, name = key.partition(".")
        if head in CATALOGUE and name:
            fixed.setdefault(head, []).append(name)
    if alone:
        asked: list[Experiment] = [parse.build(_read(raw, rest))]
        everyone = False
    else:
        everyone = _everyone(raw, rest)
        asked = list(compare.read(raw, rest).experiments)
    asked = _with_bases(asked, alone=alone, common=bool(options.get("own_choice")))
    seeds = asked[0].seeds if "seeds" in given else None
    rounds = asked[0].rounds if "rounds" in given else None
    return Wanted(tuple(asked), fixed, ranges_of(ranges, asked), options, rounds, seeds, everyone, alone)


def _ranged(key: str, value: str) -> bool:
    """Return whether a word gives a range: of the step size, or of a method's field."""
    head, dot, _ = key.partition(".")
    return bool(dot) and (key == LR or head == "method" or head in CATALOGUE) and written(key, value) is not None


def _read(raw: dict[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """Return the plain settings of one method's tuning."""
    from ... import advice

    meant = advice.said(raw, words)
    if "method" not in meant:
        raise InputError("name the method to tune, such as method=fedcp; `perfed race` tunes several against each other")
    for text in words:
        parse.apply(raw, text, meant)
    advice.check_data(raw)
    parse.effective(raw)
    return raw


def _everyone(raw: dict[str, Any], words: list[str]) -> bool:
    """Put every method in the place of ``methods=all``, or of nothing; return whether that was asked for."""
    named = [place for place, text in enumerate(words) if text.startswith("methods=")]
    listed = words[named[-1]].partition("=")[2] if named else raw.get("methods", EVERYONE)
    if listed not in (EVERYONE, [EVERYONE]):
        return False
    for place in reversed(named):
        del words[place]
    raw["methods"] = list(CATALOGUE)
    return True


def listed(entries: Iterable[Any], base: Experiment, given: Mapping[str, Any], options: Mapping[str, Any]) -> Wanted:
    """Return the race of methods by name, with options or as objects; ``given`` are the keywords that were given."""
    named = list(entries)
    everyone = named == [EVERYONE]
    asked = list(compare.listed(CATALOGUE if everyone else named, base).experiments)
    asked = _with_bases(asked, common=bool(options.get("own_choice")))
    return _python(asked, given, options, everyone=everyone)


def single(base: Experiment, given: Mapping[str, Any], options: Mapping[str, Any]) -> Wanted:
    """Return the tuning of one method."""
    return _python([base], given, options, alone=True)


def _python(asked: list[Experiment], given: Mapping[str, Any], options: Mapping[str, Any], **kind: bool) -> Wanted:
    budget = given.get("budget")
    lr = budget is not None and (not isinstance(budget, Mapping) or "lr" in budget)
    ranges = ranges_of(dict(options.get("search") or {}), asked)
    rest = {name: value for name, value in options.items() if name != "search" and value is not None}
    rounds = asked[0].rounds if "rounds" in given else None
    seeds = asked[0].seeds if "seeds" in given else None
    return Wanted(tuple(asked), {ALL: [LR]} if lr else {}, ranges, rest, rounds, seeds, **kind)


def _with_bases(asked: list[Experiment], *, common: bool, alone: bool = False) -> list[Experiment]:
    """Add what every race has in it: Local and FedAvg with fine-tuning, and FedAvg where clients choose for themselves."""
    if alone:
        return asked
    names, base = {one.method.name for one in asked}, asked[0]
    wanted = [*ALWAYS, *(["fedavg"] if common else [])]
    return [*asked, *(base.but(method=_plain(name), norm=None) for name in wanted if name not in names)]


def _plain(name: str) -> Any:
    from ..choice import Choice

    return Choice(name=name)


def ranges_of(given: Mapping[str, Any], asked: Sequence[Experiment]) -> dict[str, dict[str, Space]]:
    """Return ranges of one's own by method: ``budget.lr`` holds for all, ``fedcp.align`` for one."""
    found: dict[str, dict[str, Space]] = {}
    kinds = {one.method.stem: kind_of(one.method) for one in asked}
    for key, value in given.items():
        space = written(key, value)
        if space is None:
            raise InputError(f"{key}={value} is no range; write {key}=0.01..0.5 or {key}=1|5|10")
        if key == LR:
            found.setdefault(ALL, {})[LR] = space
            continue
        head, _, name = key.partition(".")
        if head == "method" and len(kinds) == 1:
            head = next(iter(kinds))
        if head not in kinds:
            raise InputError(
                f"'{key}' has no place here: ranges are for budget.lr and a racing method's fields, such as fedcp.align"
            )
        known = {f.name for f in fields(kinds[head])} - {"budget", "norm"}
        if name != LR and name not in known:
            raise suggest(f"field of {head}", name, [*known, LR])
        found.setdefault(head, {})[name] = space
    return found
