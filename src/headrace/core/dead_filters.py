"""Which dead items, as users say it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

from headrace.contract.items import Filter
from headrace.core.documents import check_subject
from headrace.core.times import Moment, moment_ms
from headrace.errors import InvalidOption

CAUSES = ("rejected", "killed", "worker lost")


class DeadFilter(TypedDict, total=False):
    """Which dead items; all that is given must hold."""

    ids: Iterable[int] | None
    fingerprint: str | None
    subject: str | None
    cause: str | None
    died_before: Moment | None
    died_after: Moment | None


def filter_of(
    *,
    ids: Iterable[int] | None = None,
    fingerprint: str | None = None,
    subject: str | None = None,
    cause: str | None = None,
    died_before: Moment | None = None,
    died_after: Moment | None = None,
) -> Filter:
    """A filter as the store understands it."""
    if cause not in (None, *CAUSES):
        raise InvalidOption(f"cause is {cause!r}: use {', '.join(CAUSES)}.", option="cause")
    return Filter(
        ids=None if ids is None else _ids(ids),
        fingerprint=fingerprint,
        subject=None if subject is None else check_subject(subject),
        cause=cause,
        before=None if died_before is None else moment_ms("died_before", died_before),
        after=None if died_after is None else moment_ms("died_after", died_after),
    )


def _ids(ids: object) -> tuple[int, ...]:
    if isinstance(ids, Iterable) and not isinstance(ids, str):
        found = tuple(ids)
        if all(isinstance(id, int) for id in found):
            return found
    raise InvalidOption(f"ids is {ids!r:.80}: give a list of ids of items.", option="ids")
