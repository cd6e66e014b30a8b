"""The command kind keeps the promises of every workload."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.contracts.workload_suite import WorkloadSuite


class TestCommandWorkload(WorkloadSuite):
    kind = "command"

    def good_section(self, folder: Path) -> dict[str, Any]:
        (folder / "data.csv").write_text("1,2\n")
        return {
            "kind": "command",
            "run": ["cat", ["-n", "{number}"], "data.csv", 3, 0.5, True],
            "metrics": {
                "patterns": {"f1": "F1 = ([0-9.]+)", "accuracy": {"pattern": "acc=(\\S+)", "pick": "best"}}
            },
            "stage": ["data.csv"],
            "env": {"OMP_NUM_THREADS": "{cpus}"},
        }


class TestCommandWorkloadWithFiles(WorkloadSuite):
    kind = "command"

    def good_section(self, folder: Path) -> dict[str, Any]:
        return {
            "kind": "command",
            "shell": True,
            "run": "echo '{\"f1\": 1}' > {trial_dir}/m.json",
            "metrics": {"file": "{trial_dir}/m.json", "lines": "log.jsonl"},
            "working_directory": "{trial_dir}",
        }
