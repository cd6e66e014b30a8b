"""Public cases about running trials: hangs, failures in a row, retries, sharing a machine, Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from dashboards.report import report_html
from tests import builders
from tests.cases.spaces import fake, loaded, measured, says, written
from tests.faults.processes import is_running
from tests.unit.cli.conftest import Tuner
from tests.unit.cli.program import REPOSITORY, environment
from tests.unit.cli.stored import store
from tests.unit.study.bench import Bench, contaminated, failed, line, on_line, study_file
from trials.contract import FailureKind, Outcome, Purpose
from tuner.cli.summary import summary_of
from tuner.launch import machine_cores, slots_of
from tuner.results import as_json, judge
from tuner.tracking.views import StudyViews

FINE = {"do": "complete", "value": 2.0}


def on_search(spec, nth, what):
    return on_line(spec, nth) if spec.trial_number == 0 else what


def test_deepspeedai_deepspeed_4100_a_trial_that_hangs_is_ended_with_its_processes_and_the_next_starts() -> (
    None
):
    file = fake(
        {"do": "hang"}, {"do": "complete", "value": 3.0}, baseline=FINE, budget={"trial_timeout": "2 s"}
    )
    ending, record = measured(file)
    hung = record.trials[1].measurements[0]
    assert (hung.outcome, hung.failure_kind) == (Outcome.FAILED, FailureKind.TIMEOUT)
    assert "cut after 2 s; raise budget.trial_timeout" in hung.message
    assert not is_running(int((Path(hung.log_dir) / "daemon.pid").read_text()))
    assert record.trials[2].measurements[0].outcome is Outcome.COMPLETE
    assert ending.failure is None


def test_deepspeedai_deepspeed_autotuning_where_everything_runs_out_of_memory_nothing_is_lost(
    bench: Bench,
) -> None:
    """Twice: the whole study, and one whose plug is pulled after the fourth failure."""
    file = study_file(x=7, trials=7)

    def no_memory(spec, nth):
        return on_search(spec, nth, failed("out_of_memory", "out of memory: 7 GiB of 6 GiB"))

    bench.cut(file, no_memory, cut_at=3 * 3 + 3 * 4)
    on_disk = [run.failure_kind for n in range(1, 5) for run in bench.runs(n)]
    assert on_disk == [FailureKind.OUT_OF_MEMORY] * 4
    assert [run.outcome for run in bench.runs(0)] == [Outcome.COMPLETE] * 3
    ending, _ = bench.run(file, no_memory)
    assert ending.stopped_because == "budget of 7 trials is spent"
    assert ending.result is not None
    assert (ending.result.front, ending.result.failures) == ((0,), {"out_of_memory": 6})
    assert "6 failed, out_of_memory: trial 1: out of memory: 7 GiB of 6 GiB" in summary_of(ending.result)


def test_huggingface_transformers_27830_equal_failures_in_a_row_end_with_the_first_one_s_log(
    program: Tuner,
) -> None:
    written(
        says(
            {"samples_per_s": "10"},
            before="import sys\nif {x} > 1: sys.exit('unrecognized arguments: --bs {x}')",
        ),
        "parameters: {x: {min: 1, max: 20}}",
        "objectives: [samples_per_s]",
        "resources: {cpus: 1}",
        "budget: {trials: 20, failures_in_a_row: 3}",
    )
    said = program("run", "space.yaml")
    assert said.code == 1
    assert "3 equal failures in a row (crash), the first was: " in said.err
    assert "unrecognized arguments: --bs" in said.err
    counts = json.loads(program("show", "bench", "--json").out)["counts"]
    assert counts == {"complete": 1, "failed": 3}


def test_triton_inference_server_model_analyzer_697_where_nothing_was_measured_no_report_looks_like_a_result(
    tuner: Tuner,
) -> None:
    broken = builders.measurement({"tokens_per_s": 0.0}, "baseline")
    record = builders.study(
        builders.trial(0, broken, broken, config={"x": 0}),
        builders.trial(1, builders.failed("unstable", "0 requests were completed")),
        objectives=(builders.objective("tokens_per_s"),),
        is_frozen=False,
    )
    store(record)
    shown = tuner("show", "built")
    assert "nothing to recommend yet, 2 trials (2 failed)" in shown.out
    assert "2 failed, unstable: trial 0: tokens_per_s is 0: nothing was completed" in shown.out
    exported = tuner("export", "built")
    assert (exported.code, exported.out) == (3, "")
    assert "has no measured trial to export" in exported.err
    page = report_html(record, judge(record))
    assert "No trial" in page and "The front" not in page and "unstable" in page


def test_openshift_psap_auto_tuning_vllm_39_by_default_one_trial_has_the_whole_machine(bench: Bench) -> None:
    file = loaded("parameters: {x: {min: 0, max: 7}}", "budget: {trials: 8}", cpus=machine_cores(), gpus=1)
    slots = slots_of(file)
    assert (slots.count, slots.cpus, slots.gpus) == (1, machine_cores(), 1)
    ending, executor = bench.run(file)
    assert executor.most_at_once == 1
    assert ending.result is not None and ending.result.warnings == ()


def test_openshift_psap_auto_tuning_vllm_39_sharing_is_asked_for_and_marked(bench: Bench) -> None:
    ending, executor = bench.run(study_file(at_once=2))
    assert executor.most_at_once == 2 and ending.result is not None
    assert "up to 2 trials ran at once" in summary_of(ending.result)
    assert "up to 2 trials ran at once" in report_html(ending.result.record, ending.result)
    runs = as_json(ending.result)["trials"][1]["measurements"]
    assert [run["concurrent_trials"] for run in runs] == [2]


@pytest.mark.parametrize("kind", ["out_of_memory", "unsupported", "crash", "missing_metric", "non_finite"])
def test_openshift_psap_auto_tuning_vllm_97_a_failure_of_its_own_is_never_tried_again(
    bench: Bench, kind: str
) -> None:
    file = study_file(x=4, trials=4, failures_in_a_row=99)
    for _ in range(2):
        bench.run(file, lambda spec, nth: on_search(spec, nth, failed(kind)))
    assert [len(bench.runs(number)) for number in (1, 2, 3)] == [1, 1, 1]


def test_openshift_psap_auto_tuning_vllm_97_what_was_killed_is_tried_twice_and_each_is_recorded(
    bench: Bench,
) -> None:
    file = study_file(x=3, trials=3, failures_in_a_row=99)
    for _ in range(3):
        bench.run(file, lambda spec, nth: on_search(spec, nth, failed("killed")))
    assert [run.purpose for run in bench.runs(1)] == [Purpose.SEARCH, Purpose.RETRY]
    assert [run.failure_kind for run in bench.runs(1)] == [FailureKind.KILLED] * 2


def test_ray_project_ray_23971_out_of_memory_beside_foreign_memory_is_tried_once_more(bench: Bench) -> None:
    def left_over(spec, nth):
        if spec.trial_number == 1 and nth == 1:
            return contaminated(failed("out_of_memory"))
        return on_line(spec, nth)

    bench.run(study_file(x=3, trials=3), left_over)
    assert [(run.purpose, run.is_discarded) for run in bench.runs(1)] == [
        (Purpose.SEARCH, True),
        (Purpose.RETRY, False),
    ]
    assert bench.runs(1)[1].outcome is Outcome.COMPLETE


def test_ray_project_ray_23971_every_trial_is_a_process_of_its_own(program: Tuner) -> None:
    written(
        says({"pid": "__import__('os').getpid()", "parent": "__import__('os').getppid()"}),
        "parameters: {x: {min: 1, max: 3}}",
        "objectives: [{metric: parent, direction: maximize}]",
        "resources: {cpus: 1}",
        "budget: {trials: 3}",
    )
    assert program("run", "space.yaml").code == 0
    trials = json.loads(program("show", "bench", "--json").out)["trials"]
    parents = [run["metrics"]["parent"]["value"] for trial in trials for run in trial["measurements"]]
    assert len(set(parents)) == len(parents) >= 5


def test_huggingface_optimum_benchmark_energy_star_a_disturbed_measurement_is_repeated_then_marked(
    bench: Bench,
) -> None:
    def busy(spec, nth):
        return on_search(spec, nth, contaminated(line(spec.config)))

    ending, _ = bench.run(study_file(x=2, trials=2), busy)
    result = ending.result
    assert result is not None
    assert [run.is_discarded for run in bench.runs(1)] == [True, False]
    assert result.warnings == ("measurements of trial 1 were disturbed (trial 1: foreign load)",)
    assert "note: measurements of trial 1 were disturbed" in summary_of(result)
    assert as_json(result)["trials"][1]["measurements"][1]["contaminated"] == "foreign load"
    assert StudyViews(result.record).trial(result.trial(1)).tags["tuner.contaminated"] == "foreign load"
    assert "tuner.contaminated" not in StudyViews(result.record).trial(result.trial(0)).tags


STUBBORN = """
import os, signal, sys, tempfile, time
from pathlib import Path
from tests.unit.study.bench import Bench, Clock, study_file
from tuner.launch import claimed, prepare_records, run_study
from tuner.records.repository import Records

