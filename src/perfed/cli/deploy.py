"""deploy: real silos on Flower."""

from pathlib import Path
from typing import Annotated, Any

import typer

from .output import clear, emit, note, progress, table, words

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)

Part = Annotated[Path, typer.Argument(help="The part's folder.")]
Ordinary = Annotated[bool, typer.Option("--supernode", help="Silos on the engine's ordinary SuperNode: slower.")]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable result on standard output.")]


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="A new folder.")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE.yaml] [key=value]...", help="The experiment: a YAML file, then overrides."),
    ] = None,
    silos: Annotated[int, typer.Option(help="How many silos.")] = 3,
    host: Annotated[str, typer.Option(help="The name under which silos reach the server.")] = "127.0.0.1",
    listen: Annotated[str, typer.Option(help="The server machine's own address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The link's port; silos on this machine take the ones after it.")] = 8443,
    seeded: Annotated[
        bool, typer.Option("--seeded-private", help="Private parts from the public seed: comparisons only.")
    ] = False,
    scores: Annotated[bool, typer.Option("--scores", help="Let the silos report the scores of models on their data.")] = False,
    labels: Annotated[
        bool, typer.Option("--labels", help="Let the silos report how many samples of each class they have.")
    ] = False,
    sums: Annotated[
        bool, typer.Option("--sums", help="Let the silos report sums over their tables' columns, so that all scale alike.")
    ] = False,
    json: Json = False,
) -> None:
    """Write certificates, keys, the experiment, each silo's configuration and policy, and start scripts."""
    from ..silos.flower.layout import Address, init

    file, overrides = words(settings)
    terms: dict[str, Any] = {"seeded_private": True} if seeded else {}
    allowed = {"scores": scores, "labels": labels, "sums": sums}
    made = init(folder, silos, Address(host=host, port=port, listen=listen), overrides, file, terms, allowed)
    emit(
        {"folder": str(folder), "files": [str(p) for p in made]},
        json,
        lambda: note(f"wrote {len(made)} files in {folder}"),
    )


@app.command()
def check(folder: Annotated[Path, typer.Argument(help="A deployment, or one part of it.")], json: Json = False) -> None:
    """Verify certificates, keys, configurations and policies; warn 30 days before a certificate ends."""
    from ..silos.flower.inspect import check

    found = check(folder)
    emit(found, json, lambda: table(["what", "state", "note"], [[f["what"], f["state"], f["note"]] for f in found]))
    if any(f["state"] == "wrong" for f in found):
        raise typer.Exit(1)


@app.command()
def verify(
    folder: Annotated[Path, typer.Argument(help="A deployment, its server's part, or a silo's.")], json: Json = False
) -> None:
    """Prove or disprove the audit logs by the nodes' keys, and the server's runs by their chains.

    Ends with code 1 unless all of them hold.
    """
    from ..silos.flower.verify import verify

    found = verify(folder)
    rows = [[own["part"], own["what"], own["said"], own["head"][:16] or "–"] for own in found]
    emit(found, json, lambda: table(["part", "what", "what can be proved", "head"], rows))
    if any(own["state"] in ("disproved", "before", "unsigned") for own in found):
        raise typer.Exit(1)


@app.command()
def status(
    folder: Annotated[Path, typer.Argument(help="A deployment, or its server's part.")],
    watch: Annotated[bool, typer.Option("--watch", help="Look again every two seconds, until Ctrl-C.")] = False,
    json: Json = False,
) -> None:
    """Show which silos are there, what they last answered, how far the run is, and how long the certificate lasts."""
    import time

    from ..silos.flower.status import status

    while True:
        found = status(folder)
        if watch and not json:
            clear()
        emit(found, json, lambda found=found: _status(found))  # type: ignore[misc]
        if not watch:
            return
        time.sleep(2.0)


def _status(found: dict[str, Any]) -> None:
    from ..units import spoken

    over = found["seconds_left"] is None or found["state"] == "finished"
    left = "" if over else f", about {spoken(found['seconds_left'])} left"
    at = "before its first round" if found["round"] is None else f"round {found['round']} of {found['rounds']}{left}"
    link = f"perfed {found['version']}; link {found['link']}"
    note(f"{link}; run {found['state']}, {at}; certificate: {found['certificate_days']:.0f} days", out=True)
    rows = []
    for one in found["silos"]:
        since = "" if one["since"] is None else spoken(one["since"])
        samples = "" if one["samples"] is None else str(sum(one["samples"]))
        last = "" if one["last_answer"] is None else str(one["last_answer"])
        rows.append(
            [one["silo"], one["name"] or "", one["state"], since, one["torch"] or "", samples, last, one["missed"], one["note"]]
        )
    table(["silo", "name", "state", "for", "torch", "samples", "last answer", "missed", "note"], rows)


