"""A trial's program for tests: does what ``config["do"]`` says, without any workload.

``python -S fake_trial.py spec.json``; standard library only.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

spec = json.loads(Path(sys.argv[1]).read_text())
config = spec["config"]
Path(spec["trial_dir"], "cpus").write_text(str(sorted(os.sched_getaffinity(0))))


def metric(value: float | str) -> dict[str, Any]:
    return {"value": value, "unit": "1", "n": 1, "low": None, "high": None, "method": "", "flags": []}


def report(value: float | str = 1.0, **changes: Any) -> None:
    result = {
        "contract_version": 1,
        "outcome": "complete",
        "failure_kind": None,
        "message": "",
        "metrics": {"score": metric(value)},
        "phases": {"total_s": 0.001},
        "proof": {},
        "facts": {"cpus": sorted(os.sched_getaffinity(0)), "env": dict(os.environ)},
        "environment": {},
        "examples": {},
        "warnings": [],
    }
    Path(spec["trial_dir"], "result.json").write_text(json.dumps({**result, **changes}))


def daemon(seconds: float) -> None:
    """Forks twice, in a session of its own, and writes the process number where a test finds it."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            Path(spec["trial_dir"], "daemon.pid").write_text(str(os.getpid()))
            time.sleep(seconds)
        os._exit(0)
    while not Path(spec["trial_dir"], "daemon.pid").exists():
        time.sleep(0.01)


def eat(mebibytes: int) -> None:
    held = []
    for _ in range(mebibytes // 16):
        held.append(bytearray(os.urandom(1)) * (16 * 2**20))
    time.sleep(config.get("hold_s", 30))


match config["do"]:
    case "complete":
        report(config.get("value", 1.0))
    case "sleep":
        time.sleep(config["seconds"])
        report()
    case "exit":
        print("about to leave", flush=True)
        sys.exit(config["status"])
    case "hang":
        daemon(300)
        time.sleep(300)
    case "staged":
        stage = {"event": "stage", "fraction": 0.5, "metrics": {"score": metric(4.0)}, "steady": ["score"]}
        Path(spec["trial_dir"], "events.jsonl").write_text(json.dumps(stage) + "\n")
        daemon(300)
        time.sleep(300)
    case "eat":
        eat(config["mebibytes"])
        report()
    case "nan":
        report("nan")
    case "report_then_exit":
        report(7.0)
        sys.exit(config["status"])
    case "report_then_die":
        report(7.0)
        os.kill(os.getpid(), signal.SIGKILL)
    case "die":
        os.kill(os.getpid(), config["signal"])
    case "print_error":
        print("ERROR: error: Traceback: this is only talk", flush=True)
        report()
    case "daemon":
        daemon(300)
        report()
    case "garbage":
        Path(spec["trial_dir"], "result.json").write_text(config["text"])
    case "typed_failure":
        report(outcome="failed", failure_kind=config["kind"], message="as it said itself", metrics={})
        sys.exit(1)
    case "no_result":
        print("all fine here", flush=True)
    case "other_metric":
        report(metrics={"scores": metric(1.0)})
