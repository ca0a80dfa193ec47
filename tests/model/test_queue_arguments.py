"""What users write about queues, and the values behind it."""

import dataclasses
import typing
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.documents import Doc, ItemOptions, SharedItemOptions
from headrace.core.queue_settings import TIMES, QueueOptions, changes_of
from headrace.errors import InvalidOption
from headrace.model.queues.fingerprint import digest
from headrace.model.queues.settings import DEFAULTS, OPTIONS, changed
from headrace.model.times import duration_ms, is_duration, moment_ms, moment_of


def test_every_setting_can_be_written() -> None:
    assert set(typing.get_type_hints(QueueOptions)) == set(OPTIONS)
    assert set(OPTIONS) >= TIMES


def test_every_field_of_a_document_can_be_written() -> None:
    fields = set(typing.get_type_hints(ItemOptions))
    assert fields == set(Doc.__struct_fields__) - {"payload"}
    assert set(typing.get_type_hints(SharedItemOptions)) == fields - {"subject"}


@pytest.mark.parametrize("option", sorted(TIMES))
def test_times_may_be_words_or_timedeltas(option: str) -> None:
    for value in ("90s", "1m 30s", timedelta(seconds=90), 90.0):
        assert getattr(changed(DEFAULTS, changes_of({option: value})), option) == 90.0


def test_an_invalid_duration_is_refused() -> None:
    with pytest.raises(InvalidOption) as caught:
        changes_of({"lease": "soon"})
    assert caught.value.option == "lease"
    assert changes_of({"keep": "all", "dead_to": "late"}) == {"keep": "all", "dead_to": ("late",)}


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_a_moment_comes_back(ms: int) -> None:
    moment = moment_of(ms)
    assert moment_ms("at", moment) == moment_ms("at", ms) == ms
    assert moment_ms("at", moment.isoformat()) == ms


@pytest.mark.parametrize(
    "wrong",
    [True, 1.5, None, 10**18, -(10**18), "", "12:00", "2030-01-01", "2030-01-01T00:00", b"x"],
    ids=repr,
)
def test_an_invalid_moment_is_refused(wrong: typing.Any) -> None:
    with pytest.raises(InvalidOption):
        moment_ms("at", wrong)


def test_before_the_epoch() -> None:
    assert moment_ms("at", datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)) == -1000


@pytest.mark.parametrize(
    "wrong",
    [True, None, -1, -0.5, float("nan"), float("inf"), 10**13, "", "5", "m", "-5m", "5mm", "1h x"],
    ids=repr,
)
def test_an_invalid_wait_is_refused(wrong: typing.Any) -> None:
    with pytest.raises(InvalidOption):
        duration_ms("delay", wrong)


def test_waits_in_words() -> None:
    assert duration_ms("delay", " + 1 Day 2 hours ") == 93_600_000
    assert duration_ms("delay", "0s") == 0
    assert is_duration("+5m")
    assert not is_duration("2030-01-31T12:00:00Z")
    with pytest.raises(InvalidOption):
        duration_ms("lease", "0s", least=1)


def test_a_digest_is_of_the_content() -> None:
    assert digest({"a": 1, "b": [1]}) == digest({"b": [1], "a": 1})
    assert digest(b"x") == digest(bytearray(b"x"))
    different = [digest(item) for item in (b"x", "x", ["x"], {"x": 1}, 1, None)]
    assert len(set(different)) == len(different)
    assert digest(dataclasses) is None
