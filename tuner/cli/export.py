"""``tuner export``: a winner as a file."""

from __future__ import annotations

from pathlib import Path

import click

from trials.contract import write_atomically
from tuner.cli.errors import CliError, ExitCode
from tuner.cli.options import records_option, study_argument
from tuner.export import renderer, target_names
from tuner.results import StudyResult
from tuner.space.model import Selection

_PICKS = "knee, first_objective, maximize:METRIC or minimize:METRIC"


@click.command()
@study_argument
@click.option("--pick", metavar="RULE", help=f"How to choose: {_PICKS}. Default: the space file's selection.")
@click.option("--trial", type=int, metavar="N", help="Export this trial instead.")
@click.option("--to", "target", default="yaml", show_default=True, help="Format of the file.")
@click.option("-o", "--output", type=click.Path(dir_okay=False), metavar="FILE", help="Default: standard output.")
@records_option
def export(
    study: str, pick: str | None, trial: int | None, target: str, output: str | None, records: str | None
) -> int:
    """Write the recommended configuration of STUDY with its confirmed numbers, and say why this one.

    Exit code 3 where no trial meets the limits; --trial N exports one all the same.
    """
    from tuner.export.document import build_document
    from tuner.records.repository import Records
    from tuner.results import judge

    if target not in target_names():
        raise CliError(f"--to {target}: no such format; use one of {', '.join(target_names())}")
    if pick is not None and trial is not None:
        raise CliError("--pick and --trial: use one of them")
    with Records.open(records, must_exist=True) as store:
        record, location = store.study(study), store.location
    try:
        result = judge(record, selection=_selection(pick))
    except ValueError as problem:
        raise CliError(f"--pick {pick}: {problem}") from problem
    number, reason, gives_up = _chosen(result, trial)
    text = renderer(target)(build_document(record, result, number, reason, gives_up, location))
    if output is None:
        click.echo(text, nl=False)
    else:
        _write(Path(output), text)
    click.echo(f"trial {number} of '{study}': {reason}", err=True)
    for line in gives_up:
        click.echo(f"  gives up: {line}", err=True)
    if output is not None:
        click.echo(f"wrote {output}; measure it again with: tuner verify {output}", err=True)
    return ExitCode.DONE


def _chosen(result: StudyResult, trial: int | None) -> tuple[int, str, list[str]]:
    if trial is not None:
        try:
            judged = result.trial(trial)
        except KeyError as problem:
            raise CliError(f"--trial {trial}: {problem.args[0]}") from problem
        if judged.losses is None:
            raise CliError(f"--trial {trial}: it has no values ({judged.failure_kind}: {judged.message[:200]})")
        doubts = [] if judged.is_feasible else ["it breaks a limit of the study"]
        doubts += [] if judged.is_confirmed else ["it was not confirmed by repeated measurement"]
        return trial, "chosen by --trial", doubts
    if result.recommended is None:
        miss = f"; nearest: {result.nearest_miss}" if result.nearest_miss else ""
        raise CliError(
            f"study '{result.name}': nothing feasible to export{miss}\nexport one all the same with --trial N",
            ExitCode.NOTHING_FEASIBLE,
        )
    return result.recommended.trial, result.recommended.reason, list(result.recommended.gives_up)


def _selection(pick: str | None) -> Selection | None:
    if pick is None:
        return None
    rule, _, metric = pick.partition(":")
    if (rule in ("knee", "first_objective") and not metric) or (rule in ("maximize", "minimize") and metric):
        return Selection(rule, metric or None)
    raise CliError(f"--pick {pick}: write {_PICKS}")


def _write(path: Path, text: str) -> None:
    try:
        write_atomically(path, text)
    except OSError as problem:
        raise CliError(f"{path}: cannot be written: {problem.strerror or problem}") from problem
