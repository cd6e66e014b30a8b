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
    """Run every step, also after one has failed, and return the worst exit status."""
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
        worst = max(worst, subprocess.run(command, check=False).returncode)
    print("==> pytest", flush=True)
    return max(worst, subprocess.run([sys.executable, "-m", "pytest", *sys.argv[1:]], check=False).returncode)


if __name__ == "__main__":
    sys.exit(main())
