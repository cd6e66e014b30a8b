import pytest

from trials.training.batch_plan import BatchPlan, BatchProblem, Horizon


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, (32, 1, 32)),
        ({"micro_batch_size": 8}, (8, 1, 8)),
        ({"gradient_accumulation_steps": 4}, (32, 4, 128)),
        ({"global_batch_size": 64}, (64, 1, 64)),
        ({"micro_batch_size": 8, "gradient_accumulation_steps": 4}, (8, 4, 32)),
        ({"micro_batch_size": 8, "global_batch_size": 64}, (8, 8, 64)),
        ({"gradient_accumulation_steps": 4, "global_batch_size": 64}, (16, 4, 64)),
        ({"micro_batch_size": 8, "gradient_accumulation_steps": 8, "global_batch_size": 64}, (8, 8, 64)),
    ],
)
def test_two_batch_sizes_give_the_third(config, expected):
    plan = BatchPlan.of(config)
    assert (plan.micro_batch_size, plan.gradient_accumulation_steps, plan.global_batch_size) == expected


def test_the_data_parallel_degree_is_part_of_the_global_batch():
    plan = BatchPlan.of({"micro_batch_size": 8, "global_batch_size": 64, "data_parallel_degree": 2})
    assert plan.gradient_accumulation_steps == 4


def test_three_sizes_that_contradict_are_refused_with_their_numbers():
    with pytest.raises(BatchProblem, match=r"global_batch_size=64 is not .*=8 x .*=4 = 32") as problem:
        BatchPlan.of({"micro_batch_size": 8, "gradient_accumulation_steps": 4, "global_batch_size": 64})
    assert problem.value.parameter == "global_batch_size"


def test_a_micro_batch_that_does_not_divide_names_those_that_do():
    with pytest.raises(BatchProblem, match="global_batch_size=64 is not a multiple of 24") as problem:
        BatchPlan.of({"micro_batch_size": 24, "global_batch_size": 64})
    assert problem.value.parameter == "micro_batch_size"
    assert problem.value.way_out == "use one of 1, 2, 4, 8, 16, 32, 64"


def test_a_micro_batch_larger_than_the_global_one_is_refused():
    with pytest.raises(BatchProblem):
        BatchPlan.of({"micro_batch_size": 128, "global_batch_size": 64})


@pytest.mark.parametrize(
    ("train_for", "samples"), [({"steps": 5}, 160), ({"samples": 100}, 100), ({"tokens": 1000}, 8)]
)
def test_a_horizon_counts_samples_and_rounds_tokens_up(train_for, samples):
    assert Horizon.of(train_for).samples(BatchPlan(32, 1), tokens_per_sample=128) == samples


def test_tokens_of_a_task_without_tokens_are_refused():
    with pytest.raises(ValueError, match="tokens_per_sample"):
        Horizon.of({"tokens": 10}).samples(BatchPlan(32, 1), tokens_per_sample=None)
