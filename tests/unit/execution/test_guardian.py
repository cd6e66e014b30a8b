"""The guardian on its own: a process that is spoken to over a socket."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.processes import ends, is_running, wait_until
from tuner.execution import guardian

EAT = "x = [bytearray(b'x') * (1 << 20) for _ in range({mebibytes})]; import time; time.sleep({seconds})"
WITHOUT_CGROUP = (
    "import sys; sys.path.insert(0, {folder!r}); import guardian\n"
    "guardian.MemoryCgroup.possible = classmethod(lambda cls, pid: [])\n"
    "guardian.TICK_S = 0.05\n"
    "guardian.main()"
)


class Guarded:
    """One guardian with its request, as a supervisor starts it."""

    def __init__(self, folder: Path, program: list[str], use_cgroup: bool = True, **changes: Any) -> None:
        self.supervisor, theirs = socket.socketpair()
        self.driver, lease = socket.socketpair()
        script = [guardian.__file__]
        if not use_cgroup:
            script = ["-c", WITHOUT_CGROUP.format(folder=str(Path(guardian.__file__).parent))]
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", *script, str(theirs.fileno())],
            pass_fds=[theirs.fileno(), lease.fileno()],
            start_new_session=True,
            stderr=subprocess.DEVNULL,
        )
        request = {
            "program": program,
            "env": {"PATH": os.environ["PATH"], "ONLY": "this"},
            "cwd": str(folder),
            "cpus": [],
            "timeout_s": 30.0,
            "memory_limit_bytes": None,
            "lease_fd": lease.fileno(),
            **changes,
        }
        guardian.send(self.supervisor.fileno(), request)
        theirs.close()
        lease.close()

    def report(self) -> dict[str, Any]:
        report = guardian.receive(self.supervisor.fileno())
        assert report is not None
        assert self.process.wait(timeout=10) == 0
        return report

    def trial(self) -> int:
        assert wait_until(lambda: guardian.children(self.process.pid))
        return guardian.children(self.process.pid)[0]

    def close(self) -> None:
        self.supervisor.close()
        self.driver.close()
        self.process.wait(timeout=15)


@pytest.fixture
def guard(tmp_path: Path) -> Iterator[Any]:
    started: list[Guarded] = []

    def start(*program: str, **changes: Any) -> Guarded:
        started.append(Guarded(tmp_path, list(program), **changes))
        return started[-1]

    yield start
    for guarded in started:
        guarded.close()


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", "-c", code)


@pytest.mark.parametrize("status", [0, 9])
def test_an_exit_status_is_reported_as_it_is(guard: Any, status: int) -> None:
    report = guard("sh", "-c", f"exit {status}").report()
    assert (report["reason"], report["returncode"]) == ("exit", status)


def test_a_signal_is_reported_as_a_negative_number(guard: Any) -> None:
    report = guard("sh", "-c", "kill -SEGV $$").report()
    assert (report["reason"], report["returncode"]) == ("exit", -signal.SIGSEGV)


def test_the_trial_sees_exactly_the_environment_of_the_request(guard: Any, tmp_path: Path) -> None:
    guard(*python("import os; open('env', 'w').write(repr(dict(os.environ)))")).report()
    seen = (tmp_path / "env").read_text()
    assert "'ONLY': 'this'" in seen
    assert "HOME" not in seen


def test_the_trial_is_the_first_to_go_when_the_machine_runs_out_of_memory(guard: Any, tmp_path: Path) -> None:
    guard("sh", "-c", "cat /proc/self/oom_score_adj > score").report()
    assert (tmp_path / "score").read_text() == "1000\n"


def test_a_broken_pipe_ends_the_trial_s_programs_as_usual(guard: Any) -> None:
    # bit 13 of the ignored signals, which Python sets for itself and which would survive exec
    program = ("sh", "-c", "grep -q 'SigIgn:.*[02468ace]...$' /proc/self/status")
    assert guard(*program).report()["returncode"] == 0


def test_a_program_that_is_not_there_is_said_and_not_called_an_exit(guard: Any) -> None:
    report = guard("/nowhere/program").report()
    assert report["reason"] == "not_started"
    assert "No such file" in report["message"]


def test_a_timeout_ends_the_whole_tree_in_time(guard: Any) -> None:
    report = guard("sh", "-c", "setsid sleep 100 & sleep 100", timeout_s=0.3).report()
    assert report["reason"] == "timeout"
    assert 0.3 <= report["wall_s"] < 5
    assert report["survivors"] == []


def test_what_forks_twice_and_leads_its_own_session_is_ended_too(guard: Any, tmp_path: Path) -> None:
    report = guard(
        "sh",
        "-c",
        "(setsid sh -c 'echo $$ > daemon; exec env -i sleep 100' &) ; while [ ! -s daemon ]; do :; done",
    ).report()
    assert report["reason"] == "exit"
    assert report["strays"] >= 1
    assert not is_running(int((tmp_path / "daemon").read_text()))


DAEMON_AT_WORK = """
import os, sys, time
sys.path.insert(0, {repository!r})
from trials.measurement.load import load_now
before = load_now()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while time.process_time() < 0.3:
            pass
        open("worked", "w").close()
    os._exit(0)
os.wait()
while not os.path.exists("worked"):
    time.sleep(0.01)
