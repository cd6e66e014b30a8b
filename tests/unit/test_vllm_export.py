"""The export for ``vllm serve --config``; ``tests/long`` starts the real server from one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from trials.serving.servers.vllm import server_flags
from tuner.export import TargetError, render

PARAMETERS: dict[str, Any] = {
    "engine_args.max_num_seqs": 16,
    "engine_args.dtype": "bfloat16",
    "engine_args.enable_prefix_caching": False,
    "engine_args.enable_chunked_prefill": True,
    "engine_args.allowed_origins": ["a", "b"],
    "tensor_parallel_degree": 2,
    "speculative": {"method": "ngram", "num_speculative_tokens": 3},
    "env.VLLM_CPU_NUM_OF_RESERVED_CPU": 1,
}


def document(**workload: Any) -> Mapping[str, Any]:
    section = {
        "kind": "serving",
        "server": "vllm",
        "model": "some/model",
        "load": {"prompts": "p", "concurrency": 8},
    }
    return {
        "study": "s",
        "trial": 7,
        "why": "knee\nof the front",
        "metrics": {"output_tokens_per_s": {"value": 123.4, "unit": "tokens/s", "n_runs": 3}},
        "verify": {
            "workload": {**section, "env": {"A": "1"}, **workload},
            "parameters": PARAMETERS,
            "judged_by": ["output_tokens_per_s", "perplexity"],
        },
    }


def test_the_file_has_the_servers_long_names_and_its_own_types() -> None:
    options = yaml.safe_load(render("vllm", document()))
    assert options == {
        "model": "some/model",
        "max-num-seqs": 16,
        "dtype": "bfloat16",
        "enable-prefix-caching": False,
        "enable-chunked-prefill": True,
        "allowed-origins": ["a", "b"],
        "tensor-parallel-size": 2,
        "speculative-config": {"method": "ngram", "num_speculative_tokens": 3},
    }


def test_the_head_says_where_it_comes_from_what_was_measured_and_under_which_load() -> None:
    head = [line for line in render("vllm", document()).splitlines() if line.startswith("#")]
    assert head == [
        "# vllm serve --config FILE: trial 7 of study s",
        "# why: knee of the front",
        "# environment: A=1 VLLM_CPU_NUM_OF_RESERVED_CPU=1",
        "# measured under the load: concurrency=8",
        "# output_tokens_per_s: 123.4 tokens/s (3 runs)",
    ]


def test_the_trials_own_command_line_says_the_same() -> None:
    assert server_flags(PARAMETERS) == [
        *("--max-num-seqs", "16", "--dtype", "bfloat16", "--enable-chunked-prefill"),
        *("--allowed-origins", "a", "b", "--no-enable-prefix-caching", "--tensor-parallel-size", "2"),
        *("--speculative-config", '{"method": "ngram", "num_speculative_tokens": 3}'),
    ]


def test_a_study_of_something_else_is_refused() -> None:
    with pytest.raises(TargetError, match="this study tuned custom, no vLLM server"):
        render("vllm", document(server="custom"))
    with pytest.raises(TargetError, match="this study tuned training"):
        render("vllm", {**document(), "verify": {"workload": {"kind": "training"}, "parameters": {}}})
