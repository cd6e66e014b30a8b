"""The command line: ``tuner run | check | show | list | export | verify | ui | log``.

Exit codes: 0 done; 1 the study failed; 2 the input is wrong and nothing ran; 3 ran, but no trial is feasible;
130 interrupted, everything saved. Data goes to stdout, talk to stderr. Verbs are imported when called, so
that ``tuner --help`` loads nothing heavy.
"""

from __future__ import annotations

import sys

import click

from tuner import __version__
from tuner.cli.errors import ExitCode, run_and_exit
from tuner.cli.lazy import VerbGroup

VERBS = {
    "run": ("tuner.cli.run:run", "Measure configurations and confirm the best ones."),
    "check": (
        "tuner.cli.check:check",
        "Read a space file, count its space, say what is wrong; runs nothing.",
    ),
    "show": ("tuner.cli.show:show", "Show a study: front, gain over the baseline, failures."),
    "list": ("tuner.cli.listing:list_studies", "List the studies in the records, newest first."),
    "export": ("tuner.cli.export:export", "Write a winner as a file that runs elsewhere."),
    "verify": ("tuner.cli.verify:verify", "Measure an exported configuration again and compare."),
    "log": ("tuner.cli.log:log", "Write a study from the records to MLflow again."),
    "ui": ("tuner.cli.ui:ui", "Open MLflow's UI on the store the studies are logged to."),
}
_EPILOG = """\b
Begin with:   tuner check quickstart; tuner run quickstart
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


def main() -> None:
    """Entry point of the ``tuner`` program."""
    run_and_exit(cli, sys.argv[1:])
