"""What a space file says, as plain values (``tuner check --json``) and as a page to read."""

from __future__ import annotations

from typing import Any

from tuner.cli.recorded import Recorded
from tuner.cli.size import Size, size_of
from tuner.cli.table import fitted, terminal_width
from tuner.cli.text import plural, shown_config, shown_duration, shown_value
from tuner.loop.rounds_needed import confirm_runs
from tuner.space.domains import Choice, Choices, Fixed, Range
from tuner.space.errors import Problem, SpaceError
from tuner.space.model import StudyFile
from tuner.space.space import Parameter

_LONGEST_VALUE = 60


def describe(file: StudyFile, recorded: Recorded | None = None) -> dict[str, Any]:
    """Everything that ``check`` prints, as plain values; keys are public API. SpaceError where a package that a
    configuration needs is not installed.
    """
    size = size_of(file.space)
    refuse_what_is_not_installed(file, size)
    return {
        "schema_version": 1,
        "study": file.name,
        "file": str(file.path),
        "workload": str(file.workload["kind"]),
        "parameters": file.space.describe()["parameters"],
        "rules": [rule.text for rule in file.space.rules],
        "size": {
            "before_rules": size.before,
            "after_rules": size.after,
            "valid_share": size.share,
            "rejected": size.rejected,
            "continuous": size.continuous,
            "useless": size.useless,
        },
        "baseline": file.baseline,
        "try_first": list(file.try_first),
        "objectives": [{"metric": o.metric, "direction": str(o.direction)} for o in file.objectives],
        "limits": [c.formula for c in file.constraints],
        "budget": {
            "trials": file.budget.trials,
            "wall_time_s": file.budget.wall_time_s,
            "trial_timeout_s": file.budget.trial_timeout_s,
        },
        "runs": (planned := _planned_runs(file, size)),
        "confirm_at_most": _most_to_confirm(file, planned),
        "time": _expected_time(file, size, recorded),
        "records": None
        if recorded is None
        else {
            "location": recorded.location,
            "trials": recorded.trials,
            "differences": list(recorded.differences),
        },
        "warnings": list(file.warnings),
    }


def refuse_what_is_not_installed(file: StudyFile, size: Size | None = None) -> None:
    """SpaceError naming the command that installs it, at the parameter whose value needs it."""
    size = size_of(file.space) if size is None else size
    if size.not_installed:
        lines = {reason: file.space.by_name.get(name) for reason, name in size.not_installed.items()}
        raise SpaceError(
            Problem(str(file.path), parameter.line if parameter else None, reason)
            for reason, parameter in lines.items()
        )


def _planned_runs(file: StudyFile, size: Size) -> dict[str, int]:
    confirm, trials = file.confirm, file.budget.trials
    if size.after is not None and not size.continuous:
        trials = min(trials, size.after)
    confirmed, _ = confirm_runs(confirm, trials, has_limits=bool(file.constraints))
    return {"baseline": 1 + confirm.baseline_repeats, "search": max(trials - 1, 0), "confirm": confirmed}


def _most_to_confirm(file: StudyFile, planned: dict[str, int]) -> int:
    """Where finalists fall and are replaced, and limits stay undecided."""
    return confirm_runs(file.confirm, planned["search"] + 1, has_limits=bool(file.constraints))[1]


def _expected_time(file: StudyFile, size: Size, recorded: Recorded | None) -> dict[str, Any]:
    """``mean_run_s`` as recorded (None before the first run), ``expected_s`` of what is left to run."""
    mean_s = recorded.mean_s if recorded else None
    if recorded is None or mean_s is None or recorded.differences:
        return {"mean_run_s": mean_s, "expected_s": None}
    planned = _planned_runs(file, size)
    left = sum(max(count - recorded.done[stage], 0) for stage, count in planned.items())
    expected_s = left * mean_s / file.search.concurrent_trials
    return {"mean_run_s": mean_s, "expected_s": min(expected_s, file.budget.wall_time_s or expected_s)}


def outline_of(file: StudyFile, outline: dict[str, Any]) -> str:
    """What a person reads of ``describe``."""
    width = max((len(p.name) for p in file.space.parameters), default=0)
    lines = [f"study       {file.name}  ({file.path})", "parameters"]
    lines += [f"  {p.name:<{width}}  {shown_domain(p)}" for p in file.space.parameters]
    lines += _size_lines(outline)
    lines.append("objectives  " + ", ".join(f"{o.direction} {o.metric}" for o in file.objectives))
    lines += [f"limit       {formula}" for formula in outline["limits"]]
    lines.append("baseline    " + shown_config(file.baseline))
    lines += [f"try first   {_shown_changes(config, file)}" for config in file.try_first]
    lines.append(f"time        {_time_line(file, outline)}")
    lines += _records_lines(outline)
    screen = terminal_width()
    return "\n".join(fitted(line, screen, indent=12) for line in lines)


