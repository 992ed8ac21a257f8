"""The sheet every figure is drawn on: one style, no global state, files that repeat bit for bit."""

import base64
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError, extra
from .style import RULES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("pdf", "png", "svg")
WIDTH = 7.0  # inches, the text width of a paper


@contextmanager
def styled() -> Iterator[None]:
    """Draw and save inside this context."""
    matplotlib = extra("matplotlib", "report")
    with matplotlib.rc_context(dict(RULES)):
        yield


def sheet(width: float, height: float, **grid: Any) -> tuple["Figure", Any]:
    """Return a figure of ``width`` × ``height`` inches and its axes; ``grid`` as for ``Figure.subplots``."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(**grid)


def save(figure: "Figure", path: Path | str) -> Path:
    """Write a figure as PNG, SVG or PDF, by the file's ending; the same figure gives the same bytes."""
    path = Path(path)
    kind = path.suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise InputError(f"cannot write a figure as '{path.name}'; its name must end in .{', .'.join(FORMATS)}")
    path.write_bytes(_bytes(figure, kind))
    return path


def svg(figure: "Figure", prefix: str = "") -> str:
    """Return a figure as an SVG element for a page; ``prefix`` keeps its names apart from those of other figures."""
    text = _bytes(figure, "svg").decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    # paths come with six decimals; a hundredth of a point is finer than any screen or printer
    text = re.sub(r' d="[^"]*"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path.group()), text)
    if prefix:
        text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}-", text)
    return text


def png(figure: "Figure", resolution: int = 150) -> str:
    """Return a figure as the address of an embedded PNG picture."""
    return "data:image/png;base64," + base64.b64encode(_bytes(figure, "png", resolution)).decode()


def _bytes(figure: "Figure", kind: str, resolution: int = 200) -> bytes:
    # dates would make every file different
    undated = {"pdf": {"CreationDate": None}, "png": {"Software": None}, "svg": {"Date": None}}[kind]
    out = io.BytesIO()
    with styled():
        figure.savefig(out, format=kind, dpi=resolution, metadata=undated)
    return out.getvalue()
