"""A training configuration as a shell script around PyTorch's torchrun: environment, degrees, command line."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trials.contract import Purpose, TrialSpec
from trials.training.layout import Layout
from tuner.export import TargetError

_NAME = re.compile(r"(\$\{\w+\})")
_SCRIPT = """\
#!/usr/bin/env bash
# {title}
#
#   bash FILE [FOLDER]            train it again with tuner's own loop; the result is FOLDER/result.json
#   bash FILE -- train.py ARGS    start your own script in the same processes; it reads $TUNER_CONFIG (JSON)
#
{remarks}
set -euo pipefail
{exports}
launch=("${{PYTHON:-python3}}" -m torch.distributed.run --standalone --nnodes=1 --nproc-per-node={ranks})
if [ "${{1:-}}" = "--" ]; then
  shift
  exec "${{launch[@]}}" "$@"
fi
folder=${{1:-tuner-trial}}
mkdir -p "$folder"
cat >"$folder/spec.json" <<'END_OF_SPEC'
{spec}
END_OF_SPEC
exec "${{launch[@]}}" -m trials.training.parallel.elastic "$folder/spec.json"
"""


def render(document: Mapping[str, Any]) -> str:
    """The script. TargetError where the workload is not a training."""
    basis = document["verify"]
    kind = basis["workload"]["kind"]
    if kind != "training":
        raise TargetError(
            f"torchrun starts trainings, and this is a workload of kind {kind}; use yaml or json"
        )
    parameters = dict(basis["parameters"])
    ranks = Layout.of(parameters).world_size
    return _SCRIPT.format(
        title=f"{document['study']}, trial {document['trial']}: {document['why']}".replace("\n", " "),
        remarks="\n".join(f"# {line}" for line in _unsaid(ranks)),
        exports="\n".join(_exports(parameters, ranks, _cores(document))),
        ranks=ranks,
        spec=_spec(document, parameters, ranks).to_json(),
    )


def _spec(document: Mapping[str, Any], parameters: dict[str, Any], ranks: int) -> TrialSpec:
    has_gpu = "gpu" in document.get("environment", {})
    return TrialSpec(
        study=str(document["study"]),
        trial_number=int(document["trial"]),
        measurement_id="torchrun",
        purpose=Purpose.VERIFY,
        workload=document["verify"]["workload"],
        config=parameters,
        seed=int(document["verify"]["seed"]),
        trial_dir=Path(),  # beside the spec
        cache_dir=Path("cache"),
        gpus=tuple(map(str, range(ranks))) if has_gpu else (),
        wanted=tuple(document["verify"]["judged_by"]),
    )


def _exports(parameters: Mapping[str, Any], ranks: int, cores: int) -> list[str]:
    """Threads as they were measured, loopback for gloo, the ``env.*`` parameters, and the configuration."""
    threads = parameters.get("threads") or cores // ranks
    variables = {
        **({"OMP_NUM_THREADS": str(threads)} if threads else {}),
        "GLOO_SOCKET_IFNAME": "lo",
        **{
            name.removeprefix("env."): str(int(value) if isinstance(value, bool) else value)
            for name, value in parameters.items()
            if name.startswith("env.")
        },
        "TUNER_CONFIG": json.dumps(parameters),
    }
    return [f"export {name}={_quoted(value)}" for name, value in variables.items()]


def _cores(document: Mapping[str, Any]) -> int:
    """Cores that the measured trial held; 0 where they were not recorded."""
    return len(document.get("environment", {}).get("cores_held", ()))


def _quoted(value: str) -> str:
    """Quoted for a shell, except that ``${NAME}`` is left for it to fill in."""
    parts = [part for part in _NAME.split(value) if part]
    return "".join(f'"{part}"' if _NAME.fullmatch(part) else shlex.quote(part) for part in parts) or "''"


def _unsaid(ranks: int) -> list[str]:
    """What torchrun has no word for."""
    lines = ["Not expressed: limits on memory and time; torchrun has none."]
    if ranks > 1:
        lines.append(
            "Not expressed: cores for each process. tuner's own loop pins its ranks; your script has to do it itself."
        )
    return lines
