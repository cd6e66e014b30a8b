"""What Records promise on every kind of database: subclass RecordsSuite and give it a ``location``."""

from __future__ import annotations

import math
import os
import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trials.contract import FailureKind, Measurement, MetricValue, Outcome, Purpose
from trials.metrics import Direction
from tuner.objectives import Bound, Constraint, LimitKind, Objective
from tuner.records.errors import (
    DuplicateConfig,
    RecordsError,
    RecordsInUse,
    RecordsUnavailable,
    UnknownStudy,
)
from tuner.records.owner import Owner
from tuner.records.repository import Records
from tuner.records.rows import Forecast

OBJECTIVES = (Objective("tokens_per_s", Direction.MAXIMIZE), Objective("val_loss_nats", Direction.MINIMIZE))
CONSTRAINTS = (Constraint("peak_memory_gib", LimitKind.MAX, 6.0, 27),)
DEFINITION = {"study": "lm", "parameters": {"precision": ["fp32", "bf16"], "depth": [1, 2.0, True, None]}}

_text = st.text(max_size=12)
_plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3),
    max_leaves=6,
)
_numbers = st.floats()
_metrics = st.builds(
    MetricValue,
    value=_numbers,
    unit=_text,
    n=st.none() | st.integers(0, 2**40),
    low=st.none() | _numbers,
    high=st.none() | _numbers,
    method=_text,
    flags=st.lists(_text, max_size=2).map(tuple),
)
_measurements = st.builds(
    Measurement,
    outcome=st.sampled_from(Outcome),
    failure_kind=st.none() | st.sampled_from(FailureKind),
    message=_text,
    metrics=st.dictionaries(_text, _metrics, max_size=3),
    phases=st.dictionaries(_text, _numbers, max_size=3),
    proof=st.dictionaries(_text, _plain, max_size=3),
    facts=st.dictionaries(_text, _plain, max_size=3),
    environment=st.dictionaries(_text, _plain, max_size=3),
    examples=st.dictionaries(_text, st.lists(_numbers, max_size=5).map(tuple), max_size=2),
    warnings=st.lists(_text, max_size=2).map(tuple),
)
_often = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def create(records: Records, name: str = "lm", **changes: Any) -> None:
    """A study like any other."""
    given_: dict[str, Any] = {
        "file_text": "study: lm\n",
        "file_path": "/home/me/lm.yaml",
        "definition": DEFINITION,
        "objectives": OBJECTIVES,
        "constraints": CONSTRAINTS,
    }
    records.create_study(name, **{**given_, **changes})


def start_over(records: Records, name: str = "lm", definition: dict[str, Any] | None = None) -> int:
    """A new generation of it."""
    return records.new_generation(
        name,
        "study: lm # edited\n",
        "/home/me/lm.yaml",
        definition or {"study": "lm"},
        OBJECTIVES,
        CONSTRAINTS,
    )


def measure(
    records: Records,
    number: int,
    measurement: Measurement | None = None,
    study: str = "lm",
    purpose: Purpose = Purpose.SEARCH,
) -> str:
    """Start and finish a measurement; returns its identifier."""
    measurement_id = records.start_measurement(study, number, purpose, 0, f"/runs/{study}/{number}")
    records.finish_measurement(measurement_id, measurement or complete(1.0))
    return measurement_id


def complete(value: float) -> Measurement:
    """A measurement that went well."""
    return Measurement(Outcome.COMPLETE, metrics={"tokens_per_s": MetricValue(value, "tokens/s", 40)})


