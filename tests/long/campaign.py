"""The fault campaign: breaks a study in every way we know, and shows what became of it.

    python -m tests.long.campaign [--trials 500] [--kills 100] [--parts trials,kills,outages]

Prints a table ``injected | typed as | lost | left behind``. Exit status 1 where anything is in the last two columns.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping

from tests.long.faulty_trials import faulty_trials
from tests.long.ground import Row
from tests.long.killed_drivers import killed_drivers
from tests.long.outages import outages


def main(arguments: list[str]) -> int:
    """Run the parts asked for; 1 where something was lost or left behind."""
    parser = argparse.ArgumentParser(prog="python -m tests.long.campaign", description=__doc__)
    parser.add_argument("--trials", type=int, default=500, help="of the study with faulty trials")
    parser.add_argument("--kills", type=int, default=100, help="of the driver")
    parser.add_argument("--seed", type=int, default=0, help="of the moments of the kills")
    parser.add_argument("--parts", default="trials,kills,outages", help="those to run, with commas")
    asked = parser.parse_args(arguments)
    parts: Mapping[str, Callable[[], Iterable[Row]]] = {
        "trials": lambda: faulty_trials(asked.trials),
        "kills": lambda: killed_drivers(asked.kills, asked.seed),
        "outages": outages,
    }
    names = asked.parts.split(",")
    if unknown := set(names) - set(parts):
        parser.error(f"--parts {asked.parts}: {', '.join(unknown)} is none of {', '.join(parts)}")
    print("| injected | typed as | lost | left behind |\n|---|---|---|---|", flush=True)
    is_clean = True
    for name in names:
        for row in parts[name]():
            print(row, flush=True)
            is_clean = is_clean and row.is_clean
    return 0 if is_clean else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
