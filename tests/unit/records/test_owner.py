from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from tuner.records.owner import Owner

ME = Owner.current()


def test_this_process_lives_and_is_the_same_each_time() -> None:
    assert ME.is_gone() is False
    assert Owner.current() == ME
    assert Owner.from_json(ME.to_json()) == ME
    assert ME.pid == os.getpid()


def test_a_clock_that_was_set_in_between_does_not_make_another_process_of_it() -> None:
    assert replace(ME, started_at="2001-01-01 00:00:00+00:00") == ME


def test_the_same_number_with_another_start_is_another_process() -> None:
    assert replace(ME, started_ticks=ME.started_ticks + 1).is_gone() is True


def test_a_process_that_ended_is_gone_even_before_its_parent_has_looked() -> None:
    program = "from tuner.records.owner import Owner; print(Owner.current().to_json(), flush=True); input()"
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdin and child.stdout
    owner = Owner.from_json(child.stdout.readline())
    assert owner.is_gone() is False
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # a zombie now: ended, not yet reaped
    assert Path(f"/proc/{child.pid}").exists()
    assert owner.is_gone() is True
    child.wait()
    child.stdout.close()
    assert owner.is_gone() is True


def test_before_a_reboot_of_the_same_machine_means_gone() -> None:
    machine = ME.machine or "m"
    before = replace(ME, boot="another", machine=machine)
    assert before.is_gone() is (True if ME.machine else None)


def test_another_machine_or_container_cannot_be_seen() -> None:
    assert replace(ME, boot="another", host="far").is_gone() is None
    assert replace(ME, boot="another", machine="far").is_gone() is None
    assert replace(ME, pid_namespace="pid:[1]").is_gone() is None
    assert replace(ME, boot="").is_gone() is None


def test_it_reads_as_a_line_for_the_user() -> None:
    assert str(ME).startswith(f"process {os.getpid()} on {ME.host}, started 20")
