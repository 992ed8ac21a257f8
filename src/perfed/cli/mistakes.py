"""What the command line says of a command or an option that there is not."""

import re
from difflib import get_close_matches
from typing import Any

_WORDS = {  # a command, and what people type instead
    "run": ["train", "fit", "start", "exec", "launch", "simulate", "experiment"],
    "compare": ["benchmark", "bench", "vs"],
    "race": ["sweep", "tournament", "which", "recommend", "best"],
    "tune": ["optimize", "optimise", "search", "hpo", "grid"],
    "resume": ["continue", "restart", "restore", "extend"],
    "report": ["plot", "html", "page", "figures", "table", "tables", "evaluate", "eval", "results", "summary", "summarize"],
    "methods": ["method", "algorithms", "algorithm", "strategies", "describe"],
    "data": ["datasets", "dataset", "data list", "data ls"],
    "data fetch": ["download", "fetch", "data get", "data download"],
    "data split": ["partition", "split", "data partition"],
    "paper": ["papers", "reproduce", "recipe", "recipes"],
    "analyze": ["analyse", "analysis", "attack", "tsne"],
    "audit": ["privacy", "membership", "inversion"],
    "doctor": ["check", "diagnose"],
    "export": ["save", "onnx", "models"],
    "predict": ["infer", "inference", "classify", "score", "apply"],
    "serve": ["api", "host", "inferenceserver", "endpoint"],
    "deploy": ["flower", "server"],
    "deploy silo": ["silo", "client", "deploy client", "deploy node"],
    "deploy init": ["init", "deploy create"],
    "runs": ["list", "ls", "history", "status", "runs list", "runs ls"],
    "runs rm": ["rm", "delete", "runs delete", "runs remove"],
    "runs clean": ["clean", "runs prune"],
    "runs diff": ["diff", "runs compare"],
    "settings": ["config", "options", "parameters", "params", "hyperparameters"],
    "--help": ["help"],
    "--version": ["version"],
    "--install-completion": ["complete", "completion"],
    "data show": ["data view", "data inspect", "data info"],
    "deploy run": ["deploy start"],
    "deploy link": ["deploy server", "deploy link-server"],
    "deploy check": ["deploy verify"],
    "deploy local": ["deploy simulate"],
    "runs show": ["runs info"],
}
COMMANDS = {word: command for command, words in _WORDS.items() for word in words}
SETTINGS = ("run", "compare", "race", "tune", "init", "split", "paper")  # commands that take key=value


def sentence(wrong: Any) -> str:
    """Return one sentence for what click found wrong."""
    said = str(wrong.format_message())
    if found := re.match(r"No such command '([^']*)'", said):
        return _command(wrong, found[1])
    if found := re.match(r"No such option:? '?(-[^\s'.]*)", said):
        return _option(wrong, found[1])
    if found := re.match(r"Missing argument '([^']*)'", said):
        return f"`{_path(wrong)}` needs {found[1].rstrip('.')}; {_usage(wrong)}"
    if found := re.match(r"Got unexpected extra arguments? \((.*)\)", said):
        return f"'{found[1]}' is too much for `{_path(wrong)}`; {_usage(wrong)}"
    return said[:1].lower() + said[1:].rstrip(".")


def _path(wrong: Any) -> str:
    return str(wrong.ctx.command_path) if wrong.ctx else "perfed"


def _usage(wrong: Any) -> str:
    pieces = " ".join(wrong.ctx.command.collect_usage_pieces(wrong.ctx)) if wrong.ctx else ""
    return f"write {_path(wrong)} {pieces}"


def _command(wrong: Any, name: str) -> str:
    group = _path(wrong).partition(" ")[2]
    known = sorted(wrong.ctx.command.list_commands(wrong.ctx))
    start = f"no command '{name}'"
    if "=" in name:
        return f"{start}; settings follow a command: perfed run {name}"
    meant = COMMANDS.get(f"{group} {name}".strip().lower())
    near = get_close_matches(name.lower(), known, n=1, cutoff=0.6)
    if near and not (meant and meant.split()[-1] != near[0]):
        meant = f"{group} {near[0]}".strip()
    if meant:
        return f"{start}; did you mean `perfed {meant}`?"
    return f"{start}; there are {', '.join(known)}"


def _option(wrong: Any, option: str) -> str:
    from ..advice import unknown
    from ..reference import everything

    key, command = option.lstrip("-").replace("-", "_"), wrong.ctx.command.name if wrong.ctx else ""
    near = get_close_matches(option, [name for own in wrong.ctx.command.params for name in own.opts], n=1, cutoff=0.7)
    if near:
        return f"no option '{option}'; did you mean '{near[0]}'?"
    if command not in SETTINGS:
        return f"no option '{option}' of `{_path(wrong)}`; `{_path(wrong)} --help` lists them"
    known = {setting.path: setting.example for setting in everything()}
    if key in known:
        return f"settings are written without dashes, such as {known[key]}"
    hint = re.search(r"'([\w.]+)'", str(unknown(key)).partition("; ")[2])
    meant = known.get(hint[1]) if hint else None
    return f"no option '{option}'; settings are written key=value, such as {meant or 'rounds=100'}"
