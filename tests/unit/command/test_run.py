"""Real programs as trials: how each ends, and what is kept of it."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.unit.command.conftest import MakeSpec, RunCommand
from trials.context import TrialContext
from trials.contract import EVENTS_FILE, RESULT_FILE, SPEC_FILE, FailureKind, Measurement, Outcome
from trials.runner import run

REPOSITORY = Path(__file__).parents[3]


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def shell(script: str, **section: Any) -> dict[str, Any]:
    return {"run": script, "shell": True, **section}


def in_fresh_process(spec_json: str, folder: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    (folder / SPEC_FILE).write_text(spec_json)
    command = [sys.executable, "-m", "trials", str(folder / SPEC_FILE)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, **options)


def test_a_program_that_does_nothing_gives_its_time_and_memory(run_command: RunCommand) -> None:
    measurement = run_command({"run": ["true"]}, wanted=("wall_time_s", "peak_rss_gib", "peak_memory_gib"))
    assert measurement.outcome is Outcome.COMPLETE
    assert 0 < measurement.metrics["wall_time_s"].value < 30
    assert measurement.metrics["wall_time_s"].unit == "s"
    assert measurement.metrics["peak_rss_gib"].flags == ("upper_bound",)  # smaller than its launcher
    assert measurement.proof["arguments"] == ["true"]
    assert measurement.environment["cpu_model"]
    assert {"startup_s", "measured_s"} <= measurement.phases.keys()


def test_output_without_end_is_looked_through_to_its_last_line_and_the_log_stops_at_its_cap(
    make_spec: MakeSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trials.command.process.LONGEST_LOG_BYTES", 2**20)
    log = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    code = (
        "print('x' * 2**16 + chr(10), end='') or [print('y' * 2**16) for _ in range(40)]; print('f1 = 0.5')"
    )
    stdout = os.dup(1)
    os.dup2(log, 1)
    try:
        context = TrialContext(
            make_spec({"run": python(code), "metrics": {"patterns": {"f1": "f1 = (.*)"}}}, wanted=("f1",)),
            time.monotonic(),
        )
        measurement = run(context)
        context.close()
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)
        os.close(log)
    assert measurement.metrics["f1"].value == 0.5
    assert (tmp_path / "log").stat().st_size == 2**20
    assert any("not all in the log: more than 1 MiB" in warning for warning in measurement.warnings)


def test_with_a_gpu_the_peak_of_device_memory_is_not_made_up(run_command: RunCommand) -> None:
    measurement = run_command({"run": ["true"]}, gpus=("0",), wanted=("peak_memory_gib",))
    assert measurement.failure_kind is FailureKind.MISSING_METRIC
    assert "did you mean peak_rss_gib?" in measurement.message


def test_the_clock_is_around_the_program_only(run_command: RunCommand) -> None:
    measurement = run_command({"run": ["sleep", "0.2"]})
    assert 0.2 <= measurement.metrics["wall_time_s"].value <= measurement.phases["measured_s"]


def test_a_metrics_file_in_the_trials_folder_is_read(run_command: RunCommand) -> None:
    script = 'echo \'{"eval": {"f1": 0.5}, "x": {batch_size}}\' > {trial_dir}/m.json'
    for path in ("m.json", "{trial_dir}/m.json"):
        measurement = run_command(
            shell(script, metrics={"file": path}), config={"batch_size": 8}, wanted=("eval.f1",)
        )
        assert measurement.outcome is Outcome.COMPLETE
        assert measurement.metrics["eval.f1"].value == 0.5
        assert measurement.metrics["x"].value == 8


def test_patterns_are_looked_for_in_stdout_and_stderr(run_command: RunCommand) -> None:
    section = shell(
        "echo loss=3; echo loss=1 >&2; echo loss=2; echo speed: 7.5 MB/s",
        metrics={
            "patterns": {"loss": {"pattern": r"loss=(\d)", "pick": "min"}, "speed_mb_per_s": r"([\d.]+) MB/s"}
        },
    )
    metrics = run_command(section, wanted=("loss",)).metrics
    assert (metrics["loss"].value, metrics["loss"].n) == (1.0, 3)
    assert metrics["speed_mb_per_s"].value == 7.5


def test_the_output_is_passed_on_in_order(run_command: RunCommand, capfd: pytest.CaptureFixture[str]) -> None:
    run_command(shell("echo one; echo two >&2; echo three"))
    assert capfd.readouterr().out == "one\ntwo\nthree\n"


def test_a_program_that_prints_error_and_is_fine_is_complete(run_command: RunCommand) -> None:
    measurement = run_command(shell("echo 'ERROR: fatal error, Traceback, out of memory' >&2"))
    assert measurement.outcome is Outcome.COMPLETE


def test_an_exit_status_is_a_crash_with_the_end_of_the_output(run_command: RunCommand) -> None:
    measurement = run_command(shell("echo begin; echo 'no such option: --x' >&2; exit 9"))
    assert (measurement.outcome, measurement.failure_kind) == (Outcome.FAILED, FailureKind.CRASH)
    assert "exit status 9" in measurement.message
    assert "no such option: --x" in measurement.message


def test_metrics_of_a_program_that_fails_are_facts_only(run_command: RunCommand) -> None:
    section = shell("echo '{\"f1\": 1}' > {trial_dir}/m.json; exit 1", metrics={"file": "m.json"})
    measurement = run_command(section, wanted=("f1",))
    assert measurement.failure_kind is FailureKind.CRASH
    assert measurement.metrics == {}
    assert measurement.facts["metrics_before_failure"]["f1"] == 1.0


@pytest.mark.parametrize(
    ("sent", "kind"),
    [
        (signal.SIGKILL, FailureKind.KILLED),
        (signal.SIGTERM, FailureKind.KILLED),
        (signal.SIGSEGV, FailureKind.CRASH),
        (signal.SIGABRT, FailureKind.CRASH),
    ],
)
@pytest.mark.parametrize("is_inside_a_shell", [False, True])
def test_a_signal_from_outside_is_killed_and_a_fault_of_its_own_a_crash(
    run_command: RunCommand, sent: signal.Signals, kind: FailureKind, is_inside_a_shell: bool
) -> None:
    script = f"sh -c 'ulimit -c 0; kill -{sent.value} $$'"
    section = (
        shell(f"{script}; exit $?")
        if is_inside_a_shell
        else {"run": ["sh", "-c", f"ulimit -c 0; kill -{sent.value} $$"]}
    )
    measurement = run_command(section)
    assert measurement.failure_kind is kind
    assert sent.name in measurement.message


def test_a_status_above_128_without_a_shell_is_a_status(run_command: RunCommand) -> None:
    measurement = run_command({"run": ["sh", "-c", "exit 137"]})
    assert measurement.failure_kind is FailureKind.CRASH
    assert "exit status 137" in measurement.message


@pytest.mark.parametrize("text", ["", "{", '{"f1": 0.5', "\\0\\377", '{"f2": 1}', '{"f1": "high"}', "[0.5]"])
def test_garbage_in_the_metrics_file_is_a_missing_metric(run_command: RunCommand, text: str) -> None:
    section = {
        "run": ["sh", "-c", f"printf '{text}' > m.json"],
        "working_directory": "{trial_dir}",
        "metrics": {"file": "m.json"},
    }
    measurement = run_command(section, wanted=("f1", "wall_time_s"))
    assert measurement.failure_kind is FailureKind.MISSING_METRIC
    assert "f1" in measurement.message
    assert "wall_time_s" in measurement.message  # what did come
    assert measurement.facts["metrics_before_failure"]["wall_time_s"] > 0


def test_numbers_that_are_not_finite_are_left_to_the_study(run_command: RunCommand) -> None:
    section = shell(
        "echo f1=nan; echo loss=inf", metrics={"patterns": {"f1": r"f1=(\w+)", "loss": r"loss=(\w+)"}}
    )
    measurement = run_command(section, wanted=("f1", "loss"))
    assert measurement.outcome is Outcome.COMPLETE
    assert math.isnan(measurement.metrics["f1"].value)
    assert measurement.metrics["loss"].value == math.inf


def test_a_file_left_by_an_earlier_run_is_not_taken_for_a_result(run_command: RunCommand) -> None:
    writes = shell("echo '{\"f1\": 1}' > {trial_dir}/m.json", metrics={"file": "m.json"})
    silent = {"run": ["true"], "metrics": {"file": "m.json"}}
    assert run_command(writes, wanted=("f1",)).outcome is Outcome.COMPLETE
    assert run_command(silent, wanted=("f1",)).failure_kind is FailureKind.MISSING_METRIC


def test_a_source_that_nobody_judges_by_is_a_warning(run_command: RunCommand) -> None:
    measurement = run_command({"run": ["true"], "metrics": {"file": "m.json"}}, wanted=("wall_time_s",))
    assert measurement.outcome is Outcome.COMPLETE
    assert "was not written" in measurement.warnings[0]


def test_the_programs_own_number_wins_over_the_clock(run_command: RunCommand) -> None:
    section = shell("echo wall=42", metrics={"patterns": {"wall_time_s": r"wall=(\d+)"}})
    assert run_command(section).metrics["wall_time_s"].value == 42


def test_every_parameter_is_an_environment_variable_too(run_command: RunCommand) -> None:
    section = shell(
        'echo "lr=$TUNER_TASK__LR threads=$OMP_NUM_THREADS mode=$MODE none=${TUNER_NONE-unset}"',
        env={"MODE": "m{task.lr}"},
        metrics={
            "patterns": {
                "lr": r"lr=(\S+)",
                "threads": r"threads=(\d)",
                "mode": r"mode=m(\S+)",
                "unset": "none=unset()",
            }
        },
    )
    measurement = run_command(section, config={"task.lr": 0.25, "env.OMP_NUM_THREADS": 2, "none": None})
    assert {key: measurement.metrics[key].value for key in ("lr", "threads", "mode")} == {
        "lr": 0.25,
        "threads": 2,
        "mode": 0.25,
    }


def test_a_group_goes_with_its_null_parameter(run_command: RunCommand) -> None:
    section = {"run": ["echo", ["--level", "{level}"], "{mode}", "end"]}
    assert run_command(section, config={"level": None, "mode": ""}).proof["arguments"] == ["echo", "end"]
    assert run_command(section, config={"level": 3, "mode": "-x"}).proof["arguments"] == [
        "echo",
        "--level",
        "3",
        "-x",
        "end",
    ]


def test_a_run_list_of_which_nothing_is_left_cannot_start(run_command: RunCommand) -> None:
    measurement = run_command({"run": ["{engine}"]}, config={"engine": None})
    assert measurement.failure_kind is FailureKind.ENGINE_START


def test_a_value_in_a_shell_script_is_one_word(run_command: RunCommand) -> None:
    section = shell(
        "printf 'n=%s\\n' {text} | grep -c . ; echo f=$(echo {text})", metrics={"patterns": {"f": r"f=(\d+)"}}
    )
    measurement = run_command(section, config={"text": "12; exit 3"})
    assert measurement.outcome is Outcome.COMPLETE
    assert measurement.metrics["f"].value == 12


def test_a_mistyped_name_is_left_alone_and_said(run_command: RunCommand) -> None:
    measurement = run_command({"run": ["echo", "{batch_sise}", "{print}"]}, config={"batch_size": 8})
    assert measurement.proof["arguments"] == ["echo", "{batch_sise}", "{print}"]
    assert measurement.warnings == ("{batch_sise} is left as it is; did you mean {batch_size}?",)


def test_staged_files_and_folders_are_copied_into_the_trials_folder(
    run_command: RunCommand, tmp_path: Path
) -> None:
    (tmp_path / "data.txt").write_text("7\n")
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "a.txt").write_text("8\n")
    section = {
        "run": ["sh", "-c", "echo f=$(cat data.txt configs/a.txt | wc -l); rm data.txt"],
        "working_directory": "{trial_dir}",
        "stage": ["data.txt", "configs"],
        "metrics": {"patterns": {"f": r"f=\s*(\d+)"}},
    }
    assert run_command(section).metrics["f"].value == 2
    assert (tmp_path / "data.txt").read_text() == "7\n"


def test_a_secret_reaches_the_program_and_no_record(
    run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_TOKEN", "hunter2-hunter2")
    section = {
        "run": [
            "sh",
            "-c",
            'test "$1" = "$TOKEN" -a "$1" = "$API_TOKEN" && echo "got $1"; exit 1',
            "x",
            "${API_TOKEN}",
        ],
    }
    measurement = run_command(section, config={"env.TOKEN": "${API_TOKEN}"})
    assert "got ${API_TOKEN}" in measurement.message
    assert "hunter2" not in measurement.to_json()


def test_a_secret_printed_by_a_shell_script_is_hidden(
    run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_TOKEN", "hunter2-hunter2")
    measurement = run_command(shell('echo "got ${API_TOKEN} ${SHELL_ONLY}"; exit 1'))
    assert "got ${API_TOKEN}" in measurement.message
    assert "hunter2" not in measurement.to_json()


def test_a_secret_that_is_not_set_is_named(run_command: RunCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_TOKEN", raising=False)
    measurement = run_command({"run": ["echo", "${NO_SUCH_TOKEN}"]})
    assert measurement.failure_kind is FailureKind.ENGINE_START
    assert "NO_SUCH_TOKEN is not set" in measurement.message


@pytest.mark.parametrize("program", ["no-such-{name}", "./no-{name}", "{name}"])
def test_a_program_that_cannot_be_started_says_which(run_command: RunCommand, program: str) -> None:
    measurement = run_command({"run": [program]}, config={"name": "program-x"})
    assert measurement.failure_kind is FailureKind.ENGINE_START
    assert "program-x" in measurement.message


def test_a_program_is_found_on_the_path_that_it_is_given(run_command: RunCommand, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "mytool").write_text("#!/bin/sh\nexit 0\n")
    (tools / "mytool").chmod(0o755)
    section = {"run": ["{tool}"], "env": {"PATH": f"{tools}:/usr/bin:/bin"}}
    assert run_command(section, config={"tool": "mytool"}).outcome is Outcome.COMPLETE


def test_much_output_on_both_streams_neither_blocks_nor_grows(run_command: RunCommand) -> None:
    code = "import os\nfor _ in range(600): os.write(1 + _ % 2, b'o' * 65536)\nprint('\\nf1=1')"
    section = {"run": python(code), "metrics": {"patterns": {"f1": r"f1=(\d)"}}}
    assert run_command(section, wanted=("f1",)).outcome is Outcome.COMPLETE


def test_a_daemon_that_keeps_the_output_open_is_not_waited_for(
    run_command: RunCommand, tmp_path: Path
) -> None:
    begin = time.monotonic()
    measurement = run_command(
        shell("sleep 30 & echo $! > {trial_dir}/pid; echo f1=1", metrics={"patterns": {"f1": r"f1=(\d)"}})
    )
    os.kill(int((tmp_path / "trial" / "pid").read_text()), signal.SIGKILL)
    assert measurement.metrics["f1"].value == 1
    assert time.monotonic() - begin < 20


def test_a_program_that_closes_its_output_is_waited_for(run_command: RunCommand) -> None:
    measurement = run_command({"run": ["sh", "-c", "exec >&- 2>&-; sleep 0.3"]})
    assert measurement.metrics["wall_time_s"].value >= 0.3


def test_a_program_reads_no_input(run_command: RunCommand) -> None:
    assert run_command({"run": ["cat"]}).outcome is Outcome.COMPLETE


def test_signals_that_python_ignores_are_not_ignored_in_the_program(
    run_command: RunCommand, tmp_path: Path
) -> None:
    run_command(
        {"run": ["sh", "-c", "grep SigIgn /proc/self/status > ignored"], "working_directory": "{trial_dir}"}
    )
    ignored = int((tmp_path / "trial" / "ignored").read_text().split()[1], 16)
    assert not ignored & (1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1)


def test_memory_of_all_processes_together_is_seen(make_spec: MakeSpec, tmp_path: Path) -> None:
    hold = "x = bytearray(60_000_000); import time; time.sleep(2.2)"
    code = (
        f"import subprocess, sys; hold = [sys.executable, '-c', {hold!r}]; "
        "both = [subprocess.Popen(hold) for _ in 'ab']; [process.wait() for process in both]"
    )
    in_fresh_process(make_spec({"run": python(code)}).to_json(), tmp_path / "trial")
    together = Measurement.from_json((tmp_path / "trial" / RESULT_FILE).read_text()).metrics["peak_rss_gib"]
    assert 2 * 60e6 / 2**30 < together.value < 0.3
    assert together.flags == ()


def test_an_interrupted_run_leaves_no_program_behind(make_spec: MakeSpec, tmp_path: Path) -> None:
    section = shell("echo $$ > {trial_dir}/pid; exec sleep 60")
    context = TrialContext(make_spec(section), time.monotonic())
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(KeyboardInterrupt):
            run(context)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
        context.close()
    assert not Path(f"/proc/{int((tmp_path / 'trial' / 'pid').read_text())}").exists()


def test_no_descriptor_is_left_open(run_command: RunCommand) -> None:
    run_command({"run": ["true"]})
    before = len(list(Path("/proc/self/fd").iterdir()))
    run_command({"run": ["true"]})
    run_command({"run": ["no-such-{a}"]}, config={"a": 1})
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_full_disk_under_the_log_does_not_end_the_program(make_spec: MakeSpec, tmp_path: Path) -> None:
    spec = make_spec(
        shell("for i in 1 2 3; do echo f1=$i; done", metrics={"patterns": {"f1": r"f1=(\d)"}}), wanted=("f1",)
    )
    (tmp_path / "trial" / SPEC_FILE).write_text(spec.to_json())
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "trials", str(tmp_path / "trial" / SPEC_FILE)],
            stdout=full,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            check=False,
        )
    measurement = Measurement.from_json((tmp_path / "trial" / RESULT_FILE).read_text())
    assert ended.returncode == 0
    assert measurement.metrics["f1"].value == 3
    assert "No space left" in measurement.warnings[0]


def test_one_command_debugs_a_trial(make_spec: MakeSpec, tmp_path: Path) -> None:
    spec = make_spec(shell("echo hello; pwd; exit {status}"), config={"status": 3})
    ended = in_fresh_process(spec.to_json(), tmp_path / "trial")
    assert ended.returncode == 1
    assert ended.stdout.splitlines() == ["hello", str(tmp_path)]
    assert "exit status 3" in ended.stderr
    measurement = Measurement.from_json((tmp_path / "trial" / RESULT_FILE).read_text())
    assert measurement.failure_kind is FailureKind.CRASH
    events = [json.loads(line) for line in (tmp_path / "trial" / EVENTS_FILE).read_text().splitlines()]
    assert [event["name"] for event in events if event["event"] == "phase"] == ["startup_s", "measured_s"]


def test_a_trial_of_a_program_imports_nothing_that_it_does_not_need(
    make_spec: MakeSpec, tmp_path: Path
) -> None:
    spec = make_spec({"run": ["true"]})
    (tmp_path / "trial" / SPEC_FILE).write_text(spec.to_json())
    code = (
        "import sys, time; from trials.runner import main; before = set(sys.modules); "
        f"main([{str(tmp_path / 'trial' / SPEC_FILE)!r}], time.monotonic()); "
        "heavy = {'shutil', 'threading', 'difflib', 'importlib.metadata', 'numpy', 'torch', 'yaml'}; "
        "print(sorted(heavy & (set(sys.modules) - before)))"
    )
    ended = subprocess.run(python(code), capture_output=True, text=True, cwd=REPOSITORY, check=True)
    assert ended.stdout.strip() == "[]"


# Cases that happened to users of other tools, named by where they were reported.


def test_case_huggingface_transformers_27830_an_argument_mismatch_shows_the_programs_own_words(
    run_command: RunCommand,
) -> None:
    """Every trial dies of one flag that the script does not take: its own words are the message."""
    code = "import argparse; p = argparse.ArgumentParser(); p.add_argument('--bs'); p.parse_args()"
    section = {"run": [*python(code), "--batch-size", "{batch_size}"]}
    first, second = (run_command(section, config={"batch_size": size}) for size in (8, 8))
    assert first.failure_kind is FailureKind.CRASH
    assert "unrecognized arguments: --batch-size 8" in first.message
    assert first.message == second.message


def test_case_ray_project_ray_optuna_search_py_error_after_a_report_the_exit_status_decides(
    run_command: RunCommand,
) -> None:
    section = shell(
        "echo '{\"throughput\": 10}' > {trial_dir}/m.json; kill -9 $$", metrics={"file": "m.json"}
    )
    measurement = run_command(section, wanted=("throughput",))
    assert measurement.failure_kind is FailureKind.KILLED
    assert measurement.metrics == {}
    assert measurement.facts["metrics_before_failure"]["throughput"] == 10


def test_case_ray_project_ray_optuna_search_py_missing_metric_lists_what_did_come(
    run_command: RunCommand,
) -> None:
    section = shell("echo '{\"throughput\": 10}' > {trial_dir}/m.json", metrics={"file": "m.json"})
    measurement = run_command(section, wanted=("throughput", "throughputs_mean", "accuracy"))
    assert measurement.failure_kind is FailureKind.MISSING_METRIC
    assert "accuracy was not reported" in measurement.message
    assert "did you mean throughput?" in measurement.message
