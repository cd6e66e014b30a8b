"""The short form of the fault campaign (``python -m tests.long.campaign`` is the long one)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.faults.processes import ends
from tests.long.fates import SHARES, fate_of
from tests.long.faulty_trials import faulty_trials
from tests.long.killed_drivers import killed_drivers


def test_every_fate_comes_as_often_as_its_share_says() -> None:
    fates = [fate_of(x) for x in range(20_000)]
    for fate, share in SHARES.items():
        assert abs(fates.count(fate) / len(fates) - share) < 0.01, fate


def test_trials_that_crash_hang_grow_are_killed_or_report_garbage_end_typed_and_leave_nothing() -> None:
    rows = faulty_trials(8, timeout_s=3.0, each=1)
    assert [str(row) for row in rows if not row.is_clean] == []


def test_a_driver_that_is_killed_loses_nothing_and_searches_nothing_twice() -> None:
    rows = killed_drivers(1)
    assert [str(row) for row in rows if not row.is_clean] == []
    assert "killed 1 times" in rows[0].injected


def test_a_process_of_ray_that_wrote_its_title_over_its_mark_is_swept_all_the_same(tmp_path: Path) -> None:
    hold = 'exec 9>"$0/agent.out"; exec -a ray::DashboardAgent sleep 600'
    (tmp_path / "run").mkdir()
    with subprocess.Popen(["bash", "-c", hold, str(tmp_path / "run")]) as agent:
        try:
            while b"ray::" not in Path(f"/proc/{agent.pid}/cmdline").read_bytes()[:5]:
                assert agent.poll() is None
            sweep = [sys.executable, "-m", "tuner.execution.sweeper", "no/driver:1:1", str(tmp_path / "run")]
            subprocess.run(sweep, stdin=subprocess.DEVNULL, check=True, timeout=60)
            assert ends(agent.pid, timeout_s=1)
            assert not (tmp_path / "run").exists()
        finally:
            agent.kill()
