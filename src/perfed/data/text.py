"""From texts to numbers: a tokenizer, and a vocabulary built from training texts alone."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from ..disk import put
from ..errors import DataError, InputError
from .samples import Samples

PADDING, UNKNOWN = 0, 1
SPECIAL = ("<padding>", "<unknown>")

_DROPPED = re.compile(r'<br\s*/?>|["]')  # line breaks of web pages and double quotes carry no meaning
_SPACED = re.compile(r"([.,!?()'])")
_BLANK = re.compile(r"[;:]")


def tokens(text: str) -> list[str]:
    """Return the words of an English text in lower case, punctuation marks as words of their own."""
    plain = _BLANK.sub(" ", _DROPPED.sub(" ", text.lower()))
    return _SPACED.sub(r" \1 ", plain).split()


@dataclass(frozen=True)
class Vocabulary:
    """The words that have numbers of their own; 0 is padding, 1 any other word."""

    words: tuple[str, ...]

    def __post_init__(self) -> None:
        """Require the two special entries and no word twice."""
        object.__setattr__(self, "words", tuple(self.words))
        if self.words[:2] != SPECIAL:
            raise InputError(f"a vocabulary starts with {SPECIAL[0]} and {SPECIAL[1]}, this one with {self.words[:2]}")
        if len(set(self.words)) != len(self.words):
            twice = next(word for word, count in Counter(self.words).items() if count > 1)
            raise InputError(f"a vocabulary has every word once, this one has '{twice}' twice")

    @classmethod
    def of(cls, texts: Iterable[str], *, least: int = 1, size: int | None = None) -> Vocabulary:
        """Count the words of training texts; keep those seen ``least`` times, at most ``size`` entries in all."""
        if least < 1:
            raise InputError(f"least must be at least 1, got {least}; it is how often a word must occur")
        if size is not None and size < 3:
            raise InputError(f"size must be at least 3 (padding, unknown and a word), got {size}")
        counts = Counter(word for text in texts for word in tokens(text))
        # Ties in alphabetical order, so that the order of the texts does not matter.
        ranked = sorted((word for word, count in counts.items() if count >= least), key=lambda w: (-counts[w], w))
        kept = [word for word in ranked if word not in SPECIAL]
        if not kept:
            raise DataError(f"no word occurs {least} times in the training texts, so there is no vocabulary")
        return cls((*SPECIAL, *kept[: None if size is None else size - 2]))

    def __len__(self) -> int:
        """Return the number of entries, padding and unknown included."""
        return len(self.words)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Return the number of every word."""
        return {word: number for number, word in enumerate(self.words) if number > UNKNOWN}

    def encode(self, texts: Sequence[str], length: int = 200) -> Tensor:
        """Return int32 texts × ``length``: longer texts are cut, shorter ones padded at the end."""
        if length < 1:
            raise InputError(f"length must be at least 1 token, got {length}")
        rows = torch.full((len(texts), length), PADDING, dtype=torch.int32)
        numbers = self.numbers
        for row, text in enumerate(texts):
            found = [numbers.get(word, UNKNOWN) for word in tokens(text)[:length]]
            rows[row, : len(found)] = torch.tensor(found, dtype=torch.int32)
        return rows

    def save(self, path: str | Path) -> None:
        """Write the words as JSON; a reader sees the old file or the whole new one."""
        place = Path(path)
        put(place, json.dumps({"perfed": "vocabulary", "words": self.words}, ensure_ascii=False).encode())

    @classmethod
    def load(cls, path: str | Path) -> Vocabulary:
        """Read a saved vocabulary."""
        place = Path(path)
        try:
            found = json.loads(place.read_text("utf-8"))
        except FileNotFoundError as missing:
            raise DataError(f"no vocabulary at {place}; a run on texts saves one") from missing
        except (OSError, ValueError) as problem:
            raise DataError(f"{place} is damaged or not a vocabulary: {problem}") from problem
        words = found.get("words") if isinstance(found, dict) else None
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise DataError(f'{place} is not a vocabulary; expected JSON with a list of "words"')
        try:
            return cls(tuple(words))
        except InputError as problem:
            raise DataError(f"{place} is not a vocabulary: {problem}") from problem


def tokenised(
    samples: Samples, rows: Iterable[int], *, length: int = 200, least: int = 1, size: int | None = None
) -> tuple[Samples, Vocabulary]:
    """Return samples with numbers for words, and the vocabulary, built from the training texts at ``rows`` alone."""
    if samples.texts is None:
        raise InputError(f"{samples.name} holds no texts; data of kind {samples.kind} needs no vocabulary")
    vocabulary = Vocabulary.of((samples.texts[row] for row in rows), least=least, size=size)
    return replace(samples, x=vocabulary.encode(samples.texts, length)), vocabulary
