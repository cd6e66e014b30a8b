"""The memory model: what fake tensors say against PyTorch's tracker on real ones, and where shards must show."""

import json

import pytest
from conftest import BYTE_LM, SMALL_LM

from trials.contract import Purpose, TrialFailure, TrialSpec
from trials.training.memory_model import estimate, main, tracked


@pytest.fixture
def spec(tmp_path):
    def build(**config):
        workload = {"kind": "training", "task": BYTE_LM, "train_for": {"steps": 8}}
        return TrialSpec(
            "m",
            0,
            "m",
            Purpose.SEARCH,
            workload,
            {**SMALL_LM, "task.width": 64, **config},
            0,
            tmp_path,
            tmp_path,
        )

    return build


@pytest.mark.parametrize(
    "config",
    [
        {"micro_batch_size": 16, "activation_checkpointing": "full"},
        {"precision": "bf16", "gradient_accumulation_steps": 2},
        {"precision": "bf16_params", "optimizer": "sgd"},
        {"data_parallel_degree": 2, "zero_stage": 3},
    ],
    ids=str,
)
def test_the_estimate_is_near_what_the_tracker_sees_on_real_tensors(spec, config):
    guess, real = estimate(spec(**config)), tracked(spec(**config))
    assert guess.state_bytes == pytest.approx(real.state_bytes, rel=0.02)
    assert guess.peak_bytes == pytest.approx(real.peak_bytes, rel=0.10)


def test_checkpointing_and_batch_move_activations_and_leave_states(spec):
    plain, checked = estimate(spec(micro_batch_size=16)), estimate(
        spec(micro_batch_size=16, activation_checkpointing="full")
    )  # fmt: skip
    smaller = estimate(spec(micro_batch_size=4))
    assert checked.peak_bytes < plain.peak_bytes
    assert smaller.peak_bytes < plain.peak_bytes
    assert plain.parameter_bytes == checked.parameter_bytes == smaller.parameter_bytes


def test_shards_hold_their_share_without_a_second_process(spec):
    whole = estimate(spec())
    for config in (
        {"data_parallel_degree": 2, "zero_stage": 3},
        {"data_parallel_degree": 2, "zero_stage": 1},
        {"tensor_parallel_degree": 2},
    ):
        part = estimate(spec(**config))
        assert part.state_bytes < 0.8 * whole.state_bytes, config


def test_what_is_not_modelled_is_refused_by_name(spec):
    with pytest.raises(TrialFailure, match="does not know pipeline_parallel_degree=2"):
        estimate(spec(pipeline_parallel_degree=2))


def test_a_program_reads_one_line_for_each_spec(spec, tmp_path, capsys):
    (tmp_path / "a.json").write_text(spec().to_json())
    (tmp_path / "b.json").write_text(spec(compile=True).to_json())
    assert main([str(tmp_path / "a.json"), str(tmp_path / "b.json")]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    kinds = [size for name, size in found[0].items() if name not in ("peak_bytes", "state_bytes")]
    assert sum(kinds) == found[0]["peak_bytes"] > 0
    assert "compile=True" in found[1]["refused"]
