"""Figures of the data: who holds which labels, and what the samples look like."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InputError
from .canvas import WIDTH, sheet, styled
from .names import shorten

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLIENTS, CLASSES = 50, 30  # more than this and bubbles become a map of shades
INK = "#2f5d8a"


def bubbles(
    counts: ArrayLike, names: Sequence[str] | None = None, classes: Sequence[str] | None = None, *, width: float = WIDTH
) -> "Figure":
    """Draw clients × classes: the area of a bubble is the number of samples (FedCP, Figure 7)."""
    table = np.asarray(counts, float)
    if table.ndim != 2:
        raise InputError(f"label counts are a table of clients × classes, got {table.ndim} dimensions")
    clients, kinds = table.shape
    names = list(names) if names else [str(number) for number in range(clients)]
    classes = list(classes) if classes else [str(number) for number in range(kinds)]
    with styled():
        if clients > CLIENTS or kinds > CLASSES:
            page, axis = _shades(table, width)
        else:
            page, axis = sheet(width, 1.0 + 0.23 * kinds + 0.045 * _slanted(names) * max(map(len, names)))
            _bubbles(axis, table, min((width - 1.2) / clients, 0.23))
        _ticks(axis, names, classes)
    return page


def examples(
    images: Sequence[ArrayLike], names: Sequence[str], *, columns: int = 12, width: float = WIDTH, title: str = ""
) -> "Figure":
    """Draw a sheet with one row of example images per client or domain.

    ``images`` has one array per row: k×H×W, k×1×H×W or k×3×H×W, ``uint8`` or floats; floats are stretched from the
    smallest to the largest value of the whole sheet.
    """
    rows = [_pixels(row)[:columns] for row in images]
    if not rows or len(rows) != len(names):
        raise InputError(f"a sheet of examples needs one name per row, got {len(rows)} rows and {len(names)} names")
    rows = _stretched(rows)
    side = max(max(row.shape[1:3]) for row in rows)
    tall = side + 2
    paper = np.ones((len(rows) * tall, columns * tall, 3))
    for top, row in enumerate(rows):
        for left, image in enumerate(row):
            high, wide = image.shape[:2]
            paper[top * tall + 1 : top * tall + 1 + high, left * tall + 1 : left * tall + 1 + wide] = image
    with styled():
        page, axis = sheet(width, (width - 1.0) * len(rows) / columns + (0.35 if title else 0.1))
        axis.imshow(paper, interpolation="nearest")
        axis.set_yticks((np.arange(len(rows)) + 0.5) * tall, names)
        axis.set_xticks([])
        axis.tick_params(length=0)
        axis.grid(visible=False)
        axis.spines[:].set_visible(False)
        axis.set_title(title)
    return page


def _bubbles(axis: Any, table: NDArray[np.float64], cell: float) -> None:
    clients, kinds = np.nonzero(table)
    largest = table.max() or 1.0
    # matplotlib measures area in points²; the largest bubble nearly fills its cell
    area = (cell * 72 * 0.95) ** 2 * table[clients, kinds] / largest
    axis.scatter(clients, kinds, s=area, color=INK, alpha=0.8, lw=0)
    axis.set_xlim(-0.7, table.shape[0] - 0.3)
    axis.grid(visible=True, axis="both")
    axis.set_title(f"largest bubble: {int(largest)} samples", loc="right", fontsize=8, fontweight="normal")


def _shades(table: NDArray[np.float64], width: float) -> tuple["Figure", Any]:
    from matplotlib.colors import PowerNorm

    page, axis = sheet(width, min(6.0, 1.2 + max(1.6, 0.08 * table.shape[1])))
    norm = PowerNorm(0.5, vmin=0, vmax=float(table.max()) or 1.0)  # small shares stay visible, as areas keep them
    image = axis.imshow(table.T, aspect="auto", cmap="Blues", norm=norm, interpolation="nearest")
    axis.grid(visible=False)
    page.colorbar(image, ax=axis, label="samples", fraction=0.03, pad=0.01)
    return page, axis


def _ticks(axis: Any, names: Sequence[str], classes: Sequence[str]) -> None:
    clients, kinds = len(names), len(classes)
    kind, short = shorten(names)
    if clients > CLIENTS:
        axis.set_xlabel("client")
    elif kind:
        axis.set_xticks(range(clients), short)
        axis.set_xlabel(kind)
    else:
        slanted = _slanted(names)
        axis.set_xticks(range(clients), names, rotation=40 if slanted else 0, ha="right" if slanted else "center")
    if kinds <= CLASSES:
        axis.set_yticks(range(kinds), [name if len(name) < 22 else f"{name[:20]}…" for name in classes])
        axis.set_ylim(kinds - 0.3, -0.7)
    axis.set_ylabel("class" if max(map(len, classes)) < 12 else "")


def _slanted(names: Sequence[str]) -> bool:
    """Whether names are too long to stand side by side."""
    return not shorten(names)[0] and sum(map(len, names)) > 90


def _pixels(row: ArrayLike) -> NDArray[Any]:
    """Return k×H×W×3 from the layouts that data sets use."""
    images = np.asarray(row)
    if images.ndim == 3:
        images = images[:, None]
    if images.ndim != 4 or images.shape[1] not in (1, 3):
        raise InputError(f"images are k×H×W, k×1×H×W or k×3×H×W, got an array of shape {images.shape}")
    return np.repeat(images, 4 - images.shape[1], axis=1)[:, :3].transpose(0, 2, 3, 1)


def _stretched(rows: list[NDArray[Any]]) -> list[NDArray[np.float64]]:
    if all(row.dtype == np.uint8 for row in rows):
        return [row / 255.0 for row in rows]
    known = [row for row in rows if row.size]
    low = min(float(row.min()) for row in known)
    high = max(float(row.max()) for row in known)
    return [(row.astype(float) - low) / ((high - low) or 1.0) for row in rows]
