"""Filters for dead items."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

from headrace.contract.items import ItemFilter
from headrace.core.documents import check_subject
from headrace.errors import InvalidOption
from headrace.model.checks import MAX_NUMBER, text
from headrace.model.fields import shown
from headrace.model.times import Moment, moment_ms

CAUSES = ("rejected", "killed", "worker lost")


class DeadFilter(TypedDict, total=False):
    """Which dead items: those that meet all the given conditions."""

    ids: Iterable[int] | None
    fingerprint: str | None
    subject: str | None
    cause: str | None
    died_before: Moment | None
    died_after: Moment | None


FILTERS = tuple(DeadFilter.__annotations__)


def filter_of(method: str, filter: DeadFilter) -> ItemFilter:
    """Check a user's filter, which was given to this method of ``DeadLetters``."""
    check_filter_names(method, filter)
    ids, fingerprint, subject = filter.get("ids"), filter.get("fingerprint"), filter.get("subject")
    cause, before, after = filter.get("cause"), filter.get("died_before"), filter.get("died_after")
    if cause not in (None, *CAUSES):
        raise InvalidOption(f"cause is {shown(cause)}: use {', '.join(CAUSES)}.", option="cause")
    return ItemFilter(
        ids=None if ids is None else _ids(ids),
        fingerprint=None if fingerprint is None else text("fingerprint", fingerprint),
        subject=None if subject is None else check_subject(subject),
        cause=cause,
        before=None if before is None else moment_ms("died_before", before),
        after=None if after is None else moment_ms("died_after", after),
    )


def check_filter_names(method: str, filter: DeadFilter) -> None:
    """Refuse a filter that there is not."""
    for name in filter:
        if name not in FILTERS:
            raise TypeError(f"dead.{method}() has no filter {name!r}: use {', '.join(FILTERS)}.")


def _ids(ids: object) -> tuple[int, ...]:
    if isinstance(ids, Iterable) and not isinstance(ids, str):
        found = tuple(ids)
        if all(isinstance(id, int) and abs(id) <= MAX_NUMBER for id in found):
            return found
    raise InvalidOption(f"ids is {shown(ids)}: give a list of ids of items.", option="ids")
