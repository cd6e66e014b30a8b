"""The command line: ``tuner init | run | check | try | show | list | export | verify | ui | log | doctor``.

Exit codes: 0 done; 1 the study failed; 2 the input is wrong and nothing ran; 3 ran, but no trial is feasible;
130 interrupted, everything saved. Data goes to stdout, talk to stderr. Verbs are imported when called, so
that ``tuner --help`` loads nothing heavy.
"""

from __future__ import annotations

import os
import sys

import click

from tuner import __version__
from tuner.cli.errors import ExitCode, run_and_exit
from tuner.cli.lazy import VerbGroup
from tuner.cli.signals import raise_interrupts

VERBS = {
    "init": ("tuner.cli.init:init", "Write a first space file, from a task or a command line."),
    "run": ("tuner.cli.run:run", "Measure configurations and confirm the best ones."),
    "check": (
        "tuner.cli.check:check",
        "Read a space file, count its space, say what is wrong; runs nothing.",
    ),
    "try": ("tuner.cli.try_:try_", "Measure one configuration of your own into a study."),
    "show": ("tuner.cli.show:show", "Show a study, follow one that runs, or compare two."),
    "list": ("tuner.cli.listing:list_studies", "List the studies in the records, newest first."),
    "export": ("tuner.cli.export:export", "Write a winner as a file that runs elsewhere, or all trials."),
    "verify": ("tuner.cli.verify:verify", "Measure an exported configuration again and compare."),
    "log": ("tuner.cli.log:log", "Write a study from the records to MLflow again."),
    "ui": ("tuner.cli.ui:ui", "Open MLflow's UI on the store the studies are logged to."),
    "doctor": ("tuner.cli.doctor:doctor", "Say what is usable on this machine, and how to get the rest."),
    "schema": ("tuner.cli.schema:schema", "Print the JSON Schema of space files, for editors."),
    "completion": ("tuner.cli.completion:completion", "Print the completion script of bash, zsh or fish."),
}
COMPLETION_VARIABLE = "_TUNER_COMPLETE"
"""Set by a shell that asks what may come next; its value says which shell."""
_EPILOG = """\b
Begin with:   tuner check quickstart; tuner run quickstart; tuner init for your own
Exit codes:   0 done, 1 the study failed, 2 the input is wrong and nothing ran,
              3 ran but nothing meets the limits, 130 interrupted, all saved
Environment:  TUNER_RECORDS (default of --records), NO_COLOR, TUNER_DEBUG=1"""


@click.group(
    cls=VerbGroup,
    verbs=VERBS,
    invoke_without_command=True,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="tuner", message="%(prog)s %(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """Find the training and inference configurations worth running, by measuring them."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help(), err=True)
        context.exit(ExitCode.BAD_INPUT)


def open_standard_streams() -> None:
    """Give a program that was started with closed streams (a daemon, ``>&-``) the null device.

    Otherwise the next file that is opened, the records perhaps, would get the number of standard output.
    """
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(descriptor, mode, closefd=False))


def main() -> None:
    """Entry point of the ``tuner`` program."""
    open_standard_streams()
    if COMPLETION_VARIABLE in os.environ:
        from tuner.cli.completion import answer

        sys.exit(answer(cli, os.environ[COMPLETION_VARIABLE]))
    run_and_exit(cli, sys.argv[1:], begin=raise_interrupts)
