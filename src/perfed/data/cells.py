"""What the words of a column are: numbers however they are written, yes and no, categories; dates and units are refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import DataError
from .origin import Array, Origin

GAPS = ("", "na", "n/a", "nan", "null", "#n/a", "?", "-", "--", ".")  # a cell without a value, in any column
NUMBER_GAPS = (*GAPS, "none", "missing", "unknown")  # words that are no level where all others are numbers
YES, NO = ("yes", "y", "true"), ("no", "n", "false")
_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_ENGLISH = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")
_EUROPEAN = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+|\d+)(,\d+)?")
_GROUPED = re.compile(r"(?<=\d)[ '’\u00a0\u202f](?=\d{3}(?!\d))")
_MONTH = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_DATE = re.compile(
    r"\d{4}-\d{1,2}(-\d{1,2}([ t].*)?)?|\d{4}/\d{1,2}/\d{1,2}( .*)?|\d{1,2}(?P<mark>[./-])\d{1,2}(?P=mark)(\d{2}|\d{4})( .*)?"
    rf"|\d{{1,2}}[ .-]+{_MONTH}[ ,.-]+\d{{2,4}}|{_MONTH} \d{{1,2}},? \d{{4}}|\d{{1,2}}:\d{{2}}(:\d{{2}})?( ?[ap]m)?"
)
_UNIT = re.compile(r"([<>≤≥~$€£]*) ?([+-]?[\d.,]+) ?([%$€£]|[a-zµ°][a-zµ°0-9/²³]{0,7})?")
MANY = 20  # different words up to which a column is never taken for identifiers


@dataclass(frozen=True)
class Words:
    """How words are read: what is a gap, what is the decimal mark."""

    missing: tuple[str, ...] | None = None  # instead of the usual words
    decimal: str | None = None  # "." or ","; None where the column must show it

    def gap(self, word: str, number: bool = False) -> bool:
        """Return whether a word stands for no value."""
        if self.missing is not None:
            return not word or word.casefold() in self.missing
        return word.casefold() in (NUMBER_GAPS if number else GAPS)

    def gaps(self, values: Array) -> Array:
        """Return which numbers stand for no value, such as -999."""
        marks = [float(word) for word in self.missing or () if _PLAIN.fullmatch(word)]
        return np.isnan(values) | np.isin(values, marks)


def plain(word: str) -> str:
    """Return a number's word without marks between thousands, and with an ASCII minus."""
    return _GROUPED.sub("", word.replace("−", "-"))


def styles(words: Sequence[str], decimal: str | None) -> dict[str, bool]:
    """Return in which ways of writing numbers all of these words are numbers."""
    return {
        "plain": decimal != "," and all(_PLAIN.fullmatch(w) for w in words),
        "english": decimal != "," and all(_PLAIN.fullmatch(w) or _ENGLISH.fullmatch(w) for w in words),
        "european": decimal != "." and all(_EUROPEAN.fullmatch(w) for w in words),
    }


_VALUE: dict[str, Callable[[str], float]] = {
    "plain": float,
    "english": lambda word: float(word.replace(",", "")),
    "european": lambda word: float(word.replace(".", "").replace(",", ".")),
}


def numbers(name: str, words: Sequence[str], how: Words, origin: Origin) -> Array | None:
    """Return the column as numbers with nan for gaps; None where most words are none, an error where only some are."""
    there = [i for i, word in enumerate(words) if not how.gap(word, number=True)]
    found = [plain(words[i]) for i in there]
    fits = styles(found, how.decimal)
    style = "plain" if fits["plain"] else next((s for s in ("english", "european") if fits[s]), None)
    if style == "english" and fits["european"]:
        place = next(i for i, word in zip(there, found, strict=True) if "," in word)
        said = f"'{words[place]}' may be a decimal or a thousand: say which with decimal=, or decimal=."
        raise origin.wrong(place, name, said)
    if style is None:
        _refuse_mixed(name, words, there, how, origin)
        return None
    values = np.full(len(words), np.nan)
    values[there] = [_VALUE[style](word) for word in found]
    values[how.gaps(values)] = np.nan
    large = np.flatnonzero(np.abs(values) > np.finfo(np.float32).max).tolist()
    if large:
        raise origin.wrong(large[0], name, f"'{words[large[0]]}' is too large a number")
    return values


def _refuse_mixed(name: str, words: Sequence[str], there: Sequence[int], how: Words, origin: Origin) -> None:
    """Refuse a column of numbers in which some words are none."""
    odd = [i for i in there if not any(styles([plain(words[i])], how.decimal).values())]
    if not odd:  # each is a number in a way of its own
        raise origin.wrong(there[0], name, "numbers are written in different ways, some with a decimal comma; write them alike")
    if 2 * len(odd) < len(there):
        advice = f"correct it, name it with missing={words[odd[0]]}, or take words as they are with categories={name}"
        raise origin.wrong(odd[0], name, f"'{words[odd[0]]}' is no number, but {len(there) - len(odd)} others are; {advice}")


def truths(words: Sequence[str], how: Words) -> Array | None:
    """Return a column of yes and no as 1 and 0 with nan for gaps, or None if it says something else."""
    known = dict.fromkeys(YES, 1.0) | dict.fromkeys(NO, 0.0)
    folded = [word.casefold() for word in words]
    said = {word for word in folded if not how.gap(word)}
    if said == {"t", "f"}:
        known |= {"t": 1.0, "f": 0.0}
    if not said or not said <= known.keys():
        return None
    return np.array([np.nan if how.gap(word) else known[word] for word in folded])


def level(word: Any) -> str:
    """Return a level's name: capitals do not count, and numbers are written one way, so that 1, 1.0 and 01 are one level."""
    if isinstance(word, bool | np.bool_):
        return str(word).casefold()
    if isinstance(word, str) and not _PLAIN.fullmatch(word):
        return word.casefold()
    number = float(word)
    return str(int(number)) if number.is_integer() else str(number)


def refuse_words(name: str, words: Sequence[str], there: Sequence[int], origin: Origin) -> None:
    """Refuse dates, numbers with a unit, and identifiers, which are words but no categories."""
    folded = [words[i].casefold() for i in there]
    dates = [i for i, word in zip(there, folded, strict=True) if _DATE.fullmatch(word)]
    if 2 * len(dates) > len(there):
        advice = f"turn dates into numbers, such as days since admission, or leave the column out with drop={name}"
        raise origin.wrong(dates[0], name, f"'{words[dates[0]]}' is a date or a time; {advice}")
    found = [(i, m) for i, word in zip(there, folded, strict=True) if (m := _UNIT.fullmatch(word)) and (m[1] or m[3])]
    if found and 5 * len(found) >= 4 * len(there) and len({m[3] for _, m in found}) == 1:
        raise origin.wrong(
            found[0][0],
            name,
            f"'{words[found[0][0]]}' is a number with a sign or a unit; write the number alone, or say categories={name}",
        )
    different = len({level(word) for word in folded})
    if different > max(MANY, len(there) / 2):
        raise DataError(
            f"{origin.column(name)} has {different} different words in {len(there)} rows, so they are names or texts; "
            f"leave it out with drop={name}, or say text={name} or categories={name}"
        )
