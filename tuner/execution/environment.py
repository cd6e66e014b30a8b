"""The environment and the command line of a trial, built afresh from the machine's own.

What Ray puts into its workers (thread counts, device masks, ``RAY_*``) never reaches a trial. Secrets
written as ``${NAME}`` are filled in here, at the last moment, and are written nowhere.
"""

from __future__ import annotations

import os
import re
import shlex
import site
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import trials
from trials.contract import SPEC_FILE, TrialSpec

_FOREIGN = re.compile(
    r"(RAY_|TUNE_|OMP_|KMP_|MKL_|OPENBLAS_|GOMP_)|(CUDA_VISIBLE_DEVICES|PYTHONBREAKPOINT|SPT_NOENV|PL_DISABLE_FORK)$"
)
_NAME = re.compile(r"\$\{(\w+)\}")
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_CACHES = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton", "CUDA_CACHE_PATH": "cuda"}


class MissingVariable(Exception):  # noqa: N818 - an outcome of the trial, not a programming error
    """A ``${NAME}`` that the environment does not have."""


def trial_environment(spec: TrialSpec, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """Everything the trial's process sees; MissingVariable where a ``${NAME}`` is not set."""
    machine = dict(os.environ if base is None else base)
    environment = {key: value for key, value in machine.items() if not _FOREIGN.match(key)}
    environment.update(_placement_variables(spec, environment.get("PYTHONPATH")))
    for name, value in environment_parameters(spec.config).items():
        environment[name] = _filled(name, value, machine)
    return environment


def environment_parameters(config: Mapping[str, Any]) -> dict[str, str]:
    """The ``env.*`` parameters as text, ``${NAME}`` not yet filled in; booleans are 1 and 0, null is left
    out.
    """
    return {
        key.removeprefix("env."): str(int(value) if isinstance(value, bool) else value)
        for key, value in config.items()
        if key.startswith("env.") and value is not None
    }


def rerun_command(spec: TrialSpec, program: Sequence[str]) -> str:
    """One line for a shell that runs the trial again by hand, with its environment; secrets stay
    ``${NAME}``.
    """
    variables = _placement_variables(spec, None) | environment_parameters(spec.config)
    settings = [f"{name}={_quoted(value)}" for name, value in variables.items()]
    words = [shlex.quote(word) for word in (*program, str(spec.trial_dir / SPEC_FILE))]
    return " ".join(["cd", shlex.quote(str(spec.trial_dir)), "&&", "env", *settings, *words])


def _placement_variables(spec: TrialSpec, python_path: str | None) -> dict[str, str]:
    """Threads follow the cores held: more of them than cores collapse to a thirtieth of the speed."""
    variables = dict.fromkeys(_THREADS, str(len(spec.cpus))) if spec.cpus else {}
    variables["PYTHONUNBUFFERED"] = "1"  # the log of a trial that is killed is whole
    variables["CUDA_VISIBLE_DEVICES"] = ",".join(spec.gpus)
    variables |= {name: str(spec.cache_dir / folder) for name, folder in _CACHES.items()}
    variables["TUNER_TRIAL_DIR"] = str(spec.trial_dir)
    root = str(Path(trials.__file__).parents[1])
    if root not in _installed_places():
        others = [path for path in (python_path or "").split(os.pathsep) if path not in ("", root)]
        python_path = os.pathsep.join([root, *others])
    return variables | ({"PYTHONPATH": python_path} if python_path else {})


def _installed_places() -> set[str]:
    return {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), site.getusersitepackages()}


def _filled(name: str, value: str, machine: Mapping[str, str]) -> str:
    missing = [wanted for wanted in _NAME.findall(value) if wanted not in machine]
    if missing:
        raise MissingVariable(
            f"env.{name} wants ${{{missing[0]}}}, which is not set; "
            f"export {missing[0]}=... before `tuner run`"
        )
    return _NAME.sub(lambda found: machine[found.group(1)], value)


def _quoted(value: str) -> str:
    """Quoted for a shell, except that ``${NAME}`` is left for it to fill in."""
    parts = re.split(r"(\$\{\w+\})", value)
    return (
        "".join(f'"{part}"' if _NAME.fullmatch(part) else shlex.quote(part) for part in parts if part) or "''"
    )
