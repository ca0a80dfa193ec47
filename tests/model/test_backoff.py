"""The delays of ``Backoff``, and what it refuses."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from headrace import Backoff
from headrace.errors import InvalidOption


def test_durations_are_kept_as_seconds() -> None:
    backoff = Backoff(first=timedelta(minutes=1), longest="1h", jitter=0)
    assert backoff == Backoff(first=60.0, longest=3600.0, jitter=0.0)
    assert [backoff.delay_ms(attempts, 0.5) for attempts in (1, 2, 7)] == [
        60_000,
        120_000,
        3_600_000,
    ]
    assert msgspec.json.decode(msgspec.json.encode(backoff), type=Backoff) == backoff


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"first": -1}, "backoff.first is -1: use a timedelta, seconds, or words"),
        ({"first": "soon"}, "backoff.first is 'soon': use a timedelta, seconds, or words"),
        ({"longest": -1.0}, "backoff.longest is -1.0: use 0 or more, in seconds"),
        ({"longest": float("nan")}, "backoff.longest is nan: use 0 or more, in seconds"),
        ({"factor": 0}, "backoff.factor is 0: use 1 or more"),
        ({"factor": "2"}, "backoff.factor is '2': use 1 or more"),
        ({"jitter": 5}, "backoff.jitter is 5: use 0 to 1"),
    ],
)
def test_mistakes_are_refused_where_they_are_made(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidOption, match=words):
        Backoff(**options)
