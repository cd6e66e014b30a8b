"""What a reader should know about the numbers themselves: too few examples, disturbed or shared machines."""

from __future__ import annotations

from collections.abc import Sequence

from trials.contract import Outcome
from tuner.records.rows import CONCURRENT, CONTAMINATED, StudyRecord
from tuner.results.model import BASELINE, TrialResult
from tuner.results.runs import runs_behind, valid_runs

_MOST_NAMED = 6


def remarks(study: StudyRecord, trials: Sequence[TrialResult]) -> tuple[str, ...]:
    """One line each; none where nothing is to be said."""
    return (
        *_too_few_examples(study, trials),
        *_disturbed(study),
        *_side_by_side(study),
        *_numerics_changed(trials),
    )


def _numerics_changed(trials: Sequence[TrialResult]) -> list[str]:
    """Trials whose knobs promise the same numbers and did not keep it."""
    return [
        f"numerics_changed: trial {trial.number} differs from the baseline only in {', '.join(trial.changes)}, and "
        f"its {trial.numerics_changed}"
        for trial in trials
        if trial.numerics_changed
    ]


def _too_few_examples(study: StudyRecord, trials: Sequence[TrialResult]) -> list[str]:
    """Limits that are finer than the step in which the baseline's examples move a share."""
    baseline = next((trial for trial in study.trials if trial.number == BASELINE), None)
    if baseline is None or study.bounds is None:
        return []
    found, runs = [], valid_runs(baseline, study)
    values = next(trial.estimates for trial in trials if trial.number == BASELINE)
    for limit in study.constraints:
        counts = [run.metrics[limit.metric].n for run in runs if limit.metric in run.metrics]
        examples = min((n for n in counts if n), default=None)
        if examples is not None and limit.metric in values:
            found.append(limit.too_coarse(examples, values[limit.metric].value))
            quality = values.get(limit.metric.removesuffix("_recovery_pct"))
            found.append(limit.undecidable(examples, quality.value if quality else 1.0))
    return [line for line in found if line is not None]


def _disturbed(study: StudyRecord) -> list[str]:
    """Trials whose numbers rest on a measurement that something disturbed, after a second try as well."""
    reasons: dict[int, str] = {}
    for trial in study.trials:
        if any(run.facts.get(CONTAMINATED) for run in trial.measurements):
            found = [
                run.facts[CONTAMINATED] for run in runs_behind(trial, study) if CONTAMINATED in run.facts
            ]
            if found:
                reasons[trial.number] = str(found[0])
    if not reasons:
        return []
    numbers = sorted(reasons)
    more = ", ..." if len(numbers) > _MOST_NAMED else ""
    named = ", ".join(map(str, numbers[:_MOST_NAMED])) + more
    return [f"measurements of trial {named} were disturbed (trial {numbers[0]}: {reasons[numbers[0]]})"]


def _side_by_side(study: StudyRecord) -> list[str]:
    ended = [run for trial in study.trials for run in trial.measurements if run.outcome is Outcome.COMPLETE]
    most = max((int(run.facts.get(CONCURRENT, 1)) for run in ended), default=1)
    if most < 2:
        return []
    return [f"up to {most} trials ran at once (search.concurrent_trials), so they shared memory and caches"]
