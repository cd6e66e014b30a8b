"""Degrees, places and which combinations are refused before anything is launched."""

import pytest

from trials.training.batch_plan import BatchPlan, BatchProblem
from trials.training.layout import Layout
from trials.training.parallel.launch import core_shares
from trials.workloads import workload

DIGITS = {"kind": "training", "task": "trials.tasks.digits:Digits", "train_for": {"samples": 1000}}
TWO_CORES = {"cpus": 2, "gpus": 0}


def rejection(config, world=TWO_CORES):
    return workload("training").rejection(DIGITS, config, world)


def test_the_world_is_the_product_of_the_degrees():
    layout = Layout.of(
        {"data_parallel_degree": 4, "tensor_parallel_degree": 2, "pipeline_parallel_degree": 3}
    )
    assert layout.world_size == 24
    assert layout.shard_degree == 4
    assert Layout.of({}).world_size == 1


def test_every_rank_has_a_place_of_its_own_and_tensor_ranks_are_neighbours():
    layout = Layout(data_degree=2, tensor_degree=2, pipeline_degree=2)
    places = [layout.place(rank) for rank in range(8)]
    assert len(set(places)) == 8
    assert (places[0].tensor, places[1].tensor) == (0, 1)
    assert {place.pipeline for place in places[:4]} == {0}


def test_ranks_get_equal_and_disjoint_shares_of_the_cores():
    assert core_shares([4, 5, 6, 7, 8], 2) == [[4, 5], [6, 7]]
    assert core_shares([0, 1], 2) == [[0], [1]]
    assert core_shares([3], 2) == [[3], [3]]


@pytest.mark.parametrize(
    ("config", "parameter", "way_out"),
    [
        ({"data_parallel_degree": 4}, "data_parallel_degree", "use 1, 2 or 3"),
        ({"data_parallel_degree": 2, "threads": 2}, "threads", "use at most 1"),
        ({"zero_stage": 2}, "zero_stage", "use 0, or a data_parallel_degree of at least 2"),
        ({"data_parallel_degree": 2, "shard_degree": 2}, "shard_degree", "use zero_stage 2 or 3"),
        ({"data_parallel_degree": 2, "zero_stage": 3, "shard_degree": 3}, "shard_degree", "use 1 or 2"),
        ({"gradient_compression": "fp16"}, "gradient_compression", "use none"),
        (
            {"data_parallel_degree": 2, "zero_stage": 3, "gradient_compression": "powersgd"},
            "gradient_compression",
            "zero_stage 0 or 1",
        ),
        ({"data_parallel_degree": 2, "zero_stage": 2, "compile": True}, "compile", "use compile: false"),
        (
            {"data_parallel_degree": 2, "zero_stage": 3, "activation_offload": "cpu"},
            "activation_offload",
            "use none",
        ),
        (
            {"data_parallel_degree": 2, "zero_stage": 1, "optimizer_offload": "cpu"},
            "optimizer_offload",
            "zero_stage 0",
        ),
    ],
    ids=str,
)
def test_an_illegal_mix_is_refused_with_the_legal_values(config, parameter, way_out):
    found = rejection({"micro_batch_size": 4, **config}, {"cpus": 3, "gpus": 0})
    assert found.key == parameter
    assert way_out in found.way_out


@pytest.mark.parametrize(
    "config",
    [
        {"data_parallel_degree": 2, "gradient_compression": "fp16", "zero_stage": 1},
        {"data_parallel_degree": 2, "zero_stage": 3, "shard_degree": 2, "activation_checkpointing": "full"},
        {"data_parallel_degree": 2, "compile": True, "threads": 1},
    ],
    ids=str,
)
def test_a_legal_mix_is_let_through(config):
    assert rejection({"micro_batch_size": 4, **config}) is None


LM = {"kind": "training", "task": "trials.tasks.byte_lm:ByteLM", "train_for": {"samples": 1000}}


