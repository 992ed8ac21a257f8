"""A model card in Markdown: what a model is, how it scored and on what, what nobody tried, and how it is used."""

from collections.abc import Iterator, Mapping
from typing import Any

GIVES = {  # by task
    "classification": "one of {count} classes: {listed}",
    "multilabel": "yes or no to each of {count} labels: {listed}",
    "regression": "a number",
    "survival": "the log of a risk: the higher, the earlier",
}
_SURE = "Whether its probabilities are as often right as they say."
UNTESTED = {
    "classification": ("inputs that are none of its classes, which it calls one of them anyway", _SURE),
    "multilabel": ("labels that it was not trained on", _SURE),
    "regression": ("labels beyond the range of its training samples", "How far off a single answer may be."),
    "survival": ("times beyond the longest of its training samples", "When an event comes: it orders samples and names no time."),
}
PARTS = {"train": "training", "validation": "validation", "test": "test"}


def card_page(card: Mapping[str, Any], name: str, sha256: str) -> str:
    """Return the card of the model in the file ``name``."""
    blocks = [
        f"# {name}",
        f"{card['method']}'s model of {card['client']}, {_after(card)}{_where(card)}. Written by perfed {card['perfed']}.",
        "\n".join(_facts(card, sha256)),
        "## How it scores",
        *_scores(card),
        "## How it was chosen",
        _chosen(card),
        "## What it was not tested on",
        "\n".join(f"- {line}" for line in _untested(card)),
        "## How it is used",
        _use(card, name),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _after(card: Mapping[str, Any]) -> str:
    rounds = card.get("rounds")
    return f"after round {card['round']}" + (f" of {rounds}" if rounds else "")


def _where(card: Mapping[str, Any]) -> str:
    seed = f", seed {card['seed']}" if "seed" in card else ""
    return f", from the run `{card['run']}`{seed}" if "run" in card else ""


def _facts(card: Mapping[str, Any], sha256: str) -> Iterator[str]:
    data, takes = card["data"], card["input"]
    yield "| | |\n|---|---|"
    sizes = ", ".join(f"{data[part]:,} for {said}" for part, said in PARTS.items() if part in data)
    if sizes:
        of = f" of {data['clients']} clients" if data.get("clients", 1) > 1 else ""
        yield f"| samples of {_cell(card['client'])}{of} | {sizes} |"
    if "name" in data:
        yield f"| data | {_cell(data['name'])} |"
    yield f"| takes | {takes['what']}; {'×'.join(map(str, takes['shape'][1:]))}, {takes['type']} |"
    if columns := card.get("columns"):
        yield f"| columns | {', '.join(_cell(column['name']) for column in columns)} |"
    if (classes := card["classes"]) or card.get("task", "classification") != "classification":
        listed = f"{_cell(', '.join(classes[:20]))}{' …' if len(classes) > 20 else ''}"
        yield f"| gives | {GIVES[card.get('task', 'classification')].format(count=len(classes), listed=listed)} |"
    yield f"| parameters | {card['parameters']['count']:,}; SHA-256 `{card['parameters']['sha256']}` |"
    yield f"| file | SHA-256 `{sha256}` |"
    if command := card.get("command"):
        yield f"| trained by | `{command if isinstance(command, str) else ' '.join(command)}` |"


def _scores(card: Mapping[str, Any]) -> Iterator[str]:
    found, record = card.get("scores"), card.get("record", {})
    lines = [f"- {part}: {_listed(record[part])}" for part in ("test", "validation") if record.get(part)]
    recorded = "As the run recorded this client in that round:\n\n" + "\n".join(lines)
    if not found:
        yield recorded if lines else "It was not scored when this file was written."
        return
    where, share = card.get("samples", "samples that were given"), f"**{found['accuracy']:.3f}**"
    sure = f"{_between(found['interval'])} with 95 % certainty; Wilson's interval, of these samples alone"
    yield f"On {where}: {found['right']} of {found['count']} right, an accuracy of {share} ({sure})."
    rows = [
        f"| {_cell(one['class'])} | {one['count']} | {one['accuracy']:.3f} | {_between(one['interval'])} |"
        for one in found["classes"]
    ]
    yield "\n".join(["| class | samples | right | 95 % interval |", "|---|---:|---:|---|", *rows])
    if lines:
        yield recorded


def _chosen(card: Mapping[str, Any]) -> str:
    record = card.get("record", {})
    best, own = record.get("best"), record.get("validation")
    said = str(card.get("chosen", "No score chose the round."))
    if best is None or not own or own.get(best["metric"]) is None:
        return f"{said} There are no validation scores beside it."
    metric = best["metric"]
    if best["round"] == card["round"]:
        return f"{said} On this client's validation samples it is also the best one, with {metric} {best['value']:.3f}."
    return (
        f"{said} On this client's validation samples, round {best['round']} was the best one with {metric} {best['value']:.3f}; "
        f"this one has {own[metric]:.3f}."
    )


def _untested(card: Mapping[str, Any]) -> Iterator[str]:
    found, others = card.get("scores"), card["data"].get("clients", 1) - 1
    if found:
        yield f"Anything but the {found['count']} samples above, which come from where its training samples come from."
        if found["unseen"]:
            yield f"Classes without a single sample among them: {', '.join(found['unseen'])}."
        few = [one["class"] for one in found["classes"] if one["count"] < 10]
        if few:
            yield f"Classes with fewer than ten: {', '.join(few)}; their figures say little."
    yield f"Data of the other {others} clients: it is {card['client']}'s own model." if others > 0 else "Data of any other site."
    other, sure = UNTESTED[card.get("task", "classification")]
    yield f"Samples of another time, device or population; {other}."
    yield sure


def _use(card: Mapping[str, Any], name: str) -> str:
    given = {"image": "pictures/", "features": "rows.csv" if card.get("columns") else "samples.npz", "tokens": "texts.csv"}
    what = given.get(card["input"]["kind"], "samples.npz")
    return f"```sh\nperfed predict {name} {what}\nperfed serve {name}\n```"


def _listed(scores: Mapping[str, Any]) -> str:
    count = scores.get("count")
    figures = [f"{metric} {value:.3f}" for metric, value in scores.items() if metric != "count" and value is not None]
    return ", ".join(figures) + ("" if count is None else f" on {count} samples")


def _between(interval: list[float]) -> str:
    return f"{interval[0]:.3f} to {interval[1]:.3f}"


def _cell(text: str) -> str:
    return str(text).replace("|", "\\|").replace("\n", " ")
