"""The last line of defence: what nobody foresaw is one line, and its traceback is kept."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import click
import pytest

from tests.unit.cli.conftest import Tuner
from tests.unit.cli.program import environment
from tuner.cli.errors import CliError, ExitCode, run_and_exit


def ending_of(problem: BaseException) -> int:
    @click.command()
    def fails() -> None:
        raise problem

    with pytest.raises(SystemExit) as ending:
        run_and_exit(fails, [])
    assert isinstance(ending.value.code, int)
    return ending.value.code


def test_an_unexpected_exception_is_a_line_and_its_traceback_a_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert ending_of(TypeError("odd\nthing")) == ExitCode.STUDY_FAILED
    line = capsys.readouterr().err
    assert re.fullmatch(r"tuner: unexpected TypeError: odd thing; please report it with .*\n", line)
    found = re.search(r"traceback in (\S+) \(TUNER_DEBUG=1 prints it\)", line)
    assert found is not None
    assert "Traceback (most recent call last)" in Path(found[1]).read_text()


def test_debugging_prints_the_traceback_and_writes_no_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TUNER_DEBUG", "1")
    assert ending_of(TypeError("odd")) == ExitCode.STUDY_FAILED
    assert "Traceback (most recent call last)" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_without_room_for_a_file_the_traceback_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    assert ending_of(TypeError("odd")) == ExitCode.STUDY_FAILED
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("problem", "code", "words"),
    [
        (CliError("do that"), 2, "tuner: do that"),
        (CliError("no", ExitCode.NOTHING_FEASIBLE), 3, "tuner: no"),
        (KeyboardInterrupt(), 130, "tuner: interrupted"),
        (click.Abort(), 130, "tuner: interrupted"),
    ],
)
def test_what_was_foreseen_has_its_code(
    problem: BaseException, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ending_of(problem) == code
    assert capsys.readouterr().err == f"{words}\n"


def test_a_verb_returns_its_code(tuner: Tuner) -> None:
    assert tuner("--version").code == 0


def test_a_program_started_with_closed_streams_runs_all_the_same(tmp_path: Path) -> None:
    command = f"{shlex.quote(sys.executable)} -m tuner schema <&- >&- 2>&-"
    assert subprocess.run(["sh", "-c", command], cwd=tmp_path, check=False).returncode == 0


def ended_by(number: signal.Signals, code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A program that begins with ``code``, told to end as soon as it says that it has come so far."""
    usual = f"import signal\nsignal.signal({int(number)}, signal.{_USUAL[number]})"
    (folder / "interrupted.py").write_text(f"{usual}\n{code}")
    program = subprocess.Popen(
        [sys.executable, "-m", "interrupted"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder, env=environment(),
    )  # fmt: skip
    assert program.stdout is not None
    program.stdout.readline()
    program.send_signal(number)
    out, err = program.communicate(timeout=60)
    return subprocess.CompletedProcess(program.args, program.returncode, out, err)


_USUAL = dict.fromkeys(signal.Signals, "SIG_DFL") | {signal.SIGINT: "default_int_handler"}
_STOPS_IN_AN_IMPORT = """
import importlib.abc, sys, time
class Slow(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "click":
            print("importing", flush=True)
            time.sleep(60)
sys.meta_path.insert(0, Slow())
sys.argv = ["tuner", "--version"]
from tuner.__main__ import main
main()
"""
_STOPS_IN_A_VERB = """
import time
from tuner.cli import cli, main
def slow(*_, **__):
    print("at work", flush=True)
    time.sleep(60)
cli.invoke = lambda *_, **__: exec("slow()", {"slow": slow})
import sys
sys.argv = ["tuner", "list"]
main()
"""


def test_ctrl_c_during_the_imports_ends_quietly(tmp_path: Path) -> None:
    done = ended_by(signal.SIGINT, _STOPS_IN_AN_IMPORT, tmp_path)
    assert (done.returncode, done.stderr) == (ExitCode.INTERRUPTED, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_every_signal_that_asks_for_the_end_is_one_line_and_the_exit_code_of_an_interrupt(
    number: signal.Signals, tmp_path: Path
) -> None:
    done = ended_by(number, _STOPS_IN_A_VERB, tmp_path)
    assert (done.returncode, done.stderr) == (ExitCode.INTERRUPTED, "tuner: interrupted\n")
