"""Exit codes, and how an error reaches the user: one clear line on stderr, never a traceback for bad input."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import IntEnum

import click


class ExitCode(IntEnum):
    """What the program's exit status means."""

    DONE = 0
    STUDY_FAILED = 1
    BAD_INPUT = 2
    NOTHING_FEASIBLE = 3
    INTERRUPTED = 130


class CliError(click.ClickException):
    """A message for the user with an exit code; the message says what to do."""

    def __init__(self, message: str, code: ExitCode = ExitCode.BAD_INPUT) -> None:
        super().__init__(message)
        self.code = code

    def show(self, file: object = None) -> None:
        """The message as it is, on stderr."""
        click.echo(self.message, err=True)


def run_and_exit(command: click.Command, arguments: Sequence[str]) -> None:
    """Run a command and end the process with its exit code."""
    from tuner.records.errors import RecordsError
    from tuner.space.errors import SpaceError

    try:
        code = command.main(list(arguments), prog_name="tuner", standalone_mode=False)
    except CliError as problem:
        problem.show()
        code = problem.code
    except click.ClickException as problem:
        problem.show()
        code = ExitCode.BAD_INPUT
    except SpaceError as problem:
        for line in problem.problems:
            click.echo(str(line), err=True)
        code = ExitCode.BAD_INPUT
    except RecordsError as problem:
        click.echo(f"tuner: {problem}", err=True)
        code = ExitCode.BAD_INPUT
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        code = ExitCode.INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output (head, less) has gone; nothing is wrong
        code = ExitCode.DONE
    sys.exit(int(code) if isinstance(code, int) else int(ExitCode.DONE))
