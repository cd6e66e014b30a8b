"""Starts a server from its own exported file and measures it as an outsider would: does it meet the numbers?

    python -m tests.long.exported_server STUDY [--records FILE]

The study tuned vLLM. Its recommendation is exported twice, as YAML and for ``vllm serve --config``; the server that
starts from the latter is loaded and judged as in the study, and held against the prediction interval of the former.
Exit status 1 where it does not agree.
"""

from __future__ import annotations

import copy
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuner.export.reading import read_document
from tuner.verification import verify_document

TIMEOUT_S = 600.0


def main(arguments: list[str]) -> int:
    """Export, start, measure, compare; one line a metric."""
    with tempfile.TemporaryDirectory(prefix="exported-") as name:
        folder = Path(name)
        for target, file in (("yaml", "best.yaml"), ("vllm", "server.yaml")):
            command = [sys.executable, "-m", "tuner", "export", *arguments, "--to", target]
            subprocess.run([*command, "-o", str(folder / file)], check=True)
        print((folder / "server.yaml").read_text())
        document = outside(read_document(folder / "best.yaml"), folder / "server.yaml")
        found = verify_document(document, folder, TIMEOUT_S, print)
    for one in found.comparisons:
        print(f"{one.metric}: {one.measured} ({one.low:.6g} to {one.high:.6g} expected): {one.verdict}")
    print(found.conclusion)
    return 0 if found.agrees else 1


def outside(document: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """The document with the server started from the exported file alone; only the load is still ours to say."""
    changed: dict[str, Any] = copy.deepcopy(dict(document))
    workload, parameters = changed["verify"]["workload"], changed["verify"]["parameters"]
    program = Path(workload["python"]).with_name("vllm")
    variables = {name[4:]: str(value) for name, value in parameters.items() if name.startswith("env.")}
    changed["verify"]["workload"] = {
        **{key: workload[key] for key in ("kind", "model", "load", "quality", "start_timeout")},
        **({"slo": workload["slo"]} if "slo" in workload else {}),
        "server": "custom",
        "launch": [str(program), "serve", "--config", str(file), "--host", "{host}", "--port", "{port}"],
        "health": "/health",
        "api": workload.get("api", "openai"),
        "env": {**workload.get("env", {}), **variables},
        "working_directory": str(file.parent),
    }
    level = ("concurrency", "request_rate_per_s")
    changed["verify"]["parameters"] = {key: parameters[key] for key in level if key in parameters}
    return changed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
