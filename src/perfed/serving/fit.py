"""What a model takes: rows of a table, texts, pictures or arrays become stored samples, or are refused in a sentence."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..data.cells import Words
from ..data.columns import Columns, Decided
from ..data.frames import refuse_gaps
from ..data.images import decode
from ..data.origin import Raw
from ..data.text import Vocabulary
from ..errors import DataError, extra

GREY = {"1", "L", "LA", "I", "I;16", "F"}  # PIL's words for pictures without colour


@dataclass(frozen=True)
class Fit:
    """What a model takes, from its card."""

    card: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """``image``, ``signal``, ``features`` or ``tokens``."""
        return str(self.card["input"].get("kind", ""))

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one stored sample."""
        return tuple(self.card["input"]["shape"][1:])

    @property
    def columns(self) -> list[str]:
        """The names of a table's columns, or of a text's; none where the data was no table."""
        if self.kind == "tokens":
            return [str(self.card.get("text", "text"))] if "vocabulary" in self.card else []
        return [str(column["name"]) for column in self.card.get("columns") or ()]

    def table(self, raw: Raw) -> tuple[Tensor, list[str]]:
        """Return rows of a table, coded as training rows were, and in words what was done about gaps and unknown levels.

        Every column must be one of the model's, and every one of these must be there.
        """
        where, wanted = raw.origin.files[0], self.columns
        if self.kind != "features" and not (self.kind == "tokens" and wanted):
            raise DataError(f"{where} is a table, but the model takes {self.card['input']['what']}")
        if not wanted:
            return self._unnamed(raw), []
        if missing := [name for name in wanted if name not in raw.columns]:
            raise DataError(f"{where} has no column '{missing[0]}'; the model takes {_listed(wanted)}")
        if other := [name for name in raw.names if name not in wanted]:
            raise DataError(
                f"{where} has a column '{other[0]}' that the model does not take; --keep {other[0]} carries it over, "
                f"--label {other[0]} compares with it"
            )
        if self.kind == "tokens":
            refuse_gaps(raw, wanted)
            return self.texts([str(word) for word in raw.columns[wanted[0]]]), []
        columns = Columns.of_json(self.card["columns"])
        return self._coded(raw, columns, bool(self.card.get("strict")))

    def _unnamed(self, raw: Raw) -> Tensor:
        if len(raw.names) != self.shape[0]:
            had = f"{raw.origin.files[0]} has {len(raw.names)} columns"
            raise DataError(f"{had}, but the model takes {self.shape[0]} numbers without names")
        return self._coded(raw, Columns(tuple(Decided(name=name, kind="number") for name in raw.names)), True)[0]

    def _coded(self, raw: Raw, columns: Columns, strict: bool) -> tuple[Tensor, list[str]]:
        told = self.card.get("words", {})
        missing = told.get("missing")
        how = Words(None if missing is None else tuple(str(word).casefold() for word in missing), told.get("decimal"))
        sheet, said = columns.sheet(raw, how), []
        for decided, column in zip(columns.columns, sheet.columns, strict=True):
            if column.gaps.any():
                place = int(np.flatnonzero(column.gaps)[0])
                if strict:
                    raise raw.origin.wrong(place, column.name, "there is no value, and training rows had one everywhere")
                said.append(f"rows without a value in '{column.name}', filled as training rows were: {int(column.gaps.sum())}")
            if unknown := sorted(set(column.levels) - set(decided.levels)):
                said.append(f"'{unknown[0]}' in '{column.name}' was no level of its own in training")
        return torch.from_numpy(columns.rows(sheet)), said

    def texts(self, texts: Sequence[str]) -> Tensor:
        """Return texts as the places of their words."""
        if "vocabulary" not in self.card:
            raise DataError(f"this is a text, but the model takes {self.card['input']['what']}")
        return Vocabulary(tuple(self.card["vocabulary"])).encode(texts, self.shape[0])

    def picture(self, source: Path | io.BytesIO, where: str) -> Tensor:
        """Return one picture; its colours and its size must be those of the training pictures, or made so as these were."""
        if self.kind != "image":
            raise DataError(f"{where} is a picture, but the model takes {self.card['input']['what']}")
        told = self.card.get("pictures", {})
        channels, *sides = self.shape
        image = extra("PIL.Image", "images")
        try:
            with image.open(source) as opened:
                grey = opened.mode in GREY
        except (OSError, ValueError, SyntaxError, image.DecompressionBombError) as broken:
            raise DataError(f"{where} is no readable picture") from broken
        if grey != (channels == 1) and not told.get("converted"):
            had, takes = ("grey", "colour") if grey else ("in colour", "grey")
            raise DataError(f"{where} is {had}, but the model takes {takes} pictures ({channels} channels)")
        if isinstance(source, io.BytesIO):
            source.seek(0)
        found = decode(source, where, told.get("size"), channels, skip=True)
        if found is None:
            raise DataError(f"{where} is no readable picture")
        if list(found.shape[1:]) != sides:
            had, takes = f"{found.shape[2]}×{found.shape[1]}", f"{sides[1]}×{sides[0]}"
            raise DataError(f"{where} has {had} pixels, but the model takes {takes}")
        return torch.from_numpy(found.copy())[None]  # PIL keeps the original for itself

    def array(self, x: Any, where: str) -> Tensor:
        """Return an array of stored samples, one along its first axis each."""
        try:
            array = np.asarray(x)
        except ValueError as ragged:
            raise DataError(f"{where} is no array: its rows have different lengths") from ragged
        takes = "×".join(map(str, self.shape))
        if array.ndim == len(self.shape) and self.kind == "image" and self.shape[0] == 1:
            array = array[:, None]  # grey pictures may come without the axis of their one channel
        if array.shape[1:] != self.shape:
            last = array.ndim == 4 and (array.shape[3], *array.shape[1:3]) == self.shape
            if not last:
                had = "×".join(map(str, array.shape[1:])) or "one number"
                raise DataError(f"{where} has samples of {had}, but the model takes {takes}")
            array = np.moveaxis(array, 3, 1)
        return self._typed(array, where)

    def _typed(self, array: Any, where: str) -> Tensor:
        wanted = np.dtype(self.card["input"]["type"])
        if array.dtype.kind not in "iufb":
            raise DataError(f"{where} holds {array.dtype}, but the model takes numbers")
        bad = ~np.isfinite(array).reshape(len(array), -1).all(1)
        if wanted.kind in "iu":
            if self.kind == "image" and array.dtype.kind == "f" and len(array) and array.max() <= 1:
                raise DataError(f"{where} holds values up to {array.max():g}, but the model takes pictures with values 0 to 255")
            known = self.card["input"].get("below") or len(self.card.get("vocabulary", ()))
            most = known - 1 if self.kind == "tokens" and known else int(np.iinfo(wanted).max)
            bad |= ((array < 0) | (array > most) | (array != np.floor(array))).reshape(len(array), -1).any(1)
        if bad.any():
            raise DataError(f"{where}: sample {int(np.flatnonzero(bad)[0])} has a value that the model cannot take")
        return torch.from_numpy(np.ascontiguousarray(array.astype(wanted)))


def _listed(names: Sequence[str], most: int = 8) -> str:
    return ", ".join(names if len(names) <= most else [*names[:most], f"… {len(names)} in all"])
