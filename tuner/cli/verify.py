"""``tuner verify``: measure an exported configuration again."""

from __future__ import annotations

import json
from pathlib import Path

import click

from tuner.cli.errors import CliError, ExitCode
from tuner.cli.options import json_option
from tuner.cli.text import shown_number, table


@click.command()
@click.argument("file", metavar="FILE")
@click.option("--timeout", "timeout_s", type=float, default=3600.0, show_default=True, help="Seconds for one run.")
@json_option
def verify(file: str, timeout_s: float, as_json: bool) -> int:
    """Measure the configuration in FILE again and say whether it lands where one more run should.

    One cold run is thrown away, one counts. Exit code 0: every metric that the study judged by lies in its
    prediction interval; 1: one does not, or the run failed.
    """
    from tuner.export.document import ExportError, read_document
    from tuner.verification import VerifyError, verify_document

    path = Path(file)
    try:
        document = read_document(path)
        outcome = verify_document(document, path.resolve().parent, timeout_s, lambda line: click.echo(line, err=True))
    except ExportError as problem:
        raise CliError(str(problem)) from problem
    except VerifyError as problem:
        raise CliError(f"{path}: {problem}", ExitCode.STUDY_FAILED) from problem
    if as_json:
        click.echo(json.dumps(outcome.as_json(), indent=2))
    else:
        rows = [
            [c.metric, shown_number(c.measured), f"{shown_number(c.low)} to {shown_number(c.high)}", c.verdict]
            for c in outcome.comparisons
        ]
        click.echo(table(rows, ["metric", "measured now", "expected of one more run", ""]))
        click.echo("agrees with the export" if outcome.agrees else "does NOT agree with the export")
    return ExitCode.DONE if outcome.agrees else ExitCode.STUDY_FAILED
