"""Windows of known truth: what counts, what it is worth, and when it is no measurement."""

from __future__ import annotations

import math

import pytest

from trials.contract import FailureKind, TrialFailure
from trials.serving import report
from trials.serving.exchange import Answer, Exchange, Prompt
from trials.serving.load_settings import Load, PromptSettings
from trials.serving.slo import Bound, Slo
from trials.serving.window import Served, Window

LOAD = Load(PromptSettings(("a",)), rate=10.0)


def served(
    at_s: float,
    latency_s: float,
    *,
    tokens: int = 5,
    ttft_s: float = 0.1,
    pieces: int | None = None,
    answer: object = None,
    text: str = "",
) -> Served:
    pieces = pieces or tokens
    step = (latency_s - ttft_s) / max(1, pieces - 1)
    arrivals = [at_s + ttft_s + step * number for number in range(pieces)]
    exchange = Exchange(Prompt(answer=answer), at_s, at_s, status=200, ended_s=at_s + latency_s)
    return Served(exchange, Answer(text, None, tokens, None, arrivals, "usage"), at_s + latency_s)


def window(*ones: Served, seconds: float = 10.0, **known: object) -> Window:
    in_time = [one for one in ones if 0 < one.ended_s <= seconds]
    return Window(0.0, seconds, list(ones), in_time, is_open=True, **known)  # type: ignore[arg-type]


def steady(count: int = 200, latency_s: float = 0.5) -> list[Served]:
    return [served(number * 10.0 / count, latency_s) for number in range(count)]


def value(found: dict[str, object], key: str) -> float:
    return found[key].value  # type: ignore[attr-defined, no-any-return]


def test_work_per_second_is_that_of_answers_that_ended_inside() -> None:
    found = report.load_metrics(window(*steady()), Slo())
    assert value(found, "requests_per_s") == pytest.approx(19.0, abs=0.2)  # 10 of 200 ended behind the window
    assert value(found, "output_tokens_per_s") == pytest.approx(95.0, abs=1)


def test_the_waits_of_a_request_are_what_the_glossary_says() -> None:
    one = served(3.0, 1.3, tokens=5, ttft_s=0.5)
    assert one.latency_ms == pytest.approx(1300)
    assert one.ttft_ms == pytest.approx(500)
    assert one.tpot_ms == pytest.approx(200)
    assert one.itl_ms() == pytest.approx([200] * 4)


def test_a_piece_of_several_tokens_shares_its_gap_out() -> None:
    one = served(0.0, 1.3, tokens=13, ttft_s=0.1, pieces=4)
    assert sum(one.itl_ms()) == pytest.approx(1200)
    assert len(one.itl_ms()) == 12


def test_one_token_has_no_time_per_token() -> None:
    assert served(0.0, 0.5, tokens=1).tpot_ms is None


def test_goodput_counts_requests_within_every_bound() -> None:
    slow = [served(number / 10, 0.9) for number in range(50)]
    slo = Slo((Bound("latency", 90, 600.0), Bound("ttft", 90, 200.0)))
    found = report.load_metrics(window(*steady(100), *slow), slo)
    assert value(found, "goodput_requests_per_s") == pytest.approx(10.0)


def test_a_service_level_is_missed_where_too_many_were_over_it_or_lost() -> None:
    slo = Slo((Bound("latency", 90, 600.0),))
    assert report.misses(window(*steady(100)), slo) == []
    slow = [served(number / 10, 0.9) for number in range(20)]
    assert report.misses(window(*steady(100), *slow), slo) == ["latency_p90_ms 900 > 600"]
    lost = window(*steady(100), failed=[("timeout", "")] * 20)
    assert report.misses(lost, slo) == ["latency_p90_ms inf > 600"]


def test_requests_that_were_never_answered_weigh_as_long_as_they_were_waited_for() -> None:
    found = report.load_metrics(window(*steady(100), unfinished_ms=[9000.0] * 30), Slo())
    assert value(found, "latency_p90_ms") == pytest.approx(9000)
    assert "lower_bound" in found["latency_p90_ms"].flags
    assert value(found, "unfinished_requests") == 30


def test_known_answers_under_load_are_checked() -> None:
    right = served(1.0, 0.5, answer="yes", text=" yes\n")
    wrong = served(1.0, 0.5, answer="yes", text="no")
    unknown = served(1.0, 0.5, text="no")
    found = report.load_metrics(window(right, right, right, wrong, unknown), Slo())
    assert value(found, "load_accuracy") == 0.75


def failure(of: Window) -> TrialFailure:
    with pytest.raises(TrialFailure) as caught:
        report.check_is_measurement(of, LOAD)
    return caught.value


def test_no_answer_at_all_is_no_measurement() -> None:
    nothing = failure(window(unfinished_ms=[1.0] * 3))
    assert (nothing.kind, "3 requests were never answered" in nothing.message) == (FailureKind.UNSTABLE, True)
    broken = failure(window(failed=[("http_500", "it broke")] * 4))
    assert (broken.kind, broken.message) == (
        FailureKind.CRASH,
        "no request was answered: 4 x http_500 (it broke)",
    )


def test_more_failures_than_allowed_are_no_measurement_and_fewer_are() -> None:
    few = window(*steady(200), failed=[("timeout", "t")] * 2)
    report.check_is_measurement(few, LOAD)
    many = failure(window(*steady(100), failed=[("timeout", "t")] * 5))
    assert "5 of 105 requests failed" in many.message


@pytest.mark.parametrize("known", [{"lags_ms": [150.0] * 50}, {"cpu_share": 0.97}])
def test_a_saturated_client_is_no_measurement(known: dict[str, object]) -> None:
    found = failure(window(*steady(), **known))
    assert found.kind is FailureKind.UNSTABLE
    assert "no measurement of the server" in found.message


def test_a_late_client_is_remarked_on() -> None:
    assert report.remarks(window(*steady(), lags_ms=[1.0] * 50)) == []
    assert "late" in report.remarks(window(*steady(), lags_ms=[40.0] * 50))[0]


def test_throughput_that_grows_inside_the_window_is_remarked_on() -> None:
    growing = [served(10 * math.sqrt(number / 1000), 0.001, ttft_s=0.0) for number in range(1000)]
    assert "still trending" in report.remarks(window(*growing))[0]
