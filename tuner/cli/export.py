"""``tuner export``: a winner as a file."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from tuner.cli.console import echo
from tuner.cli.errors import CliError, ExitCode
from tuner.cli.export_artifact import ARTIFACT, artifact_folder, export_artifact, refuse_other_kinds
from tuner.cli.export_study import STUDY_TARGETS, export_study
from tuner.cli.options import WholeNumber, records_option, study_argument
from tuner.cli.output import output_path, write_output
from tuner.cli.recorded import read_study
from tuner.cli.text import first_line
from tuner.comparison import LimitStatus
from tuner.export import TargetError, render, target_names
from tuner.results import StudyResult
from tuner.results.model import BASELINE, LimitResult
from tuner.space.model import Selection

_PICKS = "knee, first_objective, maximize:METRIC or minimize:METRIC"


@click.command()
@study_argument
@click.option("--pick", metavar="RULE", help=f"How to choose: {_PICKS}. Default: the space file's selection.")
@click.option("--trial", type=WholeNumber(0), metavar="N", help="Export this trial instead.")
@click.option(
    "--to",
    "target",
    default="yaml",
    show_default=True,
    metavar="FORMAT",
    help="yaml, json, torchrun, vllm or a plugin's: one trial; artifact: its built model (kind: inference); csv, "
    "optuna, mlflow: all trials.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Default: standard output. For optuna and mlflow the database: a file or URL; for artifact a new folder.",
)
@click.option("--force", is_flag=True, help="Replace FILE also where no export wrote it.")
@records_option
def export(
    study: str,
    pick: str | None,
    trial: int | None,
    target: str,
    output: str | None,
    force: bool,
    records: str | None,
) -> int:
    """Write the recommended configuration of STUDY with its confirmed numbers, and say why this one.

    Exit code 3 where no trial meets the limits; --trial N exports one all the same. STUDY@N is its Nth
    generation. With --to artifact the model is built into a new folder, with a loader that runs without tuner; with
    --to csv, optuna or mlflow every trial is written, failed ones too.
    """
    from tuner.export.document import build_document
    from tuner.results import judge

    known = (*target_names(), ARTIFACT, *STUDY_TARGETS)
    if target not in known:
        there = ", ".join(known)
        raise CliError(f"--to {target}: no such format; there are {there}")
    if pick is not None and trial is not None:
        raise CliError("--pick and --trial: use one of them")
    if target in STUDY_TARGETS:
        if pick is not None or trial is not None:
            raise CliError(f"--to {target} writes every trial; leave out --pick and --trial")
        return export_study(study, target, output, records, force=force)
    selection = None if pick is None else _selection(pick)
    path = _path_for(target, output, records, force)
    record, location = read_study(study, records)
    result = judge(record, selection=selection)
    if selection is not None:
        _refuse_an_unknown_metric(result, selection)
    number, reason, gives_up = _chosen(result, trial)
    try:
        document = build_document(record, result, number, reason, gives_up, location)
        if target == ARTIFACT:
            refuse_other_kinds(study, str(document["verify"]["workload"]["kind"]))
        text = render("yaml" if target == ARTIFACT else target, document)
    except TargetError as problem:
        raise CliError(f"--to {target}: {problem}", ExitCode.STUDY_FAILED) from problem
    if path is None:
        click.echo(text, nl=False)
    elif target == ARTIFACT:
        export_artifact(document, text, path)
    else:
        write_output(path, text)
    echo(f"trial {number} of '{study}': {reason}", err=True)
    for line in gives_up:
        echo(f"  {'note' if trial is not None else 'gives up'}: {line}", err=True)
    if path is not None:
        echo(f"wrote {path}{_what_next(target, path, document, result)}", err=True)
    return ExitCode.DONE


def _path_for(target: str, output: str | None, records: str | None, force: bool) -> Path | None:
    """Where to write, refused before any work; None for standard output."""
    if target == ARTIFACT:
        return artifact_folder(output)
    return None if output in (None, "-") else output_path(str(output), records, force=force)


def _what_next(target: str, path: Path, document: Mapping[str, Any], result: StudyResult) -> str:
    """What to do with the file; an artifact is run first."""
    run = ""
    if target == ARTIFACT:
        sample = [str(path / name) for name in ("loader.py", "sample_inputs.npz")]
        run = f"; run it with: {shlex.join(['python', *sample, 'outputs.npz'])}"
    return run + (_measuring_again(path, document, result) if target in ("yaml", "json", ARTIFACT) else "")


def _measuring_again(path: Path, document: Mapping[str, Any], result: StudyResult) -> str:
    """The command that verifies the file; where it would be refused, why, and what comes first."""
    from tuner.cli.summary import confirming
    from tuner.verification import why_unpredictable

    problem = why_unpredictable(document)
    if problem is None:
        return f"; measure it again with: {shlex.join(['tuner', 'verify', str(path)])}"
    is_waiting = document["trial"] in result.front and document["trial"] != BASELINE
    first = f"; confirm it first: {confirming(result)}" if is_waiting else ""
    return f"; tuner verify has nothing to compare with: {problem}{first}"


def _chosen(result: StudyResult, trial: int | None) -> tuple[int, str, list[str]]:
    """The trial to export, why, and what it gives up."""
    if trial is not None:
        return trial, "chosen by --trial", _doubts(result, trial)
    if result.recommended is not None:
        return result.recommended.trial, result.recommended.reason, list(result.recommended.gives_up)
    if result.nearest_miss is not None:
        raise CliError(
            f"study '{result.name}': no trial meets the limits; nearest: {result.nearest_miss}; "
            f"export it all the same with --trial {result.nearest_miss.trial}",
            ExitCode.NOTHING_FEASIBLE,
        )
    raise CliError(
        f"study '{result.name}' has no measured trial to export; go on with tuner run",
        ExitCode.NOTHING_FEASIBLE,
    )


def _doubts(result: StudyResult, trial: int) -> list[str]:
    try:
        judged = result.trial(trial)
    except KeyError as problem:
        raise CliError(f"--trial {trial}: {problem.args[0]}") from problem
    if judged.losses is None and judged.outcome is None:
        raise CliError(f"--trial {trial}: it is not measured yet; choose another")
    if judged.losses is None:
        why = (
            f"{judged.failure_kind}: {first_line(judged.message)}" if judged.failure_kind else judged.outcome
        )
        raise CliError(f"--trial {trial}: it has no values ({why}); choose another")
    broken = [
        f"breaks the limit {limit.bound} ({limit.value:.6g})" for limit in judged.limits if _is_broken(limit)
    ]
    return broken + ([] if judged.is_confirmed else ["not confirmed by repeated measurement"])


def _is_broken(limit: LimitResult) -> bool:
    return limit.status is LimitStatus.NOT_MET and limit.value is not None


def _selection(pick: str) -> Selection:
    rule, _, metric = pick.partition(":")
    if (rule in ("knee", "first_objective") and not metric) or (rule in ("maximize", "minimize") and metric):
        return Selection(rule, metric or None)
    raise CliError(f"--pick {pick}: no such rule; write {_PICKS}")


def _refuse_an_unknown_metric(result: StudyResult, selection: Selection) -> None:
    known = sorted({key for trial in result.trials for key in trial.estimates})
    if selection.metric is None or selection.metric in known or not known:
        return
    near = difflib.get_close_matches(selection.metric, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"measured are {', '.join(known)}"
    raise CliError(
        f"--pick {selection.rule}:{selection.metric}: no trial has measured {selection.metric}; {hint}"
    )
