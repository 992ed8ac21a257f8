"""The one route of a served model: what a question looks like, and its answer."""

import base64
import binascii
import io
import json
import threading
from typing import Any

import torch
from torch import Tensor

from ..data.frames import raw_of
from ..data.origin import Origin
from ..errors import DataError, InputError
from .predict import Predictor
from .tell import SAID

ROWS = 1000  # most inputs of one question
BODY = 16 << 20  # most bytes of one question


class Answering:
    """Answers questions to one model, one at a time: a network's tensors are plugged in for each call."""

    def __init__(self, model: Predictor, rows: int = ROWS, body: int = BODY) -> None:
        if rows < 1 or body < 1:
            raise InputError(f"a question has at least one row and one byte, got limits of {rows} and {body}")
        self.model, self.rows, self.body = model, rows, body
        self._turn = threading.Lock()

    def schema(self) -> dict[str, Any]:
        """Return what the model is, what a question to it looks like, as JSON Schema, and the limits."""
        card = self.model.card
        shown = {name: card[name] for name in (*SAID, "task", "data", "scores") if name in card}
        return {
            "model": shown | {"input": {**card["input"], "columns": card.get("columns")}},
            "route": "POST /predict",
            "body": {
                "type": "object",
                "required": ["inputs"],
                "additionalProperties": False,
                "properties": {"inputs": {"type": "array", "minItems": 1, "maxItems": self.rows, "items": self._item()}},
            },
            "limits": {"rows": self.rows, "bytes": self.body},
        }

    def _item(self) -> dict[str, Any]:
        fit = self.model.fit
        if fit.kind == "image":
            return {"type": "string", "contentEncoding": "base64", "description": "a picture's file: png, jpg, …"}
        if fit.kind == "tokens":
            return {"type": "string", "description": "a text"}
        if fit.columns:
            strict = bool(self.model.card.get("strict"))
            fields = {column["name"]: _field(column, strict) for column in self.model.card["columns"]}
            return {"type": "object", "required": list(fields), "additionalProperties": False, "properties": fields}
        return {"type": "array", "description": f"numbers, {'×'.join(map(str, fit.shape))}: {self.model.card['input']['what']}"}

    def answer(self, question: bytes) -> dict[str, Any]:
        """Return the predictions for a question's inputs; what does not fit is refused in a sentence."""
        try:
            asked = json.loads(question)
        except (ValueError, RecursionError) as wrong:
            raise DataError(f"the question is no JSON ({wrong})") from wrong
        if not isinstance(asked, dict) or set(asked) != {"inputs"} or not isinstance(asked["inputs"], list):
            raise DataError('a question is {"inputs": [...]}; GET /schema says what an input is')
        inputs = asked["inputs"]
        if not 1 <= len(inputs) <= self.rows:
            raise DataError(f"a question has 1 to {self.rows} inputs, this one {len(inputs)}")
        x = self._samples(inputs)
        with self._turn:
            answers = self.model.answers(self.model.scores(x))
        return {"predictions": answers}

    def _samples(self, inputs: list[Any]) -> Tensor:
        fit = self.model.fit
        if fit.kind == "image":
            return torch.cat([fit.picture(_picture(one, f"input {i}"), f"input {i}") for i, one in enumerate(inputs)])
        if fit.kind == "tokens":
            for i, one in enumerate(inputs):
                if not isinstance(one, str):
                    raise DataError(f"input {i} is no text")
            return fit.texts(inputs)
        if not fit.columns:
            return fit.array(inputs, "inputs")
        for i, one in enumerate(inputs):
            if not isinstance(one, dict):
                raise DataError(f"input {i} is no object with the columns {', '.join(fit.columns[:8])}")
            for name in (*fit.columns, *one):
                if name not in one or name not in fit.columns:
                    said = f"has no '{name}'" if name not in one else f"has '{name}', which the model does not take"
                    raise DataError(f"input {i} {said}")
        return fit.table(raw_of(inputs, Origin(("the question",))))[0]


def _field(column: dict[str, Any], strict: bool) -> dict[str, Any]:
    """Return what one column takes; a gap is filled as in training, unless training rows had none."""
    known = {"number": ["number"], "yes/no": ["boolean"], "category": ["string", "number"]}[column["kind"]]
    found: dict[str, Any] = {"type": known if strict else [*known, "null"]}
    return found | ({"examples": list(column["levels"])} if column.get("levels") else {})


def _picture(told: Any, where: str) -> io.BytesIO:
    try:
        return io.BytesIO(base64.b64decode(told, validate=True))
    except (binascii.Error, TypeError, ValueError) as wrong:
        raise DataError(f"{where} is no picture in base64") from wrong
