"""Options that several verbs share, and how they find what they name."""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from tuner.cli.errors import CliError
from tuner.cli.offers import SHIPPED_SPACES, spaces, studies
from tuner.space.fields import MOST


class WholeNumber(click.ParamType[int]):
    """An option that counts something: a whole number, at least ``least`` and at most ``most``."""

    name = "whole number"

    def __init__(self, least: int, most: int = MOST) -> None:
        self.least, self.most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number; click shows the message otherwise."""
        try:
            number = int(value)
        except ValueError:
            number = self.least - 1
        if self.least <= number <= self.most:
            return number
        is_below = self.most == MOST and number < self.least
        span = f"of at least {self.least}" if is_below else f"from {self.least} to {self.most}"
        return self.fail(f"{value!r:.80} is not a whole number {span}", param, ctx)


records_option = click.option(
    "--records",
    metavar="PATH_OR_URL",
    help="Where studies are recorded: a file or an SQLAlchemy URL. Default: $TUNER_RECORDS, else ./tuner.db.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout instead of a table.")
mlflow_option = click.option(
    "--mlflow",
    "uri",
    metavar="URI",
    help="MLflow store or server. Default: where the study is logged, else ./mlflow.db.",
)
set_option = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Replace a value of the space file: --set budget.trials=10 --set parameters.compile=false.",
)


def study_reference(text: str) -> tuple[str, int | None]:
    """``STUDY`` or ``STUDY@N``, its Nth generation; None is the latest."""
    name, at, generation = text.partition("@")
    if not at:
        return text, None
    is_number = generation.isascii() and generation.isdigit() and len(generation) <= len(str(MOST))
    if is_number and 0 < int(generation) <= MOST:
        return name, int(generation)
    raise CliError(f"{text:.200}: no such generation; write {name}@N with N from 1")


def space_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """The SPACE argument: a path, or the name of a shipped file."""
    return click.argument("space", metavar="SPACE", shell_complete=spaces)(command)


def study_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """The STUDY argument: the name of a study in the records."""
    return click.argument("study", metavar="STUDY", shell_complete=studies)(command)


def find_space(name: str) -> Path:
    """The space file meant by a path or by the name of a shipped one."""
    path = Path(name)
    mode = _mode(path)
    if stat.S_ISREG(mode):
        return path
    shipped = SHIPPED_SPACES / (path.name if path.suffix in (".yaml", ".yml") else f"{path.name}.yaml")
    if path.parent in (Path(), Path("search_spaces")) and stat.S_ISREG(_mode(shipped)):
        return shipped
    if stat.S_ISDIR(mode):
        inside = sorted(p.name for p in path.glob("*.y*ml"))[:5]
        raise CliError(
            f"{name} is a folder; name a space file in it{': ' if inside else ''}{', '.join(inside)}"
        )
    if mode:
        raise CliError(f"{name} is not a regular file; give the path of a space file")
    if _is_link(path):
        raise CliError(f"{name} is a link that leads nowhere; mend it, or give the space file itself")
    raise CliError(f"no space file {name!r:.200}; {_space_that_was_meant(path)}")


def _mode(path: Path) -> int:
    """What the path is (``stat.S_IS...``); 0 where nothing is there, or no file can have such a name."""
    try:
        return path.stat().st_mode
    except (OSError, ValueError):
        return 0


def _is_link(path: Path) -> bool:
    try:
        return path.is_symlink()
    except (OSError, ValueError):
        return False


def _space_that_was_meant(path: Path) -> str:
    shipped = sorted(p.stem for p in SHIPPED_SPACES.glob("*.yaml"))
    try:
        beside = [str(p) for p in path.parent.glob("*.y*ml")]
    except OSError:
        beside = []
    near = difflib.get_close_matches(str(path), [*beside, *shipped], n=1)
    return (
        f"did you mean {near[0]}?"
        if near
        else f"give a path, or one of the shipped ones: {', '.join(shipped)}"
    )


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
