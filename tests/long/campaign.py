"""The fault campaign: breaks a study in every way we know, and shows what became of it.

    python -m tests.long.campaign [--trials 500] [--kills 100] [--parts trials,kills,outages]
    python -m tests.long.campaign --parts kills --folder /tmp/kills --minutes 9      (again and again)
    python -m tests.long.campaign --parts outages --only disk

Prints a table ``injected | typed as | lost | left behind``. Exit status 1 where anything is in the last two columns,
3 where the time was over before the kills were (the same command goes on).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from tests.long.faulty_trials import faulty_trials
from tests.long.ground import Row
from tests.long.killed_drivers import killed_drivers
from tests.long.outages import outages

CLEAN, UNCLEAN, GOES_ON = 0, 1, 3


def main(arguments: list[str]) -> int:
    """Run the parts asked for; 1 where something was lost or left behind."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.long.campaign",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--trials", type=int, default=500, help="of the study with faulty trials")
    parser.add_argument("--kills", type=int, default=100, help="of the driver")
    parser.add_argument("--seed", type=int, default=0, help="of the moments of the kills")
    parser.add_argument("--parts", default="trials,kills,outages", help="those to run, with commas")
    parser.add_argument("--folder", type=Path, help="keep the study of the kills here, and go on with it")
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="start no further kill after this"
    )
    parser.add_argument("--only", default="", help="the outages with this word in their name")
    asked = parser.parse_args(arguments)
    until = time.monotonic() + 60 * asked.minutes
    folder = asked.folder.absolute() if asked.folder else None
    parts: Mapping[str, Callable[[], Iterable[Row]]] = {
        "trials": lambda: faulty_trials(asked.trials),
        "kills": lambda: killed_drivers(asked.kills, asked.seed, folder, until),
        "outages": lambda: outages(asked.only),
    }
    names = asked.parts.split(",")
    if unknown := set(names) - set(parts):
        parser.error(f"--parts {asked.parts}: {', '.join(unknown)} is none of {', '.join(parts)}")
    return _table(row for name in names for row in parts[name]())


def _table(rows: Iterable[Row]) -> int:
    print("| injected | typed as | lost | left behind |\n|---|---|---|---|", flush=True)
    status = CLEAN
    for row in rows:
        print(row, flush=True)
        if not row.is_clean:
            status = UNCLEAN
        elif not row.is_final and status == CLEAN:
            status = GOES_ON
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
