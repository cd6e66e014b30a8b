"""Space files of the cases, read by the real reader, and studies of them with the fake trial."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.faults.processes import FAKE_TRIAL, private_runtime
from tests.unit.study.bench import Notes
from tuner.execution.local import LocalExecutor
from tuner.launch import Ending, claimed, prepare_records, run_study
from tuner.records.repository import Records
from tuner.records.rows import StudyRecord
from tuner.space import SpaceError, StudyFile, load_study_file

SPACE_FILE = Path("space.yaml")

_REST = {
    "study": "study: bench",
    "workload": "workload: {kind: command, run: ['true'], metrics: {file: m.json}}",
    "parameters": "parameters: {x: [1, 2]}",
    "objectives": "objectives: [tokens_per_s, val_loss_nats]",
    "search": "search: {sampler: random}",
    "confirm": "confirm: {finalists: 0, baseline_repeats: 2}",
    "tracking": "tracking: {mlflow: null}",
}


def written(*lines: str) -> Path:
    """A space file in the working directory; sections that ``lines`` do not have are filled in."""
    given = {line.split(":", 1)[0] for line in "\n".join(lines).splitlines() if not line.startswith(" ")}
    rest = [line for key, line in _REST.items() if key not in given]
    SPACE_FILE.write_text("\n".join([*lines, *rest, ""]))
    return SPACE_FILE


def loaded(*lines: str, **machine: int) -> StudyFile:
    """The same, read."""
    return load_study_file(written(*lines), **machine)  # type: ignore[arg-type]  # cpus and gpus


def refused(*lines: str) -> str:
    """What is said of a file that is wrong."""
    try:
        loaded(*lines)
    except SpaceError as problem:
        return str(problem)
    raise AssertionError("the file was taken")


def says(output: Mapping[str, Any], *, before: str = "") -> str:
    """The workload section of a Python program that runs ``before`` and then prints ``NAME = EXPRESSION``."""
    code = "\n".join([before, *(f"print('{name} =', {text})" for name, text in output.items())])
    patterns = {name: rf"{name} = (\S+)" for name in output}
    section = {"kind": "command", "run": ["{python}", "-c", code], "metrics": {"patterns": patterns}}
    return yaml.safe_dump({"workload": section}, sort_keys=False).rstrip()


def fake(*choices: Mapping[str, Any], baseline: Mapping[str, Any], **sections: Any) -> StudyFile:
    """A study of ``score`` in which the fake trial does one thing a configuration, the baseline first."""
    labels = {f"c{number}": dict(choice) for number, choice in enumerate((baseline, *choices))}
    flat = yaml.safe_dump({"choices": labels}, default_flow_style=True, width=10_000).strip()
    more = [yaml.safe_dump({key: value}).rstrip() for key, value in sections.items()]
    return loaded(
        f"parameters: {{plan: {flat}}}",
        "objectives: [{metric: score, direction: maximize}]",
        "search: {sampler: grid}",
        "resources: {cpus: 1}",
        *more,
    )


def measured(file: StudyFile, notes: Notes | None = None) -> tuple[Ending, StudyRecord]:
    """Run a study of the fake trial for real: processes, guardians, classification, records."""
    with private_runtime(), Records.open("tuner.db") as records:
        prepare_records(file, records, new_space=False)
        with claimed(records, file.name):
            ending = run_study(file, records, LocalExecutor(program=FAKE_TRIAL), [notes or Notes()])
        return ending, records.study(file.name)
