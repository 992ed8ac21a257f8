"""No page shows a command, an option or a setting that does not exist."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import pytest
import typer
from reading import PAGES, ROOT, commands, name, prose

from perfed import papers, partition
from perfed.cli.commands import app
from perfed.cli.output import words as sorted_out
from perfed.local.budget import Budget
from perfed.papers.choose import choose
from perfed.privacy import Privacy
from perfed.runs import compare, parse
from perfed.runs.assemble import method_of
from perfed.sampling import Sampling

CLI = typer.main.get_command(app)
PLACEHOLDER = re.compile(r"…|\.\.\.")


def found(words: list[str]) -> tuple[str, dict[str, Any]]:
    """Return the command that words name and what it was given; the command line itself takes them apart."""
    command: click.Command = CLI
    context = click.Context(CLI, info_name="perfed")
    path = []
    while isinstance(command, click.Group) and words and words[0] in command.commands:
        path.append(words[0])
        command, words = command.commands[words[0]], words[1:]
    if not words or {"-h", "--help"} & set(words) or words[0] == "COMMAND":  # only mentioned
        return "mention", {}
    if isinstance(command, click.Group):  # only its own options, as in perfed --version
        assert set(words) <= {option for parameter in command.params for option in parameter.opts}, words
        return "mention", {}
    made = command.make_context(" ".join(path), list(words), parent=context)
    return " ".join(path), made.params


def check_settings(given: list[str], *, compared: bool) -> None:
    file, overrides = sorted_out(given)
    if file is not None and not (ROOT / file).exists():  # my.yaml stands for the reader's own
        file = None
    path = None if file is None else ROOT / file
    if compared:
        asked = (
            [*compare.load(path, overrides).named(Path("runs"))]
            if path or any(w.startswith("methods=") for w in overrides)
            else []
        )
    else:
        asked = [parse.load(path, overrides)]
    for one in asked:
        method_of(one)
        partition.build(one.partition.name, **one.partition.options)


def check_paper(given: dict[str, Any]) -> None:
    if given["name"] is None or given["name"].isupper():
        return
    recipe = papers.load(given["name"])
    choose(recipe, tuple(word for word in given["only"].split(",") if word))
    for word in given["settings"] or ():
        if word.partition("=")[0] not in recipe.paper.symbols:
            parse.apply({}, word)


NOW = [page for page in PAGES if page.stem != "CHANGELOG"]  # which also tells of what there was


@pytest.mark.parametrize("page", [page for page in NOW if list(commands(page))], ids=name)
def test_commands_are_understood(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / "examples" / "tutorial")  # the reader's own code, as the tutorial writes it
    for words in commands(page):
        words = ["1" if word == "N" else word for word in words if not PLACEHOLDER.fullmatch(word)]
        command, given = found(words)
        if command in ("run", "compare"):
            check_settings(given["settings"] or [], compared=command == "compare")
        elif command == "deploy init":
            own = [w for w in given["settings"] or [] if w.startswith("data=") and ":" not in w]  # a silo's own name for its data
            check_settings([w for w in given["settings"] or [] if w not in own], compared=False)
        elif command == "paper":
            check_paper(given)


KNOWN = {
    "budget": {field.name for field in fields(Budget)},
    "sampling": {field.name for field in fields(Sampling)},
    "privacy": {field.name for field in fields(Privacy)},
    "partition": {field.name for kind in partition.PARTITIONS.values() for field in fields(kind)},
}


@pytest.mark.parametrize("page", NOW, ids=name)
def test_settings_in_the_text_exist(page: Path) -> None:
    for code in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", prose(page)):
        for head, option in re.findall(r"\b(budget|sampling|partition|privacy)\.(?!json\b)([a-z_]+)", code):
            assert option in KNOWN[head], f"{head}.{option}"
