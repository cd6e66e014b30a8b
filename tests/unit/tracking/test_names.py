from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from mlflow.utils.validation import _validate_metric_name

from tuner.tracking.names import MAX_NAME_LENGTH, NameBook, clean_name, flatten


def test_a_name_that_mlflow_takes_stays_as_it_is() -> None:
    for name in ("tokens_per_s", "val_loss_nats", "task.learning_rate", "a-b", "größe"):
        assert clean_name(name) == name


def test_refused_signs_become_words_where_there_is_one() -> None:
    assert clean_name("acc@1") == "acc_at_1"
    assert clean_name("lat%") == "lat_pct"
    assert clean_name("timing(s)/gen") == "timing_s.gen"
    assert clean_name("a,b") == "a_b"


def test_a_name_without_a_letter_is_still_a_name() -> None:
    for name in ("", "   ", "//", "..", "(,)"):
        assert clean_name(name) == "unnamed"


@example("/.0")
@example("..0")
@given(st.text(max_size=400))
def test_every_text_becomes_a_name_that_mlflow_accepts(text: str) -> None:
    name = clean_name(text)
    assert 0 < len(name) <= MAX_NAME_LENGTH
    assert "/" not in name
    _validate_metric_name(name)


@given(st.lists(st.text(alphabet="ab@,+_/%", max_size=4), unique=True, max_size=30))
def test_no_two_originals_share_a_name(originals: list[str]) -> None:
    book = NameBook()
    assert len({book.name(original).lower() for original in originals}) == len(originals)


def test_the_second_of_two_that_collide_gets_a_suffix_of_its_own() -> None:
    book = NameBook()
    assert book.name("a,b") == "a_b"
    second = book.name("a(b")
    assert second != "a_b" and second.startswith("a_b_")
    assert book.name("a,b") == "a_b"
    assert NameBook().name("a(b") == "a_b", "alone it needs no suffix"


def test_nested_maps_are_flattened_and_empty_ones_kept() -> None:
    assert flatten({"engine": {"precision": "bf16", "opt": 3}, "env": {}}) == {
        "engine.precision": "bf16",
        "engine.opt": 3,
        "env": {},
    }
