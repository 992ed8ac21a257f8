"""Registers silos' keys at the link through Flower's own command line, all in one process: its start is the cost."""

import contextlib
import io
import sys
from pathlib import Path


def register(keys: list[Path]) -> list[str]:
    """Return what went wrong, a line each; a key that is known already is fine."""
    import click
    from flwr.cli.app import app

    wrong = []
    for key in keys:
        said = io.StringIO()
        try:
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                app(["supernode", "register", str(key), "deployment", "--name", key.stem], standalone_mode=False)
        except click.ClickException as refused:
            said.write(refused.format_message())
            if "already" not in said.getvalue():
                wrong.append(f"{key.stem}: {' '.join(said.getvalue().split())}")
        except SystemExit as ended:
            if ended.code and "already" not in said.getvalue():
                wrong.append(f"{key.stem}: {' '.join(said.getvalue().split())}")
    return wrong


if __name__ == "__main__":
    problems = register([Path(text) for text in sys.argv[1:]])
    sys.stderr.write("\n".join(problems))
    sys.exit(1 if problems else 0)
