"""Runs a shipped space file to its end as a user would, and checks what came out.

    python -m tests.long.studies byte_lm [quickstart ...]

One line of a table per study: time, trials, front, hypervolume, whether the export verified. Exit status 1 where a
study failed, has fewer than two confirmed points on its front, or its export does not verify.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from typing import Any

TUNER = [sys.executable, "-m", "tuner"]


def main(names: list[str]) -> int:
    """Run every study named, each in a folder of its own."""
    print("| study | seconds | trials | outcomes | confirmed on the front | stopped | export verifies |")
    print("|---|---|---|---|---|---|---|")
    return max([run(name) for name in names], default=2)


def run(name: str) -> int:
    """One study; prints its line and returns 0 where everything is as it should be."""
    with tempfile.TemporaryDirectory(prefix="study-") as folder:
        begin = time.monotonic()
        code = call(folder, "run", name, quiet=False)
        seconds = time.monotonic() - begin
        if code != 0:
            print(f"| {name} | {seconds:.0f} | exit {code} | | | | |")
            return 1
        shown = json.loads(output(folder, "show", study_of(folder), "--json"))
        confirmed = [t for t in shown["trials"] if t["on_front"] and t["is_confirmed"]]
        call(folder, "export", shown["study"], "-o", "best.yaml")
        verified = call(folder, "verify", "best.yaml")
        print(row(name, seconds, shown, confirmed, verified), flush=True)
        return 0 if len(confirmed) >= 2 and verified == 0 else 1


def row(
    name: str, seconds: float, shown: dict[str, Any], confirmed: list[dict[str, Any]], verified: int
) -> str:
    """The line of a study."""
    metrics = [objective["metric"] for objective in shown["objectives"]]
    points = "; ".join(
        f"{t['number']}: " + ", ".join(f"{m} {t['metrics'][m]['value']:.5g}" for m in metrics)
        for t in confirmed
    )
    outcomes = " ".join(f"{kind}:{count}" for kind, count in shown["counts"].items())
    return (
        f"| {name} | {seconds:.0f} | {len(shown['trials'])} | {outcomes} | {points} "
        f"| {shown['stopped_because']} | {'yes' if verified == 0 else 'NO'} |"
    )


def study_of(folder: str) -> str:
    """The name of the only study in a folder's records."""
    name: str = json.loads(output(folder, "list", "--json"))["studies"][0]["name"]
    return name


def call(folder: str, *arguments: str, quiet: bool = True) -> int:
    """Run a verb; its talk goes to our stderr unless ``quiet``."""
    stream = subprocess.DEVNULL if quiet else sys.stderr
    return subprocess.run(
        [*TUNER, *arguments], cwd=folder, stdout=stream, stderr=stream, check=False
    ).returncode


def output(folder: str, *arguments: str) -> str:
    """What a verb prints on stdout."""
    return subprocess.run(
        [*TUNER, *arguments], cwd=folder, stdout=subprocess.PIPE, check=True, text=True
    ).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
