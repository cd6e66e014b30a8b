"""The files that a study's MLflow run shows: here alone dashboards are handed to tracking."""

from __future__ import annotations

import json

from dashboards.plots import front_html, front_png
from dashboards.report import report_html
from tuner.records.rows import StudyRecord
from tuner.results import StudyResult, as_json


def study_artifacts(record: StudyRecord, result: StudyResult) -> dict[str, str | bytes]:
    """File name -> content."""
    plain = as_json(result)
    png = front_png(result)
    front = [trial for trial in plain["trials"] if trial["on_front"]]
    return {
        "pareto_front.html": front_html(result),
        "pareto_front.png": png,
        "pareto_front.json": json.dumps(front, indent=1),
        "report.html": report_html(record, result, png),
        "study.json": json.dumps(plain, indent=1),
        "space.yaml": record.file_text,
        "environment.json": json.dumps(_environment(record), indent=1, default=str),
    }


def _environment(record: StudyRecord) -> dict[str, object]:
    runs = [run for trial in record.trials for run in trial.measurements if run.environment]
    return dict(runs[-1].environment) if runs else {}
