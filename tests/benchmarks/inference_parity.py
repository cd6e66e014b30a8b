"""Does measuring cost anything? ``samples_per_s`` of an inference trial against the same loop written by hand.

    python tests/benchmarks/inference_parity.py --engine torch --pairs 12
    python tests/benchmarks/inference_parity.py --engine onnxruntime --pairs 12
    python tests/benchmarks/inference_parity.py --engine openvino --precision bf16 --artifact --pairs 6

With ``--artifact`` the other arm is the exported artifact's own loader in a process without tuner: is the speed that
was confirmed the speed that is handed out?

``onnxruntime`` serves magika's file, the others the MiniLM encoder. Each pair runs both arms in fresh processes, in
alternating order, so that drift of the machine hits both. The 95% interval of the paired ratio (trial / by hand) has
to lie within 0.98 to 1.02. Needs a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import runpy
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from trials.contract import Measurement, Purpose, TrialSpec
from trials.measurement.statistics import deviation, mean, t_quantile
from trials.metrics import Key

TASKS = {
    "torch": "trials.tasks.minilm_retrieval:MiniLMRetrieval",
    "torch_compile": "trials.tasks.minilm_retrieval:MiniLMRetrieval",
    "aot_inductor": "trials.tasks.minilm_retrieval:MiniLMRetrieval",
    "onnxruntime": "trials.tasks.magika_files:MagikaFiles",
    "openvino": "trials.tasks.minilm_retrieval:MiniLMRetrieval",
}
BY_HAND = ("torch", "onnxruntime")


def main() -> int:
    """Run the pairs and print the ratio with its interval as JSON."""
    options = _options()
    if options.by_hand:
        print(json.dumps(by_hand(options)))
        return 0
    with tempfile.TemporaryDirectory() as name:
        options.cache = options.cache or str(Path(name) / "cache")
        as_trial(options)  # data and reference are made once, outside both arms
        if options.artifact:
            options.built = str(build(options, Path(name)))
        ratios = [_pair(number, options) for number in range(options.pairs)]
    logs = [math.log(ratio) for ratio in ratios]
    half = t_quantile(len(logs) - 1) * deviation(logs) / math.sqrt(len(logs))
    low, middle, high = (math.exp(mean(logs) + shift) for shift in (-half, 0.0, half))
    found = {"engine": options.engine, "ratio": middle, "low": low, "high": high, "ratios": ratios}
    print(json.dumps(found))
    return 0 if low >= 0.98 and high <= 1.02 else 1


def by_hand(options: argparse.Namespace) -> float:
    """Samples per second of the plain loop that a user would write, over the same batches."""
    if options.built:
        call, batches = _artifact_loop(options)
    else:
        call, batches = (_torch_loop if options.engine == "torch" else _onnxruntime_loop)(options)
    for batch in batches[:3]:
        call(batch)
    samples, begin = 0, time.perf_counter()
    while (passed := time.perf_counter() - begin) < options.seconds:
        for batch in batches:
            call(batch)
            samples += len(next(iter(batch.values())))
    return samples / passed


def _torch_loop(options: argparse.Namespace) -> tuple[Callable[[Any], Any], list[dict[str, np.ndarray]]]:
    import torch

    from trials.tasks.minilm_retrieval import MiniLMRetrieval

    torch.set_num_threads(options.threads)
    task = MiniLMRetrieval()
    task.cache_dir = Path(options.cache)
    model = task.model().eval()

    @torch.no_grad()
    def call(batch: dict[str, np.ndarray]) -> np.ndarray:
        return model(**{name: torch.from_numpy(array) for name, array in batch.items()}).numpy()

    return call, _cut(_texts(options), options.batch)


def _texts(options: argparse.Namespace) -> dict[str, np.ndarray]:
    """The token ids of all texts, padded to the longest of the whole data as a trial does without buckets."""
    from trials.tasks.minilm_retrieval import MiniLMRetrieval

    task = MiniLMRetrieval()
    task.cache_dir = Path(options.cache)
    tokens = task.evaluation_data()["input_ids"][: 2 * options.examples]
    longest = max(map(len, (*tokens, *task.calibration_data()["input_ids"])))
    ids = np.zeros((len(tokens), longest), dtype=np.int64)
    for row, found in zip(ids, tokens, strict=True):
        row[: len(found)] = found
    return {"input_ids": ids, "attention_mask": (ids != 0).astype(np.int64)}


def _files(options: argparse.Namespace) -> dict[str, np.ndarray]:
    from trials.tasks.magika_files import MagikaFiles

    task = MagikaFiles()
    task.cache_dir = Path(options.cache)
    return {name: rows[: options.examples] for name, rows in task.evaluation_data().items()}


def _artifact_loop(
    options: argparse.Namespace,
) -> tuple[Callable[[Any], Any], list[dict[str, np.ndarray]]]:
    loader = runpy.run_path(str(Path(options.built) / "loader.py"))
    arrays = _files(options) if options.engine == "onnxruntime" else _texts(options)
    return loader["load"](), _cut(arrays, options.batch)


def _onnxruntime_loop(
    options: argparse.Namespace,
) -> tuple[Callable[[Any], Any], list[dict[str, np.ndarray]]]:
    import onnxruntime

    from trials.tasks.magika_files import MagikaFiles

    task = MagikaFiles()
    task.cache_dir = Path(options.cache)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = options.threads
    session = onnxruntime.InferenceSession(str(task.onnx_file()), settings, ["CPUExecutionProvider"])
    return lambda batch: session.run(None, batch), _cut(_files(options), options.batch)


def _cut(arrays: dict[str, np.ndarray], size: int) -> list[dict[str, np.ndarray]]:
    count = len(next(iter(arrays.values())))
    return [
        {name: rows[begin : begin + size] for name, rows in arrays.items()} for begin in range(0, count, size)
    ]


def as_trial(options: argparse.Namespace) -> float:
    """Samples per second as a trial measures them."""
    with tempfile.TemporaryDirectory() as name:
        found = _run("trials", options, Path(name))
        return found.metrics[Key.SAMPLES_PER_S].value


def build(options: argparse.Namespace, folder: Path) -> Path:
    """The artifact of the same configuration."""
    (folder / "build").mkdir()
    _run("trials.inference.build", options, folder / "build")
    return folder / "build" / "artifact"


def _run(program: str, options: argparse.Namespace, folder: Path) -> Measurement:
    workload = {
        "kind": "inference",
        "task": TASKS[options.engine],
        "evaluate_on": options.examples,
        "window_s": options.seconds,
    }
    config = {
        "engine": options.engine,
        "precision": options.precision,
        "batch_size": options.batch,
        "threads": options.threads,
    }
    cache = Path(options.cache)
    spec = TrialSpec("parity", 0, "m", Purpose.SEARCH, workload, config, 0, folder, cache)
    (folder / "spec.json").write_text(spec.to_json())
    subprocess.run([sys.executable, "-m", program, str(folder / "spec.json")], check=True)
    return Measurement.from_json((folder / "result.json").read_text())


def _pair(number: int, options: argparse.Namespace) -> float:
    """One ratio; the arm that goes first alternates."""
    arms = {"trial": as_trial, "by hand": _by_hand_elsewhere}
    order = sorted(arms) if number % 2 else sorted(arms, reverse=True)
    found = {name: arms[name](options) for name in order}
    ratio = found["trial"] / found["by hand"]
    print(f"pair {number + 1}: {found}, ratio {ratio:.4f}", file=sys.stderr)
    return ratio


def _by_hand_elsewhere(options: argparse.Namespace) -> float:
    names = ("engine", "precision", "batch", "threads", "examples", "seconds", "cache", "built")
    command = [sys.executable, __file__, "--by-hand", *(f"--{key}={getattr(options, key)}" for key in names)]
    return float(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=sorted(TASKS), default="torch")
    parser.add_argument("--precision", default="fp32", help="only with --artifact")
    parser.add_argument("--artifact", action="store_true", help="compare with the exported artifact's loader")
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--examples", type=int, default=128)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--cache", default="", help="keep the data here (default: a folder that is deleted)")
    parser.add_argument("--by-hand", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--built", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not (options.artifact or options.built) and (
        options.precision != "fp32" or options.engine not in BY_HAND
    ):
        parser.error(f"by hand there are {', '.join(BY_HAND)} in fp32; add --artifact")
    return options


if __name__ == "__main__":
    sys.exit(main())