def same(left: Any, right: Any) -> bool:
    """Equal in value and type all the way down; NaN equals NaN, 0.0 is not -0.0, order of keys counts."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return (math.isnan(left) and math.isnan(right)) or (
            left == right and math.copysign(1, left) == math.copysign(1, right)
        )
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, MetricValue):
        return same(list(vars(left).values()), list(vars(right).values()))
    return bool(left == right)


class RecordsSuite:
    """Tests that every database must pass."""

    @pytest.fixture
    def location(self, tmp_path: Path) -> str:
        """A path or URL of a database with nothing in it."""
        raise NotImplementedError("a subclass gives the location of an empty database")

    @pytest.fixture
    def records(self, location: str) -> Any:
        with Records.open(location) as opened:
            yield opened

    # --- studies

    def test_a_new_study_is_read_back_as_it_was_given(self, records: Records) -> None:
        create(records)
        study = records.study("lm")
        assert (study.name, study.generation, study.file_text) == ("lm", 1, "study: lm\n")
        assert study.file_path == "/home/me/lm.yaml"
        assert same(study.definition, DEFINITION)
        assert (study.objectives, study.constraints) == (OBJECTIVES, CONSTRAINTS)
        assert (study.bounds, study.reference_point, study.stopped_because) == (None, None, None)
        assert (study.trials, study.rejected, study.notes) == ((), {}, {})

    def test_times_come_out_in_utc_and_move_forward_with_every_write(self, records: Records) -> None:
        create(records)
        before = records.study("lm")
        assert before.created_at.utcoffset() == timedelta(0)
        records.add_trial("lm", {"precision": "fp32"}, "baseline")
        after = records.study("lm")
        assert (after.created_at, after.updated_at > before.updated_at) == (before.created_at, True)

    def test_a_study_is_not_created_twice(self, records: Records) -> None:
        create(records)
        with pytest.raises(RecordsError, match="'lm' exists"):
            create(records)

    def test_an_unknown_study_is_answered_with_the_nearest_names(self, records: Records) -> None:
        create(records, "lm-training")
        with pytest.raises(UnknownStudy, match="did you mean lm-training"):
            records.study("lm-trainin")
        with pytest.raises(UnknownStudy, match="recorded are: lm-training"):
            records.study("something else")
        with pytest.raises(UnknownStudy, match="no such generation"):
            records.study("lm-training", 7)

    def test_writing_to_an_unknown_study_is_refused(self, records: Records) -> None:
        with pytest.raises(UnknownStudy, match="recorded are: none"):
            records.add_trial("lm", {}, "user")

    def test_limits_are_frozen_once(self, records: Records) -> None:
        create(records)
        bounds = (Bound("val_loss_nats", True, 2.02, "val_loss_nats <= baseline + 0.02"),)
        records.freeze("lm", bounds, {"tokens_per_s": 10.0, "val_loss_nats": math.inf})
        records.freeze("lm", bounds, {"tokens_per_s": 10.0, "val_loss_nats": math.inf})
        study = records.study("lm")
        assert study.bounds == bounds
        assert study.reference_point == {"tokens_per_s": 10.0, "val_loss_nats": math.inf}
        with pytest.raises(RecordsError, match="frozen already"):
            records.freeze("lm", (replace(bounds[0], value=3.0),), None)
        assert records.study("lm").bounds == bounds

    def test_a_study_without_limits_is_frozen_with_none(self, records: Records) -> None:
        create(records, constraints=())
        records.freeze("lm", (), None)
        assert (records.study("lm").bounds, records.study("lm").reference_point) == ((), None)

    def test_rejections_add_up_per_rule(self, records: Records) -> None:
        create(records)
        records.count_rejected("lm", {"a <= b": 2, "not (c and d)": 1})
        records.count_rejected("lm", {"a <= b": 3})
        assert records.study("lm").rejected == {"a <= b": 5, "not (c and d)": 1}

    def test_notes_are_replaced_by_key_and_keep_their_types(self, records: Records) -> None:
        create(records)
        records.note("lm", "mlflow", {"run": "abc", "tries": 1})
        records.note("lm", "share", 1.0)
        records.note("lm", "mlflow", {"run": "def", "tries": True})
        assert same(records.study("lm").notes, {"mlflow": {"run": "def", "tries": True}, "share": 1.0})

    def test_a_study_says_why_it_stopped_until_it_goes_on(self, records: Records) -> None:
        create(records)
        records.set_stopped("lm", "the baseline failed: \x00\ud800 garbage of a log")
        assert records.study("lm").stopped_because == "the baseline failed: ?? garbage of a log"
        records.set_stopped("lm", None)
        assert records.study("lm").stopped_because is None

    def test_only_some_trials_can_be_read(self, records: Records) -> None:
        create(records)
        create(records, "other")
        for x in range(4):
            measure(records, records.add_trial("lm", {"x": x}, "tpe"))
            measure(records, records.add_trial("other", {"x": x}, "tpe"), study="other")
        whole = records.study("lm")
        assert records.study("lm", only=(3, 1, 99)).trials == (whole.trials[1], whole.trials[3])
        assert records.study("lm", only=()).trials == ()

    # --- trials

    def test_what_was_expected_of_a_trial_is_kept_and_taken_over(self, records: Records) -> None:
        create(records)
        forecast = Forecast({"tokens_per_s": (100.0, 90.0, math.inf), "val_loss_nats": (2.0, 1.5, 2.5)}, 0.75)
        records.add_trial("lm", {"x": 1}, "exploit", forecast)
        records.add_trial("lm", {"x": 2}, "random")
        records.add_trial("lm", {"x": 3}, "explore", Forecast({}))
        assert [trial.forecast for trial in records.study("lm").trials] == [forecast, None, Forecast({})]
        start_over(records)
        records.reuse("lm", [0])
        assert records.study("lm").trials[0].forecast == forecast

    def test_trials_are_numbered_from_zero_in_each_study(self, records: Records) -> None:
        create(records)
        create(records, "other")
        assert [records.add_trial("lm", {"x": x}, "tpe") for x in range(3)] == [0, 1, 2]
        assert records.add_trial("other", {"x": 0}, "baseline") == 0

    def test_a_known_configuration_is_not_added_again(self, records: Records) -> None:
        create(records)
        records.add_trial("lm", {"a": 1, "b": 2}, "baseline")
        with pytest.raises(DuplicateConfig, match="trial 0") as refused:
            records.add_trial("lm", {"b": 2, "a": 1}, "tpe")
        assert refused.value.number == 0
        assert len(records.study("lm").trials) == 1

    def test_one_and_one_point_zero_and_true_and_null_are_four_configurations(self, records: Records) -> None:
        create(records)
        values = [1, 1.0, True, None, "1"]
        assert [records.add_trial("lm", {"x": value}, "tpe") for value in values] == [0, 1, 2, 3, 4]
        assert same([trial.config["x"] for trial in records.study("lm").trials], values)

    def test_a_configuration_of_any_length_is_found_again(self, records: Records) -> None:
        create(records)
        long = {f"engine_args.option_{number}": "x" * 200 for number in range(100)}
        records.add_trial("lm", long, "user")
        with pytest.raises(DuplicateConfig):
            records.add_trial("lm", long, "user")

    def test_a_configuration_that_is_not_plain_is_refused(self, records: Records) -> None:
        create(records)
        for value in (math.nan, math.inf, Path("/tmp"), {1, 2}):
            with pytest.raises(RecordsError, match="plain finite values"):
                records.add_trial("lm", {"x": value}, "user")

    def test_any_configuration_comes_back_unchanged(self, records: Records) -> None:
        create(records)

        @_often
        @given(st.dictionaries(_text, _plain, max_size=4))
        def holds(config: dict[str, Any]) -> None:
            try:
                number = records.add_trial("lm", config, "tpe")
            except DuplicateConfig as known:
                number = known.number
            assert {**config}.keys() == records.study("lm").trials[number].config.keys()
            assert same(_ordered(records.study("lm").trials[number].config), _ordered(config))

        holds()

    # --- measurements

    def test_a_measurement_that_was_started_is_seen_as_not_ended(self, records: Records) -> None:
        create(records)
        records.add_trial("lm", {"x": 1}, "baseline")
        measurement_id = records.start_measurement("lm", 0, Purpose.BASELINE, 2**70, Path("/runs/0"), 2)
        (found,) = records.study("lm").trials[0].measurements
        assert (found.measurement_id, found.trial_number, found.purpose) == (
            measurement_id,
            0,
            Purpose.BASELINE,
        )
        assert (found.seed, found.log_dir, found.round_number) == (2**70, "/runs/0", 2)
        assert (found.outcome, found.ended_at, found.metrics, found.is_discarded) == (None, None, {}, False)
        assert found.started_at.utcoffset() == timedelta(0)

    def test_any_measurement_comes_back_unchanged(self, records: Records) -> None:
        create(records)
        records.add_trial("lm", {"x": 1}, "baseline")

        @_often
        @given(_measurements)
        def holds(measurement: Measurement) -> None:
            measurement_id = measure(records, 0, measurement)
            found = records.study("lm").trials[0].measurements[-1]
            assert found.measurement_id == measurement_id
            for name in ("outcome", "failure_kind", "message", "warnings"):
                assert getattr(found, name) == getattr(measurement, name)
            for name in ("metrics", "phases", "proof", "facts", "environment"):
                assert same(dict(getattr(found, name)), dict(getattr(measurement, name))), name
            assert same(records.examples(measurement_id), dict(measurement.examples))

        holds()

    def test_numbers_that_are_not_finite_survive(self, records: Records) -> None:
        create(records)
        records.add_trial("lm", {"x": 1}, "baseline")
        values = (math.nan, math.inf, -math.inf, 1e308, 5e-324, -0.0)
        metrics = {
            f"m{i}": MetricValue(value, "s", low=-math.inf, high=value) for i, value in enumerate(values)
        }
        measure(records, 0, Measurement(Outcome.FAILED, FailureKind.NON_FINITE, metrics=metrics))
        found = records.study("lm").trials[0].measurements[0].metrics
        assert same(dict(found), metrics)

    def test_odd_bytes_of_a_log_do_not_lose_a_measurement(self, records: Records) -> None:
        create(records)
        records.add_trial("lm", {"x": 1}, "baseline")
        message = "exit 9: \x00 \ud800 \U0001f600 'quoted'"
        measure(records, 0, Measurement.failed(FailureKind.CRASH, message))
        assert records.study("lm").trials[0].measurements[0].message == message

    def test_measurements_are_in_the_order_they_were_started(self, records: Records) -> None:
        create(records)
        for x in range(2):
            records.add_trial("lm", {"x": x}, "tpe")
        started = [
            records.start_measurement("lm", x, Purpose.CONFIRM, 0, "/runs", r)
            for r in range(3)
            for x in (1, 0)
        ]
        for measurement_id in reversed(started):
            records.finish_measurement(measurement_id, complete(1.0))
        rounds = [[m.round_number for m in trial.measurements] for trial in records.study("lm").trials]
        assert rounds == [[0, 1, 2], [0, 1, 2]]

    def test_an_ending_may_be_said_twice_but_not_changed(self, records: Records) -> None:
        create(records)
        records.add_trial("lm", {"x": 1}, "baseline")
        measurement_id = measure(records, 0, complete(1.0))
        records.finish_measurement(measurement_id, complete(1.0))
        with pytest.raises(RecordsError, match="ended as complete already"):
            records.finish_measurement(measurement_id, complete(2.0))
        assert len(records.study("lm").trials[0].measurements) == 1

    def test_a_discarded_measurement_stays_and_is_marked(self, records: Records) -> None:
        create(records)
        records.add_trial("lm", {"x": 1}, "baseline")
        later = measure(records, 0)
        cold = records.start_measurement("lm", 0, Purpose.BASELINE, 0, "/runs/cold")
        records.finish_measurement(cold, complete(1.0), is_discarded=True)
        records.discard(later)
        assert [m.is_discarded for m in records.study("lm").trials[0].measurements] == [True, True]

    def test_unknown_trials_and_measurements_are_refused(self, records: Records) -> None:
        create(records)
        with pytest.raises(UnknownStudy, match="no trial 3"):
            records.start_measurement("lm", 3, Purpose.SEARCH, 0, "/runs")
        for call in (
            records.discard,
            records.examples,
            lambda key: records.finish_measurement(key, complete(1.0)),
        ):
            with pytest.raises(UnknownStudy, match="no measurement 'nothing'"):
                call("nothing")

    # --- generations

    def test_a_new_generation_starts_empty_and_the_old_one_stays_readable(self, records: Records) -> None:
        create(records)
        records.add_trial("lm", {"x": 1}, "baseline")
        point = {"tokens_per_s": 1.0, "val_loss_nats": 9.0}
        records.freeze("lm", (), point)
        assert start_over(records) == 2
        new, old = records.study("lm"), records.study("lm", 1)
        assert (new.generation, new.trials, new.bounds, new.reference_point) == (2, (), None, None)
        assert (old.generation, len(old.trials), old.reference_point) == (1, 1, point)
        assert records.add_trial("lm", {"x": 1}, "baseline") == 0

    def test_reused_trials_bring_their_ended_measurements_along(self, records: Records) -> None:
        create(records)
        for x in range(4):
            records.add_trial("lm", {"x": x}, "tpe")
        measured = replace(complete(5.0), environment={"cpu": "x"}, examples={"accuracy": (0.0, 1.0)})
        measure(records, 1, measured)
        measure(records, 3, Measurement.failed(FailureKind.CRASH, "exit 9"))
        records.start_measurement("lm", 3, Purpose.RETRY, 0, "/runs")
        start_over(records)
        records.add_trial("lm", {"x": 3}, "baseline")
        assert records.reuse("lm", [3, 1]) == {3: 0, 1: 1}
        first, second = records.study("lm").trials
        assert (first.config, first.proposed_by, first.reused_from) == ({"x": 3}, "baseline", None)
        assert [m.outcome for m in first.measurements] == [Outcome.FAILED]
        assert (second.config, second.proposed_by, second.reused_from) == ({"x": 1}, "tpe", 1)
        copy, original = second.measurements[0], records.study("lm", 1).trials[1].measurements[0]
        assert replace(copy, measurement_id=original.measurement_id) == original
        assert copy.measurement_id != original.measurement_id
        assert records.examples(copy.measurement_id) == {"accuracy": (0.0, 1.0)}
        assert records.add_trial("lm", {"x": 9}, "tpe") == 2

    def test_measuring_a_reused_trial_again_leaves_the_old_generation_alone(self, records: Records) -> None:
        create(records)
        records.add_trial("lm", {"x": 1}, "baseline")
        measure(records, 0)
        start_over(records)
        records.reuse("lm", [0])
        measure(records, 0)
        assert [len(records.study("lm", g).trials[0].measurements) for g in (1, 2)] == [1, 2]

    def test_reusing_what_is_not_there_is_refused_and_changes_nothing(self, records: Records) -> None:
        create(records)
        records.add_trial("lm", {"x": 1}, "baseline")
        with pytest.raises(UnknownStudy):
            records.reuse("lm", [0])
        start_over(records)
        with pytest.raises(UnknownStudy, match="no trial 5"):
            records.reuse("lm", [0, 5])
        with pytest.raises(RecordsError, match="its own trials"):
            records.reuse("lm", [0], from_generation=2)
        assert records.study("lm").trials == ()

    # --- the list

    def test_the_list_holds_the_latest_generation_of_each_study_newest_first(self, records: Records) -> None:
        create(records, "old")
        create(records, "lm")
        create(records, "young")
        start_over(records, "lm")
        listed = records.studies()
        assert [(s.name, s.generation) for s in listed] == [("lm", 2), ("young", 1), ("old", 1)]
        assert all(s.created_at.utcoffset() == timedelta(0) for s in listed)
        assert Records.studies(records)[0].updated_at == records.study("lm").updated_at

    def test_the_list_counts_trials_by_their_best_outcome(self, records: Records) -> None:
        create(records)
        create(records, "empty")
        endings: list[list[Measurement | None]] = [
            [complete(1.0), complete(2.0)],
            [Measurement.failed(FailureKind.CRASH, "x"), complete(1.0)],
            [complete(1.0), Measurement.failed(FailureKind.CRASH, "x")],
            [Measurement.failed(FailureKind.CRASH, "x")],
            [Measurement(Outcome.PRUNED)],
            [None],
            [],
        ]
        for number, given_ in enumerate(endings):
            records.add_trial("lm", {"x": number}, "tpe")
            for ending in given_:
                if ending is None:
                    records.start_measurement("lm", number, Purpose.SEARCH, 0, "/runs/running")
                else:
                    measure(records, number, ending)
        records.set_stopped("lm", "budget")
        by_name = {s.name: s for s in records.studies()}
        found = by_name["lm"]
        assert found.counts == {"complete": 3, "pruned": 1, "failed": 1, "unfinished": 2}
        assert (found.trials, found.measurements, found.stopped_because) == (7, 9, "budget")
        assert found.log_dirs == (*(f"/runs/lm/{number}" for number in range(5)), "/runs/running")
        assert (by_name["empty"].trials, by_name["empty"].counts, by_name["empty"].log_dirs) == (0, {}, ())

    def test_a_trial_whose_only_result_was_discarded_is_not_counted_as_complete(
        self, records: Records
    ) -> None:
        create(records)
        records.add_trial("lm", {"x": 1}, "baseline")
        records.discard(measure(records, 0))
        assert records.studies()[0].counts == {"unfinished": 1}

    def test_trials_are_counted_and_the_unfinished_found_in_the_latest_generation_only(
        self, records: Records
    ) -> None:
        create(records)
        create(records, "other")
        assert (records.trial_count("lm"), records.unfinished("lm")) == (0, [])
        for x in range(4):
            records.add_trial("lm", {"x": x}, "tpe")
        measure(records, 1, complete(1.0))
        for number in (1, 3, 3):
            records.start_measurement("lm", number, Purpose.CONFIRM, 0, "/runs")
        assert (records.trial_count("lm"), records.unfinished("lm")) == (4, [1, 3])
        assert (records.trial_count("other"), records.unfinished("other")) == (0, [])
        start_over(records)
        assert (records.trial_count("lm"), records.unfinished("lm")) == (0, [])
        with pytest.raises(UnknownStudy):
            records.trial_count("nowhere")

    # --- one run at a time

    def test_a_second_live_run_is_refused_and_told_who_is_first(
        self, location: str, records: Records
    ) -> None:
        records.claim("lm")
        parent = _of(os.getppid())
        with Records.open(location, owner=parent) as second, pytest.raises(RecordsInUse) as refused:
            second.claim("lm")
        assert refused.value.owner == Owner.current()
        assert f"process {os.getpid()} on " in str(refused.value)
        assert ", started 2" in str(refused.value)

    def test_claiming_again_changes_nothing_and_other_studies_are_free(
        self, location: str, records: Records
    ) -> None:
        records.claim("lm")
        records.claim("lm")
        with Records.open(location, owner=_of(os.getppid())) as second:
            second.claim("other")
            second.release("lm")
            with pytest.raises(RecordsInUse):
                second.claim("lm")

    def test_a_released_study_can_be_claimed(self, location: str, records: Records) -> None:
        records.claim("lm")
        records.release("lm")
        with Records.open(location, owner=_of(os.getppid())) as second:
            second.claim("lm")

    def test_the_claim_of_a_process_that_ended_is_taken_over(self, location: str, records: Records) -> None:
        with Records.open(location, owner=_gone()) as first:
            first.claim("lm")
        records.claim("lm")

    def test_a_reused_process_number_does_not_keep_a_claim_alive(
        self, location: str, records: Records
    ) -> None:
        me = Owner.current()
        with Records.open(location, owner=replace(me, started_ticks=me.started_ticks - 1)) as first:
            first.claim("lm")
        records.claim("lm")

    def test_a_claim_of_another_machine_holds_until_it_is_taken_over(
        self, location: str, records: Records
    ) -> None:
        away = replace(Owner.current(), host="far-away", machine="m2", boot="b2")
        with Records.open(location, owner=away) as first:
            first.claim("lm")
        with pytest.raises(RecordsInUse, match=r"far-away.*--take-over"):
            records.claim("lm")
        records.claim("lm", take_over=True)

    def test_the_process_that_runs_a_study_is_known_while_it_lives(
        self, location: str, records: Records
    ) -> None:
        assert records.runner("lm") is None
        records.claim("lm")
        assert records.runner("lm") == Owner.current()
        records.release("lm")
        assert records.runner("lm") is None
        away = replace(Owner.current(), host="far-away", machine="m2", boot="b2")
        with Records.open(location, owner=away) as first:
            first.claim("lm")
        assert records.runner("lm") == away, "it cannot be seen from here, so it may well run"

    def test_take_over_does_not_push_a_live_run_of_this_machine_aside(
        self, location: str, records: Records
    ) -> None:
        records.claim("lm")
        with Records.open(location, owner=_of(os.getppid())) as second, pytest.raises(RecordsInUse):
            second.claim("lm", take_over=True)

    def test_of_two_that_claim_at_once_one_wins(self, location: str, records: Records) -> None:
        owners = [Owner.current(), _of(os.getppid())]
        for round_number in range(10):
            won: list[Owner] = []
            threads = [
                threading.Thread(target=_claim, args=(location, owner, f"lm{round_number}", won))
                for owner in owners
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(won) == 1

    def test_open_measurements_of_a_dead_run_become_interrupted(
        self, location: str, records: Records
    ) -> None:
        create(records)
        with Records.open(location, owner=_gone()) as dead:
            for x in range(3):
                dead.add_trial("lm", {"x": x}, "tpe")
            measure(dead, 0)
            dead.start_measurement("lm", 2, Purpose.SEARCH, 0, "/runs/2")
            dead.start_measurement("lm", 2, Purpose.RETRY, 0, "/runs/2b")
            dead.start_measurement("lm", 1, Purpose.SEARCH, 0, "/runs/1")
        mine = records.start_measurement("lm", 0, Purpose.SEARCH, 0, "/runs/0")
        assert records.close_interrupted("lm") == [1, 2]
        assert records.close_interrupted("lm") == []
        trials = records.study("lm").trials
        closed = [
            m for trial in trials for m in trial.measurements if m.failure_kind is FailureKind.INTERRUPTED
        ]
        assert [(m.outcome, m.log_dir) for m in closed] == [
            (Outcome.FAILED, "/runs/1"),
            (Outcome.FAILED, "/runs/2"),
            (Outcome.FAILED, "/runs/2b"),
        ]
        assert all(m.ended_at is not None and m.message for m in closed)
        records.finish_measurement(mine, complete(1.0))

    def test_an_open_measurement_of_a_live_process_is_left_alone(
        self, location: str, records: Records
    ) -> None:
        create(records)
        with Records.open(location, owner=_of(os.getppid())) as other:
            other.add_trial("lm", {"x": 1}, "tpe")
            other.start_measurement("lm", 0, Purpose.SEARCH, 0, "/runs")
        assert records.close_interrupted("lm") == []

    def test_the_holder_of_the_claim_closes_what_another_machine_left(
        self, location: str, records: Records
    ) -> None:
        create(records)
        with Records.open(location, owner=replace(Owner.current(), host="far", boot="b2")) as away:
            away.add_trial("lm", {"x": 1}, "tpe")
            away.start_measurement("lm", 0, Purpose.SEARCH, 0, "/runs")
        assert records.close_interrupted("lm") == []
        records.claim("lm")
        assert records.close_interrupted("lm") == [0]

    # --- several at once, and again

    def test_what_was_written_is_there_after_opening_again(self, location: str, records: Records) -> None:
        create(records)
        records.add_trial("lm", {"x": 1}, "baseline")
        measure(records, 0)
        records.close()
        with Records.open(location, must_exist=True) as again:
            assert len(again.study("lm").trials[0].measurements) == 1

    def test_writers_from_several_threads_do_not_lose_or_double_a_number(
        self, location: str, records: Records
    ) -> None:
        create(records)
        numbers: list[int] = []

        def add(start: int) -> None:
            with Records.open(location) as mine:
                numbers.extend(mine.add_trial("lm", {"x": start + offset}, "tpe") for offset in range(8))

        threads = [threading.Thread(target=add, args=(100 * index,)) for index in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(numbers) == list(range(32))

    def test_records_that_must_exist_are_not_created(self, location: str) -> None:
        with pytest.raises(RecordsError, match=r"no records at .*; run `tuner run` first or give --records"):
            Records.open(location, must_exist=True)

    def test_records_of_another_schema_version_are_refused_with_both_versions(
        self, location: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as changed:
            changed.setattr("tuner.records.tables.SCHEMA_VERSION", 7)
            Records.open(location).close()
        with pytest.raises(RecordsError, match="schema version 7, this tuner reads version 2; use the tuner"):
            Records.open(location)

    def test_an_unusable_database_is_not_mistaken_for_a_temporary_trouble(self, location: str) -> None:
        with pytest.raises(RecordsError) as refused:
            Records.open("nosuchdatabase://host/name")
        assert not isinstance(refused.value, RecordsUnavailable)
        assert "no such kind of database" in str(refused.value)


def _ordered(value: Any) -> Any:
    """Keys sorted at the top, since one configuration may be given in several orders."""
    return dict(sorted(dict(value).items()))


def _claim(location: str, owner: Owner, study: str, won: list[Owner]) -> None:
    with Records.open(location, owner=owner) as records:
        try:
            records.claim(study)
        except RecordsInUse:
            return
        won.append(owner)


def _of(pid: int) -> Owner:
    """The owner that a live process of this machine would be."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    return replace(Owner.current(), pid=pid, started_ticks=int(stat.rpartition(")")[2].split()[19]))


def _gone() -> Owner:
    """A process of this machine that has ended: above the largest process number there can be."""
    return replace(Owner.current(), pid=int(Path("/proc/sys/kernel/pid_max").read_text()) + 1)
