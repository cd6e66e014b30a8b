from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from dashboards.report import failure_groups, report_html, verdict
from tests.unit.tracking import example
from trials.contract import LOG_FILE, Purpose
from tuner.comparison import Difference
from tuner.records.rows import StudyRecord
from tuner.results import StudyResult, judge

SCRIPT = "<script>alert('x')</script>"


@pytest.fixture(scope="module")
def result() -> StudyResult:
    return judge(example.study())


@pytest.fixture(scope="module")
def page(result: StudyResult) -> str:
    return report_html(result.record, result)


def text_of(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page))


def test_the_headline_is_the_recommended_trial_with_its_gain_and_interval(
    result: StudyResult, page: str
) -> None:
    best = result.recommended
    assert best is not None
    assert f"Use trial {best.trial}" in text_of(page) and best.reason in text_of(page)
    assert re.search(r"x2\.11 \([\d.]+ to [\d.]+\) tokens_per_s against the baseline: better", text_of(page))


def test_the_front_is_a_table_with_half_intervals(result: StudyResult, page: str) -> None:
    for number in result.front:
        assert f"<td>{number}</td>" in page
    assert "24,892 ± " in page


def test_limits_show_their_number_and_verdict(page: str) -> None:
    assert re.search(r"val_loss_nats &lt;= baseline \+ 0\.05 2\.36 [\d.]+ met", text_of(page))


def test_failures_are_grouped_by_kind_with_the_end_of_the_first_log(tmp_path: Path) -> None:
    (tmp_path / LOG_FILE).write_text(
        "\n".join(f"line {number}" for number in range(100)) + "\nout of <memory>"
    )
    trials = example.usual_trials()
    trials[3] = replace(trials[3], measurements=(replace(trials[3].measurements[0], log_dir=str(tmp_path)),))
    result = judge(example.study(trials))
    groups = failure_groups(result)
    assert [(group.kind, [trial.number for trial in group.trials]) for group in groups] == [
        ("out_of_memory", [3, 10]), ("timeout", [8]), ("non_finite", [11])
    ]  # fmt: skip
    assert groups[0].log_lines.splitlines()[-2:] == ["line 99", "out of <memory>"]
    assert "out of &lt;memory&gt;" in report_html(result.record, result)


def test_nothing_of_the_users_becomes_markup(result: StudyResult) -> None:
    trials = example.usual_trials()
    trials[1] = replace(trials[1], config={**trials[1].config, "precision": SCRIPT, SCRIPT: SCRIPT})
    record = example.study(
        trials, name=SCRIPT, file_text=SCRIPT, stopped_because=SCRIPT, rejected={SCRIPT: 1}
    )
    page = report_html(record, judge(record))
    assert "<script" not in page


def test_the_page_needs_no_network_and_no_script(page: str) -> None:
    assert "http://" not in page and "https://" not in page
    assert "<script" not in page and "<link" not in page


def test_it_says_how_to_get_the_numbers_again(page: str) -> None:
    for words in (
        "tuner export lm-training -o best.yaml",
        "tuner verify best.yaml",
        "python -m trials ",
        "Example CPU",
    ):
        assert words in page


def test_where_nothing_is_feasible_the_nearest_miss_is_named() -> None:
    base = example.usual_trials()[0]
    trials = [base, example.trial(1, [example.run(1, example.numbers(2e4, 2.5))])]
    record: StudyRecord = example.study(trials)
    tight = tuple(replace(bound, value=1.0) for bound in record.bounds or ())
    record = replace(record, bounds=tight)
    page = text_of(report_html(record, judge(record)))
    assert "No trial meets every limit" in page and "Nearest: trial" in page


def test_a_study_without_trials_says_so() -> None:
    record = example.study([], bounds=None, reference_point=None, stopped_because=None)
    assert "No trial has been run yet" in report_html(record, judge(record))


@pytest.mark.parametrize(
    ("metric", "low", "high", "expected"),
    [
        ("tokens_per_s", 1.9, 2.3, "better"),
        ("tokens_per_s", 0.7, 0.8, "worse"),
        ("tokens_per_s", 0.9, 1.1, "within the noise"),
        ("val_loss_nats", 1.01, 1.02, "worse"),
        ("val_loss_nats", 0.97, 0.98, "better"),
    ],
)
def test_a_gain_is_judged_by_its_interval_and_the_better_direction(
    metric: str, low: float, high: float, expected: str, result: StudyResult
) -> None:
    assert verdict(Difference((low + high) / 2, low, high, True, "made up"), metric, result) == expected


def test_a_kept_baseline_is_the_headline_with_the_nearest_trials() -> None:
    base = example.usual_trials()[0]
    values = [example.numbers(11_800 * k, 2.31 * k) for k in (0.997, 1.005, 1.0)]
    alike = [example.run(1, row, Purpose.CONFIRM, i) for i, row in enumerate(values)]
    result = judge(example.study([base, example.trial(1, alike, precision="bf16")]))
    page = text_of(report_html(result.record, result))
    assert "Keep what you run: nothing better is certain" in page
    assert "Nearest: trial 1 (bf16): tokens_per_s within noise" in page


def test_a_limited_metric_that_is_no_objective_has_a_column_with_its_verdict(page: str) -> None:
    assert "peak_memory_gib (limit)" in text_of(page)
    assert re.search(r"± [\d.]+ GiB met", text_of(page))
