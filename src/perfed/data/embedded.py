"""The data sets that need no download: handwritten digits, and five domains rendered from them."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

from .archives import bright, only
from .entry import Array, Entry, ReaderOptions, chosen
from .images import resize
from .samples import Samples


def handwritten() -> tuple[Array, Array]:
    """Return the 1,797 optical digits of scikit-learn as bytes 8×8, and their labels."""
    file = _shipped()
    if file is None:
        from sklearn.datasets import load_digits

        images, labels = load_digits(return_X_y=True)
    else:
        table = np.loadtxt(file, delimiter=",")
        images, labels = table[:, :-1], table[:, -1]
    return bright(images.reshape(-1, 8, 8)).numpy()[:, 0], labels.astype(np.int64)


def _shipped() -> Path | None:
    """Return scikit-learn's file of digits, found without importing scikit-learn, which takes over a second."""
    spec = find_spec("sklearn")
    folders = spec.submodule_search_locations if spec else None
    files = [Path(folder) / "datasets" / "data" / "digits.csv.gz" for folder in folders or ()]
    return next((file for file in files if file.is_file()), None)


def digits(entry: Entry, paths: tuple[Path, ...], options: ReaderOptions) -> Samples:
    """Return the digits as 1×8×8 images."""
    x, y = handwritten()
    small = torch.from_numpy(x).unsqueeze(1)
    return Samples(resize(small, options.size), torch.from_numpy(y), entry.labels, name=entry.name)


def digits_domains(entry: Entry, paths: tuple[Path, ...], options: ReaderOptions) -> Samples:
    """Return a federation with feature shift: every digit is rendered in one domain only, at 1×16×16.

    Within a class the digits go to the domains in turn: labels are balanced, and no domain sees another's digits.
    Whole numbers only: floating-point rounding would give other machines other bytes.
    """
    x, y = handwritten()
    names = tuple(RENDER)
    turn = np.zeros(len(y), dtype=np.int64)
    for label in range(10):
        members = np.flatnonzero(y == label)
        turn[members] = (np.arange(len(members)) + label) % len(names)
    large = double(x.astype(np.int64))
    rendered = np.empty(large.shape, dtype=np.uint8)
    for position, name in enumerate(names):
        rendered[turn == position] = RENDER[name](large[turn == position]).clip(0, 255)
    whole = Samples(
        resize(torch.from_numpy(rendered).unsqueeze(1), options.size),
        torch.from_numpy(y),
        entry.labels,
        torch.from_numpy(turn),
        names,
        name=entry.name,
    )
    return only(whole, chosen(entry, options))


def double(x: Array) -> Array:
    """Return images at twice the size, each new pixel ¾ and ¼ of its neighbours along either axis."""
    for axis in (1, 2):
        ends = [(0, 0), (0, 0), (0, 0)]
        ends[axis] = (1, 1)
        wide = np.moveaxis(np.pad(x, ends, mode="edge"), axis, 0)
        left, right = 3 * wide[1:-1] + wide[:-2], 3 * wide[1:-1] + wide[2:]
        both = np.stack([left, right], axis=1).reshape(-1, *wide.shape[1:])
        x = np.moveaxis((both + 2) // 4, 0, axis)
    return x


def plain(x: Array) -> Array:
    """White on black, as scanned."""
    return x


def inverted(x: Array) -> Array:
    """Black on white."""
    return 255 - x


def textured(x: Array) -> Array:
    """The digit inverts a patchy, grainy background, as in MNIST-M."""
    random = np.random.RandomState(1)  # its numbers are the same in every version of NumPy
    patches = double(double(random.randint(0, 131, (len(x), 4, 4))))
    grain = random.randint(-16, 17, x.shape)
    return abs((patches + grain).clip(0, 255) - x)


def tilted(x: Array) -> Array:
    """Bold and turned by 22.6°, whose cosine and sine are 12/13 and 5/13."""
    wide = np.pad(x, ((0, 0), (0, 1), (0, 1)))
    side = x.shape[1]
    bold = np.max([wide[:, r : r + side, c : c + side] for r in range(2) for c in range(2)], axis=0)
    row, column = np.meshgrid(np.arange(side) * 2 - side + 1, np.arange(side) * 2 - side + 1, indexing="ij")
    # Positions in 26ths of a pixel, counted from the centre, then from the first pixel.
    source_row = 12 * row + 5 * column + 13 * (side - 1)
    source_column = 12 * column - 5 * row + 13 * (side - 1)
    top, left, down, across = source_row // 26, source_column // 26, source_row % 26, source_column % 26
    framed = np.pad(bold, ((0, 0), (8, 8), (8, 8)))

    def shifted(rows: int, columns: int) -> Array:
        values: Array = framed[:, top + 8 + rows, left + 8 + columns]
        return values

    upper = (26 - across) * shifted(0, 0) + across * shifted(0, 1)
    lower = (26 - across) * shifted(1, 0) + across * shifted(1, 1)
    turned: Array = ((26 - down) * upper + down * lower + 338) // 676
    return turned


def faint(x: Array) -> Array:
    """Out of focus and low in contrast."""
    side = x.shape[1]
    for axis in (1, 2):
        wide = np.moveaxis(np.pad(x, ((0, 0), (2, 2), (2, 2)), mode="edge"), axis, 1)
        soft = sum(weight * wide[:, at : at + side] for at, weight in enumerate((1, 4, 6, 4, 1)))
        x = np.moveaxis(np.asarray(soft)[:, :, 2:-2] // 16, 1, axis)
    return 96 + x * 5 // 16


RENDER: dict[str, Callable[[Array], Array]] = {
    "faint": faint,
    "inverted": inverted,
    "plain": plain,
    "textured": textured,
    "tilted": tilted,
}
