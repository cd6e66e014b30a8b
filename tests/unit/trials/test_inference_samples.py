"""Samples and the batches made of them: every sample once, the same order always, padding counted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trials.contract import TrialFailure
from trials.inference.samples import Padding, PlannedBatch, Samples, padding_waste, plan_pass, single_requests

_lengths = st.lists(st.integers(1, 40), min_size=1, max_size=60)


def texts(lengths: list[int]) -> Samples:
    """Sample i is made of the number i."""
    rows = [np.full(length, index, dtype=np.int64) for index, length in enumerate(lengths)]
    mask = [np.ones(length, dtype=np.int64) for length in lengths]
    return Samples.of({"ids": rows, "mask": mask}, {"ids": -1, "mask": 0}, "Task.evaluation_data")


@given(_lengths, st.integers(1, 9), st.sets(st.integers(1, 50)), st.booleans())
def test_a_pass_serves_every_sample_once_whole_and_unmixed(lengths, batch_size, buckets, is_fixed):
    samples, padding = texts(lengths), Padding(max(lengths), tuple(sorted(buckets)))
    planned = plan_pass(samples, padding, batch_size, is_fixed=is_fixed)
    assert sorted(index for batch in planned for index in batch.indices) == list(range(len(lengths)))
    for batch in planned:
        arrays = batch.arrays(samples)
        assert arrays["ids"].shape == arrays["mask"].shape == batch.shape
        for row, index in enumerate(batch.indices):
            assert (arrays["ids"][row, : lengths[index]] == index).all()
            assert (arrays["ids"][row, lengths[index] :] == -1).all()
            assert arrays["mask"][row].sum() == lengths[index]


@given(_lengths, st.integers(1, 9), st.sets(st.integers(1, 50)))
def test_a_fixed_engine_gets_only_whole_batches_or_single_samples(lengths, batch_size, buckets):
    padding = Padding(max(lengths), tuple(sorted(buckets)))
    planned = plan_pass(texts(lengths), padding, batch_size, is_fixed=True)
    assert {batch.rows for batch in planned} <= {1, batch_size}
    assert {batch.length for batch in planned} <= set(padding.lengths)


@given(_lengths, st.sets(st.integers(1, 50)))
def test_a_sample_is_padded_to_the_next_bucket_and_the_longest_to_itself(lengths, buckets):
    longest = max(lengths)
    padding = Padding(longest, tuple(sorted(buckets)))
    for length in lengths:
        padded = padding.of(length)
        assert length <= padded <= longest
        assert not [bucket for bucket in buckets if length <= bucket < padded]


def test_the_order_of_a_pass_mixes_lengths_and_never_changes():
    samples, padding = texts([1] * 50 + [9] * 50), Padding(9, (1,))
    planned = [plan_pass(samples, padding, 5) for _ in range(2)]
    assert planned[0] == planned[1]
    lengths = [batch.length for batch in planned[0]]
    assert lengths != sorted(lengths) and lengths != sorted(lengths, reverse=True)


def test_padding_waste_counts_positions_of_padding_and_of_rows_that_fill_up():
    samples = texts([2, 4])
    assert padding_waste(samples, [PlannedBatch((0, 1), 2, 4)]) == pytest.approx(2 / 8)
    assert padding_waste(samples, [PlannedBatch((0,), 1, 2), PlannedBatch((1,), 1, 4)]) == 0
    assert padding_waste(samples, [PlannedBatch((0, 1), 4, 4)]) == pytest.approx(10 / 16)


def test_single_requests_ask_for_every_sample_before_any_again():
    samples = texts([3, 5, 2, 7])
    requests = single_requests(samples, Padding(7, (4,)))
    seen = [next(requests)["ids"] for _ in range(8)]
    assert sorted(int(ids[0, 0]) for ids in seen[:4]) == [0, 1, 2, 3]
    assert [ids.tolist() for ids in seen[:4]] == [ids.tolist() for ids in seen[4:]]
    assert {ids.shape for ids in seen} == {(1, 4), (1, 7)}


def test_arrays_of_one_shape_need_no_padding():
    samples = Samples.of({"x": np.arange(12).reshape(6, 2)}, {}, "Task.evaluation_data")
    assert not samples.is_ragged and samples.axes == {"x": {0: "batch"}}
    planned = plan_pass(samples, Padding(0), 4)
    assert sorted(len(batch.indices) for batch in planned) == [2, 4]
    assert padding_waste(samples, planned) == 0


@pytest.mark.parametrize(
    ("inputs", "padding", "said"),
    [
        ([1, 2], {}, "returned list; it must return input name -> array"),
        ({}, {}, "it must return input name -> array"),
        ({"a": np.zeros((3, 2)), "b": np.zeros((4, 2))}, {}, r"different numbers of samples \(a: 3, b: 4\)"),
        ({"a": [np.zeros(2), np.zeros(3)]}, {}, "different lengths in a, padding names nothing"),
        ({"a": np.zeros((3, 2))}, {"a": 0}, "different lengths in nothing, padding names a"),
    ],
)
def test_samples_of_the_wrong_form_name_the_method_that_gave_them(inputs, padding, said):
    with pytest.raises(TrialFailure, match=said) as failure:
        Samples.of(inputs, padding, "Mine.evaluation_data")
    assert failure.value.message.startswith("Mine.evaluation_data ")


def test_two_sets_that_differ_in_one_element_have_other_fingerprints():
    rows = np.arange(6, dtype=np.float32).reshape(3, 2)
    changed = rows.copy()
    changed[1, 1] = 3.0001
    one, same, other = (Samples.of({"x": array}, {}, "") for array in (rows, rows.copy(), changed))
    assert one.fingerprint() == same.fingerprint() != other.fingerprint()
    assert len(set(one.row_hashes()) & set(other.row_hashes())) == 2
