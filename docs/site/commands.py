"""The reference of commands, read from the command line itself."""

import inspect

import click
import typer
from source import cell, code, table

from perfed.cli.commands import app


def page() -> str:
    """Return every command with its usage, its help and its options."""
    root = typer.main.get_command(app)
    return "\n\n".join(_command(("perfed", *words), command) for words, command in leaves(root))


def leaves(command: click.Command, words: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], click.Command]]:
    """Return every command below this one; a group that does something by itself counts too."""
    if not isinstance(command, click.Group):
        return [(words, command)]
    own = [(words, command)] if words and command.invoke_without_command else []
    below = [found for name, sub in command.commands.items() for found in leaves(sub, (*words, name))]
    return own + below


def _command(words: tuple[str, ...], command: click.Command) -> str:
    name = " ".join(words)
    usage = " ".join([name, *command.collect_usage_pieces(click.Context(command))])
    said = inspect.cleandoc(command.help or "")
    rows = []
    for option in command.params:
        flag = option.opts[0] if isinstance(option, click.Option) else (option.metavar or option.name or "").upper()
        told = getattr(option, "help", "") or ""
        default = option.default if not isinstance(option.default, bool) and option.default not in (None, "") else ""
        rows.append([code(flag), cell(told), code(str(default)) if isinstance(default, str | int | float) else ""])
    listed = table(["option", "meaning", "default"], rows) if rows else ""
    return f"## {name}\n\n```text\n{usage}\n```\n\n{said}\n\n{listed}"