@app.command()
def local(folder: Annotated[Path, typer.Argument(help="A deployment.")], supernode: Ordinary = False, json: Json = False) -> None:
    """Run a whole deployment on this machine, on loopback, and end everything that was started."""
    from ..silos.flower import operate

    rounds, seeds = operate.planned(folder / "server")
    with progress(seeds * (rounds + 1), "deploy") as on_round:
        run = operate.local(folder, note, _told(on_round, rounds), ordinary=supernode)
    _show(run, json)


@app.command()
def link(server: Part, json: Json = False) -> None:
    """Keep the link running at the server, until Ctrl-C."""
    from ..silos.flower import operate

    mark = operate.fresh_mark()
    _stay(operate.link(server, mark), mark, server, json)


@app.command()
def silo(folder: Part, supernode: Ordinary = False, json: Json = False) -> None:
    """Keep a silo running, until Ctrl-C; it comes back when the link was away."""
    from ..silos.flower import operate
    from ..silos.flower.engine import misfit

    if not supernode and (why := misfit()):
        note(f"on an ordinary SuperNode: {why}")
        supernode = True
    mark = operate.fresh_mark()
    _stay(operate.silo(folder, mark, supernode), mark, folder, json)


@app.command()
def run(server: Part, json: Json = False) -> None:
    """At the server: run the experiment to its end; after a stop, go on."""
    from ..silos.flower import operate

    mark = operate.fresh_mark()
    rounds, seeds = operate.planned(server)
    with progress(seeds * (rounds + 1), "deploy") as on_round, operate.ended([], mark):
        operate.until_healthy(server, [])
        run = operate.follow(server, mark, [], _told(on_round, rounds))
    _show(run, json)


@app.command()
def add(
    folder: Annotated[Path, typer.Argument(help="A deployment.")],
    name: Annotated[str, typer.Argument(help="What the new silo is called.")],
    data: Annotated[
        list[str] | None,
        typer.Argument(metavar="[data=…] [data.OPTION=…]", help="Where its data are, such as data=csv:/srv/oslo.csv."),
    ] = None,
    scores: Annotated[bool, typer.Option("--scores", help="Let it report the scores of models on its data.")] = False,
    labels: Annotated[bool, typer.Option("--labels", help="Let it report how many samples of each class it has.")] = False,
    json: Json = False,
) -> None:
    """Let another silo come: its folder with key, configuration and policy, to be carried there and started.

    In an experiment that runs it takes part from the next round, if the method can take it in; when the experiment is over
    it joins as the method has it for newcomers, and has its model; the others are not disturbed.
    """
    from ..silos import start
    from ..silos.flower.membership import add

    made = add(folder, name, _source(data or []), {"scores": scores, "labels": labels})
    said = f"{name} is {made}; carry it there and start it: perfed deploy silo {made.name}"
    if not (made / start.FILE).exists():
        said += f". Another silo's {start.FILE} was not to be found here: let one send it its copy, past the server"
    emit({"name": name, "folder": str(made)}, json, lambda: note(said, out=True))


def _source(given: list[str]) -> dict[str, Any] | None:
    """Return where data are, from data=… and data.OPTION=…."""
    from ..errors import InputError
    from ..runs.parse import value_of

    found: dict[str, Any] = {}
    for word in given:
        key, mark, value = word.partition("=")
        if not mark or (key != "data" and not key.startswith("data.")):
            raise InputError(f"'{word}' is not understood; write data=csv:/srv/oslo.csv, and options as data.label=diagnosis")
        found["name" if key == "data" else key.removeprefix("data.")] = value if key == "data" else value_of(value)
    if found and "name" not in found:
        raise InputError("say where the data are, such as data=csv:/srv/oslo.csv")
    return found or None


