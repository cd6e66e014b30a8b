"""``tuner verify``: measure an exported configuration again."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from tuner.cli.console import echo
from tuner.cli.errors import CliError, ExitCode
from tuner.cli.export_artifact import DOCUMENT_FILE
from tuner.cli.options import json_option
from tuner.cli.table import table, terminal_width


@click.command()
@click.argument("file", metavar="FILE", type=click.Path())  # a path only so that shells complete it
@click.option(
    "--timeout", "timeout_s", type=click.FloatRange(min=0, min_open=True), default=3600.0, show_default=True,
    metavar="SECONDS", help="For one run.",
)  # fmt: skip
@json_option
def verify(file: str, timeout_s: float, as_json: bool) -> int:
    """Measure the configuration in FILE again and say whether it lands where one more run should.

    FILE may be an artifact's folder: its loader then has to answer as it did when it was built. One cold run is
    thrown away, one counts. Exit code 0: every metric that the study judged by lies in its prediction interval;
    1: one does not, or all intervals are too wide to tell, or the run failed.
    """
    from tuner.execution.protocol import ExecutionError
    from tuner.export.reading import ExportError, read_document
    from tuner.verification import VerifyError, verify_document

    path, artifact = Path(file), Path(file) / DOCUMENT_FILE
    is_artifact = artifact.is_file()
    try:
        document = read_document(artifact if is_artifact else path)
        folder = path.resolve().parent
        _refuse_what_cannot_run(path, folder, document)
        if is_artifact:
            _try_out(path)
        outcome = verify_document(document, folder, timeout_s, lambda line: echo(line, err=True))
    except (ExportError, ExecutionError) as problem:
        raise CliError(str(problem)) from problem
    except VerifyError as problem:
        raise CliError(f"{path}: {problem}", ExitCode.STUDY_FAILED) from problem
    if as_json:
        click.echo(json.dumps(outcome.as_json(), indent=2))
    else:
        rows = [
            [
                c.metric,
                _shown(c.measured),
                f"{_shown(c.low)} to {_shown(c.high)}",
                "says little" if c.verdict == "wide" else c.verdict,
            ]
            for c in outcome.comparisons
        ]
        echo(table(rows, ["metric", "measured now", "expected of one more run", "verdict"], terminal_width()))
        echo(outcome.conclusion)
    return ExitCode.DONE if outcome.agrees else ExitCode.STUDY_FAILED


def _try_out(artifact: Path) -> None:
    """CliError where the loader fails here, or answers otherwise than when the artifact was built."""
    from trials.contract import TrialFailure
    from trials.inference.artifact import try_out

    try:
        try_out(artifact)
    except TrialFailure as problem:
        raise CliError(f"{artifact}: {problem.message}", ExitCode.STUDY_FAILED) from problem
    echo("the artifact answers as it did when it was built", err=True)


def _shown(value: float | None) -> str:
    """Six digits: an interval may be narrow."""
    return "-" if value is None else f"{value:.6g}"


def _refuse_what_cannot_run(path: Path, folder: Path, document: Mapping[str, Any]) -> None:
    """CliError for what would only show as a failed run."""
    from trials.workloads import workload_names

    workload = document["verify"]["workload"]
    if workload["kind"] not in workload_names():
        known = ", ".join(workload_names())
        raise CliError(
            f"{path}: verify.workload.kind={workload['kind']} is not known here; there are {known}"
        )
    model = str(workload.get("model", ""))
    for what, target in (("task", str(workload.get("task", ""))), ("model", model)):
        file = Path(target if target.endswith(".onnx") else target.rpartition(":")[0])
        if file.suffix in (".py", ".onnx") and not file.is_file():
            raise CliError(
                f"{path}: the {what}'s file {file} is not there; put it back, or export on this machine"
            )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise CliError(
            f"{folder}: trial folders go beside {path.name}, but it is read-only; copy the file elsewhere"
        )