def _shown_changes(config: dict[str, Any], file: StudyFile) -> str:
    """What a configuration changes in the baseline; all of it where only the active parameters differ."""
    changed = [
        name for name, value in config.items() if shown_value(file.baseline.get(name)) != shown_value(value)
    ]
    return shown_config(config, changed or None)


def _size_lines(outline: dict[str, Any]) -> list[str]:
    size = outline["size"]
    times = "".join(f" x any {name}" for name in size["continuous"])
    before = "too many to count" if size["before_rules"] is None else f"{size['before_rules']:,}{times}"
    if not outline["rules"] and not size["rejected"] and size["valid_share"] in (None, 1.0):
        return [f"size        {before} configurations, no rule rejects any"]
    if size["after_rules"] is None:
        return [
            f"size        {before} before rules, about {size['valid_share']:.0%} of them after (a sample)"
        ]
    rejected = [f"  {count:,} rejected by: {rule}" for rule, count in size["rejected"].items()]
    useless = [f"  never valid: {name}={_listed(values)}" for name, values in size["useless"].items()]
    return [f"size        {before} before rules, {size['after_rules']:,}{times} after", *rejected, *useless]


def _listed(values: list[Any]) -> str:
    return _cut(", ".join(map(shown_value, values)))


def _time_line(file: StudyFile, outline: dict[str, Any]) -> str:
    runs, time, budget = outline["runs"], outline["time"], file.budget
    most, total = outline["confirm_at_most"], sum(runs.values())
    more = most - runs["confirm"]
    to_confirm = f"{runs['confirm']} to {most}" if more else f"{most}"
    text = (
        f"about {f'{total:,} to {total + more:,} runs' if more else plural(total, 'run')} "
        f"({runs['baseline']} of the baseline, {runs['search']} to search, {to_confirm} to confirm)"
    )
    if time["expected_s"] == 0:
        return f"{text}; all of them are done (tuner run --more N adds trials)"
    if time["expected_s"] is not None:
        pace, left = shown_duration(time["mean_run_s"]), shown_duration(time["expected_s"])
        text += f"; {pace} a run so far, so about {left} to go"
    else:
        text += "; the first ones will tell how long they take"
    if budget.wall_time_s is not None:
        return f"{text}; never more than {shown_duration(budget.wall_time_s)} in all (budget.wall_time)"
    return f"{text}; each is ended after {shown_duration(budget.trial_timeout_s)} (budget.trial_timeout)"


def _records_lines(outline: dict[str, Any]) -> list[str]:
    found = outline["records"]
    if found is None:
        return []
    lines = [f"records     {plural(found['trials'], 'trial')} of this study in {found['location']}"]
    if found["differences"]:
        lines.append("  the file says something else than they do; tuner run wants --new-space:")
        lines += [f"  {line}" for line in found["differences"]]
    return lines


def shown_domain(parameter: Parameter) -> str:
    """The values of a parameter, with how many there are, and when it is active."""
    domain = parameter.domain
    if isinstance(domain, Choices):
        text = f"{', '.join(map(_shown_choice, domain.choices))}  ({len(domain.choices)})"
    elif isinstance(domain, Range):
        text = _shown_range(domain)
    elif isinstance(domain, Fixed):
        text = f"{_cut(shown_value(domain.value))}  (fixed)"
    else:
        text = f"= {domain.expression.text}"
    return text if parameter.when is None else f"{text}  when {parameter.when.text}"


def _shown_range(domain: Range) -> str:
    low, high = (shown_value((int if domain.is_integer else float)(end)) for end in (domain.low, domain.high))
    scale = "" if domain.scale == "linear" else f", {domain.scale} scale"
    step = "" if domain.step is None else f", step {domain.step:g}"
    count = domain.count()
    return f"{low} to {high}{step}{scale}  ({'continuous' if count is None else count})"


def _shown_choice(choice: Choice) -> str:
    label, value = shown_value(choice.label), shown_value(choice.value)
    return label if label == value else f"{label} = {_cut(value)}"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."
