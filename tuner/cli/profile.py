"""What ``tuner run --profile-only`` prints: where the time of a step goes, and what to search first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from trials.contract import Measurement
from tuner.cli.console import echo
from tuner.cli.errors import CliError, ExitCode
from tuner.profiling import ProfileError, profile_baseline
from tuner.space.model import StudyFile

_WORDS = {
    "compute_pct": "matrix products, convolutions, attention",
    "memory_bound_pct": "all other operations",
    "communication_pct": "waiting for other processes",
    "data_wait_pct": "waiting for the loader",
    "host_pct": "Python and launching, nothing running",
}


def profile_file(file: StudyFile, *, as_json: bool) -> int:
    """Measure and profile the baseline of a checked file; returns the exit code."""
    try:
        found = profile_baseline(file, Path.cwd())
    except ProfileError as problem:
        raise CliError(str(problem), ExitCode.STUDY_FAILED) from problem
    if "breakdown" not in found.facts:
        raise CliError(
            f"--profile-only: a workload of kind {file.workload['kind']} cannot be looked into; use kind: training",
            ExitCode.STUDY_FAILED,
        )
    if as_json:
        click.echo(json.dumps(_plain(file, found), indent=2))
    else:
        echo(_text(file, found))
    return ExitCode.DONE


def _plain(file: StudyFile, run: Measurement) -> dict[str, Any]:
    facts = run.facts
    return {
        "schema_version": 1,
        "study": file.name,
        "step_time_p50_ms": run.metrics["step_time_p50_ms"].value,
        "breakdown": dict(facts["breakdown"]),
        "bottleneck": facts["bottleneck"],
        "knobs_to_search": list(facts["knobs_to_search"]),
        "knobs_in_the_space": _in_space(file, facts["knobs_to_search"]),
        "contaminated": facts.get("contaminated"),
    }


def _text(file: StudyFile, run: Measurement) -> str:
    plain = _plain(file, run)
    lines = [f"{file.name}: where a step of the baseline goes ({plain['step_time_p50_ms']:.4g} ms)", ""]
    for key, share in sorted(plain["breakdown"].items(), key=lambda item: -item[1]):
        lines.append(f"{share:6.1f}%  {key.removesuffix('_pct').replace('_', ' '):<14} {_WORDS[key]}")
    searched = plain["knobs_in_the_space"]
    missing = [knob for knob in plain["knobs_to_search"] if knob not in searched]
    lines += ["", f"bottleneck: {plain['bottleneck'].replace('_', ' ')}"]
    lines.append(f"searched already: {', '.join(searched) or 'nothing that helps against it'}")
    if missing:
        lines.append(f"worth adding: {', '.join(missing)}")
    if plain["contaminated"]:
        lines.append(f"warning: {plain['contaminated']}")
    return "\n".join(lines)


def _in_space(file: StudyFile, knobs: list[str]) -> list[str]:
    searched = {parameter.name for parameter in file.space.parameters if parameter.is_searched}
    return [knob for knob in knobs if knob in searched]
