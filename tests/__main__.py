"""``python -m tests``: style, types, import contracts, then all tests; arguments go to pytest."""

import subprocess
import sys

CHECKS = (
    ["ruff", "check", "."],
    ["ruff", "format", "--check", "."],
    ["mypy"],
    ["importlinter.cli", "lint-imports"],
)


def main() -> int:
    """Run every step, also after one has failed, and return an exit status that is not 0 where one failed."""
    worst = 0
    for name, *arguments in CHECKS:
        command = [sys.executable, "-m", name, *arguments]
        if name.startswith("importlinter"):
            command = [
                sys.executable,
                "-c",
                "from importlinter.cli import lint_imports_command; lint_imports_command()",
            ]
        print("==>", name.split(".")[0], *arguments, flush=True)
        worst = worst or _status(command)
    print("==> pytest", flush=True)
    return _status([sys.executable, "-m", "pytest", *sys.argv[1:]]) or worst


def _status(command: list[str]) -> int:
    """The exit status; 128 and the signal's number where a signal ended it, which counts as failed too."""
    status = subprocess.run(command, check=False).returncode
    if status < 0:
        print(f"{' '.join(command)}: ended by signal {-status}", file=sys.stderr, flush=True)
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
