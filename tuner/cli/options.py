"""Options that several verbs share, and how they find what they name."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from tuner.cli.errors import CliError

SHIPPED_SPACES = Path(__file__).resolve().parents[2] / "search_spaces"

records_option = click.option(
    "--records",
    metavar="PATH_OR_URL",
    help="Where studies are recorded: a file or an SQLAlchemy URL. Default: $TUNER_RECORDS, else ./tuner.db.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout instead of a table.")
set_option = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Replace a value of the space file: --set budget.trials=10 --set parameters.compile=false.",
)


def space_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """The SPACE argument: a path, or the name of a shipped file."""
    return click.argument("space", metavar="SPACE")(command)


def study_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """The STUDY argument: the name of a study in the records."""
    return click.argument("study", metavar="STUDY")(command)


def find_space(name: str) -> Path:
    """The space file meant by a path or by the name of a shipped one."""
    path = Path(name)
    if path.is_file():
        return path
    shipped = SHIPPED_SPACES / (path.name if path.suffix in (".yaml", ".yml") else f"{path.name}.yaml")
    if shipped.is_file() and path.parent in (Path("."), Path("search_spaces")):
        return shipped
    known = ", ".join(sorted(p.stem for p in SHIPPED_SPACES.glob("*.yaml")))
    if path.is_dir():
        raise CliError(f"{name}: is a folder; name a space file in it")
    raise CliError(f"{name}: no such space file; give a path, or one of the shipped ones: {known}")


def parse_settings(settings: tuple[str, ...]) -> dict[str, str]:
    """``--set`` values as a map; an entry without '=' is an error."""
    parsed = {}
    for entry in settings:
        key, equals, value = entry.partition("=")
        if not equals or not key.strip():
            raise CliError(f"--set {entry}: write KEY=VALUE, for example --set budget.trials=10")
        parsed[key.strip()] = value.strip()
    return parsed


def visible_gpus() -> int:
    """How many NVIDIA devices this process may use, without importing torch: the driver's device files."""
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    present = len([p for p in Path("/dev").glob("nvidia[0-9]*") if p.name[6:].isdigit()])
    if shown is None:
        return present
    return min(present, len([d for d in shown.split(",") if d.strip() and d.strip() != "-1"]))
