"""What is worth searching of a method, and in which range: a class says so beside its fields."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import InputError

DIGITS = 3  # of a drawn number: enough to tell settings apart, few enough to type


@dataclass(frozen=True)
class Between:
    """Numbers from ``low`` to ``high``, drawn evenly, or evenly over their logarithms."""

    low: float
    high: float
    log: bool = True
    whole: bool = False

    def __post_init__(self) -> None:
        if not self.low < self.high or (self.log and not self.low > 0):
            raise InputError(
                f"a range goes from a smaller to a larger number, above 0 on a log scale, got {self.low}..{self.high}"
            )

    def at(self, place: float) -> float | int:
        """Return the number at a place from 0 to 1 of the range."""
        if self.log:
            found = math.exp(math.log(self.low) + place * (math.log(self.high) - math.log(self.low)))
        else:
            found = self.low + place * (self.high - self.low)
        return round(found) if self.whole else float(f"{found:.{DIGITS}g}")

    def plain(self) -> dict[str, Any]:
        """Return the range as JSON holds it."""
        return dict(self.__dict__)

    def __str__(self) -> str:
        return f"{self.low:g}..{self.high:g}"


@dataclass(frozen=True)
class Among:
    """One of some values."""

    values: tuple[Any, ...]

    def at(self, place: float) -> Any:
        """Return the value at a place from 0 to 1 of the list."""
        return self.values[min(int(place * len(self.values)), len(self.values) - 1)]

    def plain(self) -> dict[str, Any]:
        """Return the values as JSON holds them."""
        return {"values": list(self.values)}

    def __str__(self) -> str:
        return "|".join(map(str, self.values))


Space = Between | Among


def log(low: float, high: float) -> Between:
    """Return the numbers from ``low`` to ``high`` of which every factor is worth as much."""
    return Between(low, high)


def linear(low: float, high: float) -> Between:
    """Return the numbers from ``low`` to ``high`` of which every step is worth as much."""
    return Between(low, high, log=False)


def whole(low: int, high: int) -> Between:
    """Return the whole numbers from ``low`` to ``high`` of which every factor is worth as much."""
    return Between(low, high, whole=True)


def among(*values: Any) -> Among:
    """Return some values, each as likely."""
    return Among(values)


def of(found: Mapping[str, Any]) -> Space:
    """Return what `plain` made plain."""
    return Among(tuple(found["values"])) if "values" in found else Between(**found)


def written(name: str, value: Any) -> Space | None:
    """Return the range that a person wrote, ``0.01..0.5``, ``1|5|10`` or a pair of numbers; ``None`` where it is none."""
    if isinstance(value, Between | Among):
        return value
    if isinstance(value, list | tuple):
        value = "..".join(map(str, value)) if len(value) == 2 else "|".join(map(str, value))
    text = str(value)
    if ".." in text:
        ends = [part.strip() for part in text.split("..")]
        try:
            low, high = (float(end) for end in ends)
        except ValueError:
            raise InputError(f"{name}={text} is no range; write {name}=0.01..0.5") from None
        exact = all(re.fullmatch(r"[+-]?\d+", end) for end in ends) and not name.endswith("lr")
        return Between(low, high, log=low > 0, whole=exact)
    if "|" in text:
        from json import loads

        parts = [part.strip() for part in text.split("|")]
        return Among(
            tuple(loads(part) if re.fullmatch(r"true|false|-?\d+(\.\d+)?([eE]-?\d+)?", part) else part for part in parts)
        )
    return None
