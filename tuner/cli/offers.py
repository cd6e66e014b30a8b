"""What a shell is offered where a verb wants a space file or a study."""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import CompletionItem

SHIPPED_SPACES = Path(__file__).resolve().parents[2] / "search_spaces"


def spaces(context: click.Context, argument: click.Parameter, begun: str) -> list[CompletionItem]:
    """Space files in the folder that is being typed, the shipped ones by name, and folders to go into."""
    folder, slash, _ = begun.rpartition("/")
    beside = Path(folder or slash or ".")
    files = [f"{folder}{slash}{path.name}" for path in _sorted(beside, "*.yaml") + _sorted(beside, "*.yml")]
    shipped = [] if slash else [path.stem for path in _sorted(SHIPPED_SPACES, "*.yaml")]
    fitting = [CompletionItem(name) for name in (*files, *shipped) if name.startswith(begun)]
    return [CompletionItem(begun, type="dir"), *fitting]  # first: bash forgets what came before a folder


def studies(context: click.Context, argument: click.Parameter, begun: str) -> list[CompletionItem]:
    """The studies in the records that the line names so far, or the default ones."""
    from tuner.records.names import study_names

    names = study_names(context.params.get("records"))
    return [CompletionItem(name) for name in names if name.startswith(begun)]


def _sorted(folder: Path, pattern: str) -> list[Path]:
    try:
        return sorted(path for path in folder.glob(pattern) if path.is_file())
    except OSError:
        return []
