"""``tuner completion``: what a shell needs to complete verbs and options; the shells ask back by a variable."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class, shell_complete

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", metavar="SHELL", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the completion script of SHELL: bash, zsh or fish.

    \b
    bash  eval "$(tuner completion bash)"          in ~/.bashrc
    zsh   eval "$(tuner completion zsh)"           in ~/.zshrc
    fish  tuner completion fish > ~/.config/fish/completions/tuner.fish
    """
    from tuner.cli import COMPLETION_VARIABLE

    completer = get_completion_class(shell)
    assert completer is not None  # click has all of SHELLS
    click.echo(completer(click.Group(), {}, "tuner", COMPLETION_VARIABLE).source(), nl=False)


def answer(program: click.Command, instruction: str) -> int:
    """Answer a shell that wants to complete a line of ``program``; the exit code."""
    try:
        return shell_complete(program, {}, "tuner", "", instruction)
    except click.UsageError:
        return 0  # the line begins with a verb that does not exist: nothing to offer
