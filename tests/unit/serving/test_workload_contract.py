"""The serving kind keeps the promises of every workload, with each shipped server."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.contracts.workload_suite import WorkloadSuite


class TestServingWorkload(WorkloadSuite):
    kind = "serving"

    def good_section(self, folder: Path) -> dict[str, Any]:
        (folder / "prompts.jsonl").write_text('{"prompt": "hello", "output_tokens": 4, "answer": "x"}\n')
        (folder / "text.txt").write_text("some words of a text")
        return {
            "kind": "serving",
            "server": "custom",
            "launch": [sys.executable, "-m", "http.server", "{port}", ["--bind", "{host}"], "{engine_args}"],
            "health": "/",
            "api": "openai",
            "start_timeout": "20 s",
            "load": {
                "prompts": "prompts.jsonl",
                "output_tokens": {"mean": 20, "sd": 5, "min": 1, "max": 40},
                "concurrency": 4,
                "requests": 200,
            },
            "slo": {"ttft_p90_ms": 800, "tpot_p90_ms": 100},
            "quality": {"perplexity_on": "text.txt", "exact_match": "prompts.jsonl"},
        }


class TestServingWorkloadThatRunsElsewhere(WorkloadSuite):
    kind = "serving"

    def good_section(self, folder: Path) -> dict[str, Any]:
        (folder / "text.txt").write_text("some words of a text")
        return {
            "kind": "serving",
            "server": "custom",
            "url": "http://localhost:8000",
            "health": "/health",
            "api": "openai_chat",
            "headers": {"Authorization": "Bearer x"},
            "load": {
                "prompts": "text.txt",
                "prompt_words": 20,
                "find": "request_rate_per_s",
                "duration": "10 s",
            },
            "slo": {"latency_p99_ms": 100},
            "quality": "none",
        }


class TestServingWorkloadOfVllm(WorkloadSuite):
    kind = "serving"

    def good_section(self, folder: Path) -> dict[str, Any]:
        model = folder / "model"
        model.mkdir(exist_ok=True)
        (model / "config.json").write_text(json.dumps({"num_attention_heads": 9, "model_type": "llama"}))
        return {
            "kind": "serving",
            "server": "vllm",
            "python": sys.executable,
            "model": "./model",
            "load": {"prompts": ["a", "b"], "request_rate_per_s": 2.5, "burstiness": 0.5, "duration": "20 s"},
            "quality": "none",
        }
