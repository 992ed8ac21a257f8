"""What holds for every command of the command line."""

from collections.abc import Iterator

import click
import pytest
import typer

from perfed.cli.commands import app


def commands(found: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    if isinstance(found, click.Group):
        if found.invoke_without_command:
            yield " ".join(path), found
        for name, inner in found.commands.items():
            yield from commands(inner, (*path, name))
    else:
        yield " ".join(path), found


ALL = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("name", ALL)
def test_every_command_has_help_and_json(name: str) -> None:
    options = {word for option in ALL[name].params for word in option.opts}
    assert "--json" in options
    assert ALL[name].help
