"""The command line: one file per group of commands; the only place that prints."""

import sys

from ..errors import PerfedError


def main() -> None:
    """Run the command line; bad input is one sentence and exit code 2."""
    import click

    from .commands import app

    try:
        code = app(standalone_mode=False, prog_name="perfed")  # whatever ran it
    except click.exceptions.Exit as done:
        code = done.exit_code
    except click.exceptions.NoArgsIsHelpError as asked:
        asked.show()
        code = asked.exit_code
    except click.ClickException as wrong:
        from .mistakes import sentence

        print(f"error: {sentence(wrong)}", file=sys.stderr)
        code = wrong.exit_code
    except (click.Abort, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        code = 130
    except PerfedError as refused:
        print(f"error: {refused}", file=sys.stderr)
        code = 2
    except BrokenPipeError:  # the reader of our output went away
        sys.stderr.close()
        code = 1
    except OSError as failed:
        print(f"error: {failed.strerror or failed}: {failed.filename or ''}".rstrip(": "), file=sys.stderr)
        code = 2
    sys.exit(code if isinstance(code, int) else 0)
