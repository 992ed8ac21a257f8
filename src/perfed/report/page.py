"""One self-contained HTML page about runs: no network to open it, small enough to send."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import disk
from ..disk import writing
from ..errors import RunError
from .canvas import png, svg
from .main_score import MainScore
from .names import title as named
from .read import Record, gather
from .read import options as asked
from .sections import Picture, Section, lead, sections
from .tables import Table, comparison, groups

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LIMIT = 2_400_000  # bytes of all figures; with its tables a page stays below three megabytes


def write(
    paths: Iterable[Path | str],
    out: Path | str,
    *,
    title: str | None = None,
    extra: Sequence[tuple[str, "str | Figure | Table"]] = (),
    **options: str,
) -> Path:
    """Write the page of runs or comparisons to ``out`` (a file, or a folder for ``report.html``) and return its path.

    ``extra`` adds sections: a title with HTML that the caller vouches for, a figure, or a table. ``options`` are those
    of ``perfed.evaluate.summary.summarise`` (``report``, ``best``, ``series``) where they are not to be the run's own.
    """
    return put(render(gather(paths), title=title, extra=extra, **options), out)


def put(text: str, out: Path | str, name: str = "report.html") -> Path:
    """Write a page to ``out`` (a file, or a folder for ``name``), whole or not at all, and return its path."""
    target = Path(out)
    if target.is_dir() or not target.suffix:
        target = target / name
    try:
        with writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
        disk.put(target, text.encode())
    except RunError as error:
        raise RunError(f"cannot write the report: {error}") from error
    return target


def render(
    runs: Sequence[Record],
    *,
    title: str | None = None,
    extra: Sequence[tuple[str, "str | Figure | Table"]] = (),
    **options: str,
) -> str:
    """Return the page as text."""
    options = {**asked(runs), **options}
    table = comparison(runs, **options)
    content = [*sections(runs, table, **options), *(_added(number, *entry) for number, entry in enumerate(extra))]
    # how to repeat it stays last
    content.sort(key=lambda section: section.anchor == "repeat")
    return compose(title or _title(runs), lead(table, MainScore.of(runs, options["series"])), content)


def compose(title: str, lead: str, content: Sequence[Section]) -> str:
    """Return a page of sections as text."""
    from jinja2 import Environment, FileSystemLoader
    from markupsafe import Markup

    here = Path(__file__).parent
    environment = Environment(loader=FileSystemLoader(here), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["groups"] = groups
    css = Markup((here / "page.css").read_text(encoding="utf-8"))
    return environment.get_template("page.html").render(title=title, lead=lead, css=css, sections=_embedded(content))


def _title(runs: Sequence[Record]) -> str:
    data = runs[0].settings.get("data")
    where = data.get("name") if isinstance(data, dict) else data
    what = named(runs[0].method) if len(runs) == 1 else f"{len(runs)} methods"
    return f"{what} on {where}" if where else what


def _added(number: int, heading: str, item: "str | Figure | Table") -> Section:
    from markupsafe import Markup

    if isinstance(item, str):
        part: tuple[str, Any] = ("html", Markup(item))
    elif isinstance(item, Table):
        part = ("results", item)
    else:
        part = ("figure", Picture(item, ""))
    return Section(f"extra-{number}", heading, [part])


def _embedded(content: Sequence[Section]) -> list[Section]:
    """Turn figures into SVG, and the largest of them into PNG until the page is small enough."""
    from markupsafe import Markup

    found = [item.picture for section in content for kind, item in section.parts if kind == "figure"]
    texts = {id(figure): svg(figure, f"f{number}") for number, figure in enumerate(found)}
    for figure in sorted(found, key=lambda figure: -len(texts[id(figure)])):
        if sum(map(len, texts.values())) <= LIMIT:
            break
        picture = f'<img alt="" src="{png(figure)}">'
        texts[id(figure)] = min(texts[id(figure)], picture, key=len)
    return [
        section._replace(
            parts=[
                (
                    kind,
                    {"picture": Markup(texts[id(item.picture)]), "caption": item.caption} if kind == "figure" else item,
                )
                for kind, item in section.parts
            ]
        )
        for section in content
    ]
