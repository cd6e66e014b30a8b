"""vLLM's OpenAI-compatible server. Its flags are parameters as ``engine_args.NAME`` (max_num_seqs, dtype, ...)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trials.command.template import Template, known_values, variables
from trials.contract import TrialSpec
from trials.serving.reading import Reader, absolute
from trials.serving.servers.base import COUNTERS_TIMEOUT_S, ENGINE_ARGS, Launch, flags
from trials.serving.servers.custom import LOOPBACK, environment, program
from trials.workloads.base import Knob, WorkloadProblem

SPECULATIVE, TENSOR_PARALLEL = "speculative", "tensor_parallel_degree"
MODULE = "vllm.entrypoints.openai.api_server"
_OWN_FLAGS = ("model", "host", "port", "served_model_name", "tensor_parallel_size", "speculative_config")
_KNOBS = (
    Knob(TENSOR_PARALLEL, int, 1, "devices that share each layer (--tensor-parallel-size)", low=1),
    Knob(
        SPECULATIVE,
        dict,
        None,
        "speculative decoding, as --speculative-config takes it: {method: ngram, num_speculative_tokens: 3}",
    ),
)
_SAMPLE = re.compile(r"^(vllm:[a-z0-9_]+)(?:\{[^}]*\})? ([0-9.eE+-]+)$", re.MULTILINE)
_COUNTERS = (
    "kv_cache_usage_perc", "num_preemptions_total", "prefix_cache_queries_total", "prefix_cache_hits_total",
    "spec_decode_num_draft_tokens_total", "spec_decode_num_accepted_tokens_total", "prompt_tokens_total",
    "generation_tokens_total", "num_requests_running", "num_requests_waiting",
)  # fmt: skip


class VllmServer:
    """``python -m vllm.entrypoints.openai.api_server`` of the Python environment that ``python`` names."""

    name = "vllm"
    help = "vLLM, by its OpenAI-compatible server"
    apis = ("openai", "openai_chat", "openai_embeddings")

    def section_keys(self) -> Sequence[str]:
        """``python`` and ``model`` are required."""
        return ("python", "model", "env")

    def resolve(self, reader: Reader, folder: Path) -> dict[str, Any]:
        """The section's keys with absolute paths; a model may be a folder or a name."""
        found: dict[str, Any] = {}
        python = reader.text("python") or ""
        if reader.raw.get("python") is None:
            reader.problem(
                "python", "is missing", "write python: .engines/vllm/bin/python, where vllm is installed"
            )
        elif python:
            found["python"] = program(reader, "python", python, folder)
        model = reader.text("model") or ""
        if reader.raw.get("model") is None:
            reader.problem("model", "is missing", "write the folder of a model, or its name")
        elif model.startswith(("~", ".", "/")):
            found["model"] = absolute(model, folder)
            if not Path(found["model"]).exists():
                reader.problem(
                    "model", f"{found['model']} is not there", "paths are relative to the space file"
                )
        environment(reader)
        return found

    def knobs(self, section: Mapping[str, Any]) -> Mapping[str, Knob]:
        """Tensor parallelism and speculative decoding; the engine's flags are an open family."""
        return {knob.name: knob for knob in _KNOBS}

    def accepts_unknown_parameters(self, section: Mapping[str, Any]) -> bool:
        """Never: a flag is written ``engine_args.NAME``."""
        return False

    def facts(self, section: Mapping[str, Any]) -> Mapping[str, Any]:
        """Whole numbers and words of the model's ``config.json``, where the model is a folder."""
        config = _model_config(section)
        return {
            f"model.{key}": value for key, value in config.items() if isinstance(value, int | float | str)
        }

    def rejection(
        self, section: Mapping[str, Any], config: Mapping[str, Any], world: Mapping[str, Any]
    ) -> WorkloadProblem | None:
        """Degrees that do not divide the heads, and flags that the trial sets itself."""
        for name in config:
            if name.removeprefix(f"{ENGINE_ARGS}.") in _OWN_FLAGS and name.startswith(ENGINE_ARGS):
                return WorkloadProblem(
                    name, "is set by the trial itself", f"delete it, or use {_KNOBS[0].name}"
                )
        degree, heads = config.get(TENSOR_PARALLEL, 1), _model_config(section).get("num_attention_heads")
        if isinstance(heads, int) and heads % degree:
            fitting = [str(n) for n in range(1, heads + 1) if heads % n == 0]
            return WorkloadProblem(
                TENSOR_PARALLEL,
                f"{TENSOR_PARALLEL}={degree} does not divide num_attention_heads={heads}",
                f"use {', '.join(fitting)}",
            )
        return None

    def launch(self, spec: TrialSpec, port: int) -> Launch:
        """The module's command line."""
        section = spec.workload
        template = Template(known_values(spec))
        return Launch(
            f"http://{LOOPBACK}:{port}",
            "/health",
            (
                str(section["python"]), "-m", MODULE, "--host", LOOPBACK, "--port", str(port),
                "--model", str(section["model"]), *server_flags(spec.config),
            ),
            variables(spec.config, section.get("env") or {}, template),
            str(spec.trial_dir),
        )  # fmt: skip

    def model(self, section: Mapping[str, Any]) -> str:
        """vLLM serves a model under the name that it was started with."""
        return str(section["model"])

    def counters(self, base_url: str) -> Mapping[str, float]:
        """What ``/metrics`` says of cache, preemptions, prefix hits and draft tokens."""
        from http.client import HTTPException  # here: a check needs no client

        from trials.serving.process import get

        try:
            status, body = get(f"{base_url}/metrics", COUNTERS_TIMEOUT_S)
        except (OSError, HTTPException):
            return {}
        found: dict[str, float] = {}
        for name, value in _SAMPLE.findall(body.decode("utf-8", "replace")) if status == 200 else ():
            key = name.removeprefix("vllm:")
            if key in _COUNTERS:
                found[key] = found.get(key, 0.0) + float(value)
        return found


def server_flags(config: Mapping[str, Any]) -> list[str]:
    """The flags of ``vllm serve`` for a configuration; false is said as ``--no-...``, since defaults may be true."""
    words = flags(config)
    for name, value in config.items():
        if name.startswith(f"{ENGINE_ARGS}.") and value is False:
            words.append("--no-" + name.removeprefix(f"{ENGINE_ARGS}.").replace("_", "-"))
    if config.get(TENSOR_PARALLEL):
        words += ["--tensor-parallel-size", str(config[TENSOR_PARALLEL])]
    if config.get(SPECULATIVE):
        words += ["--speculative-config", json.dumps(config[SPECULATIVE])]
    return words


def _model_config(section: Mapping[str, Any]) -> Mapping[str, Any]:
    path = Path(str(section.get("model", ""))) / "config.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