print(load_now().own_s - before.own_s, file=open("own", "w"))
"""


def test_the_work_of_a_daemon_that_the_trial_forked_twice_counts_as_the_trial_s_own(
    guard: Any, tmp_path: Path
) -> None:
    repository = str(Path(guardian.__file__).parents[2])
    assert guard(*python(DAEMON_AT_WORK.format(repository=repository))).report()["returncode"] == 0
    assert float((tmp_path / "own").read_text()) > 0.25


def test_the_supervisor_s_end_ends_the_trial(guard: Any) -> None:
    guarded = guard("sleep", "100")
    trial = guarded.trial()
    guarded.supervisor.close()
    assert ends(trial, timeout_s=5)
    assert guarded.process.wait(timeout=5) == 0


def test_the_driver_s_end_ends_the_trial_and_is_reported(guard: Any) -> None:
    guarded = guard("sleep", "100")
    trial = guarded.trial()
    guarded.driver.close()
    assert guarded.report()["reason"] == "driver_gone"
    assert not is_running(trial)


def test_a_byte_from_the_driver_interrupts(guard: Any) -> None:
    guarded = guard("sleep", "100")
    guarded.trial()
    guarded.driver.send(b"!")
    assert guarded.report()["reason"] == "interrupted"


def test_the_trial_does_not_outlive_a_killed_guardian(guard: Any) -> None:
    guarded = guard("sleep", "100")
    trial = guarded.trial()
    guarded.process.kill()
    assert ends(trial, timeout_s=5)


@pytest.mark.parametrize("use_cgroup", [True, False])
def test_a_trial_over_its_memory_limit_is_ended_for_that_reason(guard: Any, use_cgroup: bool) -> None:
    program = python(EAT.format(mebibytes=200, seconds=20))
    report = guard(*program, use_cgroup=use_cgroup, memory_limit_bytes=100 * 2**20).report()
    assert report["reason"] == "memory"
    assert report["wall_s"] < 15


@pytest.mark.parametrize("use_cgroup", [True, False])
def test_a_trial_within_its_memory_limit_is_left_alone(guard: Any, use_cgroup: bool) -> None:
    program = python(EAT.format(mebibytes=60, seconds=0.3))
    report = guard(*program, use_cgroup=use_cgroup, memory_limit_bytes=150 * 2**20).report()
    assert (report["reason"], report["returncode"]) == ("exit", 0)
    assert 60 * 2**20 < report["peak_bytes"] < 150 * 2**20


def test_memory_that_processes_share_counts_once(guard: Any) -> None:
    code = "import os, time; x = bytearray(b'x') * (100 << 20); os.fork(); time.sleep(1)"
    report = guard(*python(code), use_cgroup=False, memory_limit_bytes=180 * 2**20).report()
    assert (report["reason"], report["returncode"]) == ("exit", 0)


def test_memory_of_child_processes_counts(guard: Any) -> None:
    code = "import os, time; os.fork(); x = bytearray(b'x') * (80 << 20); time.sleep(20)"
    report = guard(*python(code), use_cgroup=False, memory_limit_bytes=130 * 2**20).report()
    assert report["reason"] == "memory"
    assert report["peak_bytes"] > 130 * 2**20


def test_the_peak_of_a_short_trial_is_known_although_nobody_looked(guard: Any) -> None:
    report = guard(*python(EAT.format(mebibytes=50, seconds=0))).report()
    assert report["peak_bytes"] > 50 * 2**20


def test_no_cgroup_is_left_behind(guard: Any) -> None:
    guarded = guard(*python(EAT.format(mebibytes=10, seconds=0)), memory_limit_bytes=2**30)
    guarded.report()
    assert not [
        group for group in guardian.MemoryCgroup.possible(guarded.process.pid) if Path(group.folder).exists()
    ]


def test_a_supervisor_that_goes_before_it_asked_leaves_nothing() -> None:
    ours, theirs = socket.socketpair()
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", guardian.__file__, str(theirs.fileno())], pass_fds=[theirs.fileno()]
    )
    theirs.close()
    time.sleep(0.05)
    ours.close()
    assert process.wait(timeout=5) == 1


def test_descendants_are_found_below_children() -> None:
    with subprocess.Popen(["sh", "-c", "sleep 60; true"]) as shell:
        assert wait_until(lambda: guardian.children(shell.pid))
        assert set(guardian.descendants(os.getpid())) >= {shell.pid, *guardian.children(shell.pid)}
        for pid in guardian.children(shell.pid):
            guardian.kill(pid)


@pytest.mark.parametrize(
    ("line", "own", "expected"),
    [
        (
            "36 25 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory",
            "4:memory:/a/b",
            [("/sys/fs/cgroup/memory/a/b", 1)],
        ),
        (
            "36 25 0:30 /docker/x /cg/memory rw - cgroup cgroup rw,memory",
            "4:memory:/docker/x",
            [("/cg/memory", 1)],
        ),
        ("36 25 0:30 / /cg/cpu rw - cgroup cgroup rw,cpu", "4:cpu:/a", []),
        ("36 25 0:30 / /cg rw - cgroup2 cgroup2 rw", "0::/user/app", []),
    ],
)
def test_the_place_of_a_cgroup_is_read_from_the_mounts(
    monkeypatch: pytest.MonkeyPatch, line: str, own: str, expected: list[tuple[str, int]]
) -> None:
    files = {"/proc/self/cgroup": own, "/proc/self/mountinfo": line}

    def read(path: str) -> str:
        if path not in files:
            raise FileNotFoundError(path)
        return files[path]

    monkeypatch.setattr(guardian, "_read", read)
    assert guardian._cgroup_parents() == expected


def test_a_second_generation_cgroup_is_made_beside_ours_where_its_parent_hands_memory_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = {
        "/proc/self/cgroup": "0::/user/app",
        "/proc/self/mountinfo": "36 25 0:30 / /cg rw - cgroup2 cgroup2 rw",
        "/cg/user/app/cgroup.subtree_control": "",
        "/cg/user/cgroup.subtree_control": "cpu memory",
    }
    monkeypatch.setattr(guardian, "_read", files.__getitem__)
    assert guardian._cgroup_parents() == [("/cg/user", 2)]
