"""A winner as the configuration file of vLLM's own server: ``vllm serve --config FILE``.

https://docs.vllm.ai/en/latest/configuration/serve_args.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trials.serving.servers.base import ENGINE_ARGS
from trials.serving.servers.vllm import SPECULATIVE, TENSOR_PARALLEL
from tuner.export.errors import TargetError
from tuner.export.plain import render_yaml

_NAMES = {TENSOR_PARALLEL: "tensor-parallel-size", SPECULATIVE: "speculative-config"}


def render_vllm(document: Mapping[str, Any]) -> str:
    """The file; where it came from and what the server's environment needs are comments at its head.

    TargetError where the study did not tune a vLLM server.
    """
    workload, parameters = document["verify"]["workload"], document["verify"]["parameters"]
    if workload.get("kind") != "serving" or workload.get("server") != "vllm":
        served = workload.get("server", workload.get("kind"))
        raise TargetError(f"this study tuned {served}, no vLLM server; use --to yaml")
    options = {"model": workload["model"], **dict(_options(parameters))}
    head = "".join(f"# {line}\n" for line in _head(document, workload, parameters))
    return head + render_yaml(options)


def _options(parameters: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The long names of the flags, in the order of the configuration; none for what is the server's default."""
    for name, value in parameters.items():
        family, _, flag = name.partition(".")
        if name in _NAMES:
            yield _NAMES[name], value
        elif family == ENGINE_ARGS and value is not None:
            yield flag.replace("_", "-"), value


def _head(
    document: Mapping[str, Any], workload: Mapping[str, Any], parameters: Mapping[str, Any]
) -> Iterator[str]:
    variables = dict(workload.get("env") or {})
    variables |= {name[4:]: value for name, value in parameters.items() if name.startswith("env.")}
    settings = " ".join(f"{name}={value}" for name, value in variables.items())
    yield f"vllm serve --config FILE: trial {document['trial']} of study {document['study']}"
    yield f"why: {' '.join(str(document['why']).split())}"
    if settings:
        yield f"environment: {settings}"
    level = {key: parameters[key] for key in ("concurrency", "request_rate_per_s") if key in parameters}
    load = level or {key: value for key, value in workload["load"].items() if key != "prompts"}
    yield f"measured under the load: {', '.join(f'{key}={value}' for key, value in load.items())}"
    for key in document["verify"]["judged_by"]:
        metric = document["metrics"].get(key)
        if metric:
            yield f"{key}: {metric['value']:.6g} {metric['unit']} ({metric['n_runs']} runs)"
