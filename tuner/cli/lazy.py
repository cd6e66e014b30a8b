"""A click group whose verbs are imported when they are called."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from typing import Any

import click


class VerbGroup(click.Group):
    """``verbs`` maps a name to ("module:command", one line of help)."""

    def __init__(self, *args: Any, verbs: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        kwargs["subcommand_metavar"] = "VERB ..."
        super().__init__(*args, **kwargs)
        self._verbs = verbs

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs, in the order a user meets them."""
        return list(self._verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of a verb."""
        if cmd_name not in self._verbs:
            return None
        module, _, name = self._verbs[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with the nearest verb named when there is no such one."""
        if args and args[0] not in self._verbs and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], self._verbs, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(self._verbs)}"
            raise click.UsageError(f"no verb '{args[0]}'; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of verbs from their one-line helps: nothing is imported to print it."""
        with formatter.section("Verbs"):
            formatter.write_dl([(name, text) for name, (_, text) in self._verbs.items()])