@pytest.mark.parametrize(
    ("config", "parameter", "way_out"),
    [
        ({"tensor_parallel_degree": 3}, "tensor_parallel_degree", "use 1, 2 or 4"),
        ({"pipeline_parallel_degree": 3}, "pipeline_parallel_degree", "use 1, 2 or 4"),
        (
            {"pipeline_parallel_degree": 2, "pipeline_schedule": "interleaved", "task.depth": 2},
            "pipeline_parallel_degree",
            "use 1",
        ),
        ({"pipeline_parallel_degree": 2, "global_batch_size": 4}, "micro_batch_size", "use 1 or 2, or gpipe"),
        (
            {
                "pipeline_parallel_degree": 2,
                "pipeline_schedule": "interleaved",
                "gradient_accumulation_steps": 5,
                "micro_batch_size": 4,
            },
            "micro_batch_size",
            "use 1, 2, 5, 10 or 20, or gpipe",
        ),
        (
            {"tensor_parallel_degree": 2, "data_parallel_degree": 2, "zero_stage": 1},
            "zero_stage",
            "use 0, 2 or 3",
        ),
        (
            {"expert_parallel_degree": 2, "data_parallel_degree": 2},
            "expert_parallel_degree",
            "use 1",
        ),
        (
            {"expert_parallel_degree": 2, "data_parallel_degree": 3, "task.experts": 4},
            "expert_parallel_degree",
            "use 1 or 3",
        ),
        ({"tensor_parallel_degree": 2, "precision": "fp16"}, "precision", "use fp32 or bf16"),
    ],
    ids=str,
)
def test_degrees_divide_the_tasks_sizes_and_fill_the_pipeline(config, parameter, way_out):
    found = workload("training").rejection(LM, {"micro_batch_size": 4, **config}, {"cpus": 8, "gpus": 0})
    assert (found.key, found.way_out) == (parameter, way_out)


def test_gpus_limit_the_world_where_a_trial_has_some():
    config = {"data_parallel_degree": 4, "micro_batch_size": 4}
    assert rejection(config, {"cpus": 2, "gpus": 4}) is None
    assert "2 GPUs" in rejection(config, {"cpus": 64, "gpus": 2}).message


def test_the_global_batch_is_divided_among_the_ranks_or_refused():
    plan = BatchPlan.of({"global_batch_size": 16, "micro_batch_size": 4, "data_parallel_degree": 2})
    assert plan.gradient_accumulation_steps == 2
    with pytest.raises(BatchProblem) as problem:
        BatchPlan.of({"global_batch_size": 16, "micro_batch_size": 16, "data_parallel_degree": 2})
    assert problem.value.way_out == "use one of 1, 2, 4, 8"
    with pytest.raises(BatchProblem) as problem:
        BatchPlan.of({"global_batch_size": 15, "data_parallel_degree": 2})
    assert problem.value.parameter == "data_parallel_degree"


@pytest.mark.parametrize(
    ("samples", "degree"), [(1, 1), (7, 1), (1, 2), (3, 2), (8, 2), (15, 2), (1, 3), (8, 3), (23, 3)]
)
def test_the_parts_of_a_short_step_hold_every_sample_once_and_weigh_by_their_size(samples, degree):
    plan = BatchPlan(4, 2, degree)
    ranks = [plan.short_parts(samples, rank) for rank in range(degree)]
    assert len({len(parts) for parts in ranks}) == 1
    counted = [part for parts in ranks for part in parts if part.weight > 0]
    seen = [number for part in counted for number in range(part.begin, part.begin + part.size)]
    assert sorted(seen) == list(range(samples))
    assert sum(part.weight for part in counted) / degree == pytest.approx(1)
    assert all(part.begin < samples and 1 <= part.size <= 4 for parts in ranks for part in parts)


def test_a_full_step_is_shared_so_that_every_sample_is_taken_once():
    plan = BatchPlan(4, 2, 2)
    taken = [
        n for rank in (0, 1) for part in plan.parts(rank) for n in range(part.begin, part.begin + part.size)
    ]
    assert sorted(taken) == list(range(plan.global_batch_size))