class Stubborn:
    def interrupt(self):
        os.write(1, b"asked\\n")  # print may be in the middle of itself
    def run(self, source, slots):
        source.next_job(0)
        os.write(1, b"running\\n")
        while True:
            time.sleep(0.05)

with Records.open(sys.argv[1]) as records:
    file = study_file()
    prepare_records(file, records, new_space=False)
    with claimed(records, file.name):
        run_study(file, records, Stubborn(), [])
"""


def test_triton_inference_server_model_analyzer_128_a_second_ctrl_c_ends_at_once_with_130(
    tmp_path: Path,
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", STUBBORN, str(tmp_path / "tuner.db")],
        stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=environment() | {"PYTHONPATH": str(REPOSITORY)},
    )  # fmt: skip
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "running\n"
        os.kill(process.pid, signal.SIGINT)
        assert process.stdout.readline() == "asked\n"
        time.sleep(0.2)
        assert process.poll() is None, "the first one lets what runs come to its end"
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(timeout=20) == 130
    finally:
        process.kill()
        process.communicate()


def test_triton_inference_server_model_analyzer_128_an_interrupted_trial_goes_back_to_the_queue(
    bench: Bench,
) -> None:
    def press(executor, source):
        if executor.steps == 13:
            source.interrupt()

    file = study_file(x=9, trials=5)
    ending, _ = bench.run(file, on_step=press)
    assert ending.is_interrupted
    cut = bench.record().trials[-1]
    assert cut.measurements[-1].failure_kind is FailureKind.INTERRUPTED
    _, executor = bench.run(file)
    assert executor.taken[0].trial_number == cut.number
    assert len(bench.xs()) == 5


def compile_times_checkpointing() -> list[object]:
    trials = []
    grid = [(c, a, w) for w in (0, 1, 2) for c in (False, True) for a in ("none", "full")]
    for number, (compiled, checkpointing, workers) in enumerate(grid):
        config = {"compile": compiled, "activation_checkpointing": checkpointing, "loader_workers": workers}
        if compiled and checkpointing == "full":
            run = builders.failed("unsupported", "torch.compile and checkpointing do not go together")
        else:
            run = builders.measurement({"tokens_per_s": 100.0 + number, "val_loss_nats": 2.0})
        runs = builders.repeats({"tokens_per_s": [100.0, 101.0], "val_loss_nats": [2.0, 2.0]}, "baseline")
        trials.append(builders.trial(number, *(runs if number == 0 else [run]), config=config))
    return trials


def test_pytorch_pytorch_108269_the_report_shows_the_failure_rate_of_each_pair_of_values() -> None:
    record = builders.study(*compile_times_checkpointing())  # type: ignore[arg-type]  # trials
    result = judge(record)
    assert result.failures == {"unsupported": 3}
    table = result.failure_table
    assert table is not None
    assert (table.row, table.column) == ("compile", "activation_checkpointing")
    assert (table.rows, table.columns) == (("false", "true"), ("none", "full"))
    assert table.cells == (((0, 3), (0, 3)), ((0, 3), (3, 3)))
    page = report_html(record, result)
    assert "activation_checkpointing = full" in page
    assert page.count("0 of 3") == 3 and page.count("3 of 3") == 1
    assert as_json(result)["failure_table"]["cells"] == [[[0, 3], [0, 3]], [[0, 3], [3, 3]]]


def test_pytorch_pytorch_108269_without_failures_or_without_pairs_there_is_no_table() -> None:
    trials = compile_times_checkpointing()
    for some in (trials[:3], [trials[0]]):
        assert judge(builders.study(*some)).failure_table is None  # type: ignore[arg-type]  # trials
    only_failures = [replace(trials[3], number=0)]  # type: ignore[type-var]  # a trial
    assert judge(builders.study(*only_failures, is_frozen=False)).failure_table is None  # type: ignore[arg-type]