@app.command()
def remove(
    folder: Annotated[Path, typer.Argument(help="A deployment.")],
    name: Annotated[str, typer.Argument(help="The silo's name, or silo-NUMBER.")],
    json: Json = False,
) -> None:
    """Take a silo's key away: it is not let in any more; say what of it remains in the common model."""
    from ..silos.flower.membership import remove

    found = remove(folder, name)
    emit(found, json, lambda: note(found["remains"], out=True))


@app.command()
def retrain(
    folder: Annotated[Path, typer.Argument(help="A deployment.")],
    name: Annotated[str, typer.Argument(help="The silo that left.")],
    json: Json = False,
) -> None:
    """Prepare the experiment without a silo that left, from the last state kept from before it came (snapshots=N keeps them)."""
    from ..silos.flower.membership import retrain

    found = retrain(folder, name)

    def show() -> None:
        for seed, number in found["rounds"].items():
            after = f"after round {number}, from before {name} came" if number else "at the start"
            note(f"seed {seed} begins {after}; private parts begin anew", out=True)
        note(f"perfed deploy run {folder / 'server'}: trains {found['run']}", out=True)

    emit(found, json, show)


def _stay(children: list[Any], mark: str, folder: Path, json: bool) -> None:
    """Keep processes running; as JSON, say first which and where they log."""
    from ..silos.flower import operate

    found = {"folder": str(folder), "keeps": {child.name: str(child.log) for child in children}}
    emit(found, json, lambda: None)
    operate.stay(children, mark)


def _told(on_round: Any, rounds: int) -> Any:
    """Return what is told of each round: a bar on a terminal, else a line."""
    if on_round is not None:
        return lambda seed, line: on_round(seed, line["round"])

    def say(seed: int, line: dict[str, Any]) -> None:
        absent = f", absent {line['absent']}" if line.get("absent") else ""
        note(f"seed {seed} round {line['round']} of {rounds}: {line['seconds']:.1f} s{absent}")

    return say


def _show(run: Path, json: bool) -> None:
    from ..disk import get_json
    from ..evaluate.metrics import known
    from ..runs.folder import RunFolder
    from ..silos.arrivals import joined

    path = run / "summary.json"
    found: dict[str, Any] = get_json(path) if path.exists() else {"run": str(run)}

    def show() -> None:
        if "accuracy" in found and found["accuracy"]["last"]:
            score = known(found.get("main", "accuracy")).title
            note(f"{score} {found['accuracy']['last']['weighted']['mean']:.4f} after the last round", out=True)
        for seed in RunFolder(run).seeds.values():
            for told in joined(seed).values():
                note(f"{told['name']} joined after round {told['round']} and has its model", out=True)
        note(f"run: {run}", out=True)

    emit(found, json, show)


silo_app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)


@silo_app.callback()
def _silo_group() -> None:
    """What a site does with its own silo."""


@silo_app.command("check")
def silo_check(
    folder: Annotated[Path, typer.Argument(help="A silo's folder.")],
    experiment: Annotated[
        Path | None, typer.Option(help="The experiment's YAML file; default: the server's last request.")
    ] = None,
    silos: Annotated[int, typer.Option(help="How many silos take part, with --experiment.")] = 3,
    json: Json = False,
) -> None:
    """Load this silo's data, train one round of the experiment and forget it, and say what would leave the house."""
    from ..runs import parse
    from ..silos.config import SiloConfig
    from ..silos.rehearsal import last_asked, question, rehearse
    from ..units import weighed

    config = SiloConfig.load(folder / "silo.yaml")
    ask = last_asked(config) if experiment is None else question(parse.load(experiment, [f"clients={silos}"]), config, silos)
    found = rehearse(config, ask)

    def show() -> None:
        facts, leaves = found["facts"], found["leaves"]
        train, validation, test = facts["sizes"]
        aim = f"{len(facts['classes'])} classes" if facts["task"] == "classification" else facts["task"]
        note(f"data: {train} samples to train, {validation} to validate, {test} to test; {aim}", out=True)
        note(f"a round: {found['steps']} steps in {found['seconds']:.2f} s; {found['parameters']} parameters", out=True)
        note(
            f"leaves every round: {weighed(leaves['bytes'])} of {len(leaves['update'])} tensors, {', '.join(leaves['facts'])}",
            out=True,
        )
        for what in ("scores", "labels", "sums"):
            which = f" ({', '.join(leaves[what])})" if isinstance(leaves[what], list) else ""
            note(f"{what}: {'are reported' if leaves[what] else 'stay here'}{which}", out=True)

    emit(found, json, show)
