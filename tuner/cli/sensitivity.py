"""``tuner check --sensitivity``: which layers lose most when they alone are quantised."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from trials.contract import EVENTS_FILE, LOG_FILE, Measurement, Outcome, Purpose
from tuner.cli.console import echo
from tuner.cli.errors import CliError, ExitCode
from tuner.cli.table import table, terminal_width
from tuner.space.model import StudyFile

PROGRAM = "trials.inference.sensitivity"
KIND = "inference"
_SHOWN_CANDIDATES = 3


def show_sensitivity(file: StudyFile, precision: str, as_json: bool) -> int:
    """Rank the layers of the baseline in this precision, and print the ranking; returns the exit code."""
    config = {**file.space.resolve(file.baseline), "precision": precision}
    config.pop("keep_high_precision", None)
    _refuse_what_cannot_run(file, config)
    facts = _measured(file, config).facts
    if as_json:
        click.echo(json.dumps(_plain(facts), indent=2))
    else:
        echo(_page(facts, precision))
    return ExitCode.DONE


def _refuse_what_cannot_run(file: StudyFile, config: Mapping[str, Any]) -> None:
    from trials.inference.engine import QUANTISED_PRECISIONS
    from trials.workloads import workload

    kind = str(file.workload["kind"])
    if kind != KIND:
        raise CliError(
            f"--sensitivity ranks the layers of a model that is served; {file.path} is of kind {kind}"
        )
    knob = workload(kind).knobs(file.workload)["precision"]
    wrong = knob.problem(config["precision"])
    if wrong:
        raise CliError(f"--sensitivity {config['precision']}: {wrong}")
    if config["precision"] not in QUANTISED_PRECISIONS:
        raise CliError(
            f"--sensitivity {config['precision']}: quantises no layer; use {', '.join(QUANTISED_PRECISIONS)}"
        )
    problem = workload(kind).rejection(file.workload, config, file.space.world)
    if problem:
        way_out = f"; {problem.way_out}" if problem.way_out else ""
        raise CliError(f"--sensitivity {config['precision']}: {problem.message}{way_out}")


def _measured(file: StudyFile, config: Mapping[str, Any]) -> Measurement:
    from tuner.aside import run_aside
    from tuner.execution.protocol import ExecutionError
    from tuner.launch import slots_of
    from tuner.loop.tickets import Ticket, trial_spec

    folder = Path(tempfile.mkdtemp(prefix="tuner-sensitivity-"))
    ticket = Ticket(0, Purpose.BASELINE, file.search.seed)
    spec = trial_spec(file, ticket, file.baseline, "sensitivity", folder / "trial")
    spec = replace(spec, config=dict(config), timeout_s=None, wanted=())  # nothing is judged
    echo(f"ranking layers; progress: {spec.trial_dir / EVENTS_FILE}", err=True)
    try:
        measurement = run_aside(PROGRAM, spec, replace(slots_of(file), count=1))
    except BaseException as problem:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(problem, ExecutionError):
            raise CliError(str(problem), ExitCode.STUDY_FAILED) from problem
        raise
    if measurement.outcome is not Outcome.COMPLETE:
        raise CliError(
            f"{measurement.failure_kind}: {measurement.message}; log: {spec.trial_dir / LOG_FILE}",
            ExitCode.STUDY_FAILED,
        )
    shutil.rmtree(folder, ignore_errors=True)
    return measurement


def _page(facts: Mapping[str, Any], precision: str) -> str:
    metric, layers = facts["metric"], facts["layers"]
    rows = [
        [
            layer["layer"],
            f"{float(layer['quality_lost']):+.4g}",  # an infinity comes as the word inf
            f"{float(layer['quality_lost_low']):+.2g} to {float(layer['quality_lost_high']):+.2g}",
            f"{float(layer['output_error']):.3g}",
        ]
        for layer in layers
    ]
    decided = sum(layer["is_decided"] for layer in layers)
    worst = [layer["layer"] for layer in layers][:_SHOWN_CANDIDATES]
    choices = {"none": None, **{f"worst_{n + 1}": worst[: n + 1] for n in range(len(worst))}}
    said = ", ".join(f"{label}: {json.dumps(value)}" for label, value in choices.items())
    return "\n".join(
        [
            table(rows, ["quantised alone", f"{metric} lost", "interval", "output error"], terminal_width()),
            f"{metric} of float32: {facts['reference_quality']:.4g} on {facts['examples']} examples",
            f"a loss is certain for {decided} of {len(layers)} layers; the others are in order of output error",
            "to search which layers are worth keeping, add to parameters:",
            f"  keep_high_precision: {{choices: {{{said}}}, when: \"precision == '{precision}'\"}}",
        ]
    )


def _plain(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Keys are public API; a layer whose outputs were not finite has null."""
    layers = [
        {key: None if value == "inf" else value for key, value in layer.items()} for layer in facts["layers"]
    ]
    known = {key: facts[key] for key in ("metric", "reference_quality", "examples")}
    return {"schema_version": 1, **known, "layers": layers}
