"""The answers of the claim functions in the database, and how the client reacts to each."""

from __future__ import annotations

from enum import StrEnum


class ClaimAnswer(StrEnum):
    """The state of a claim, in its first row.

    ``CLAIMED`` is a result, also of a claim that found nothing; a proc's claim says ``EMPTY``.

    Some answers are *repaired*: the client supplies what was missing and sends the statement again.

    ``UNBOUND``   a channel does not have its counters at the current version of the rules.
    ``UNSORTED``  a registered selection has channels that are not sorted into it yet.
    ``FLOORED``   nothing was found above the scan floor: the scan starts from the bottom.
    ``MORE``      the channels that the client sent are not enough: it searches for more.
    ``SHORT``     without rules: expired leases must be ended first.
    ``CROWDED``   under rules: a counter has too few free slots. The client locks counters first.

    The others *fall back*: nothing was claimed, and the general path starts from the beginning.

    ``OTHER``     the queue differs from the client's cached row, or the case is not simple.
    ``CROWDED``   without rules, or with counters locked: the result is too large for one answer.
    ``SHORT``     under rules: items with expired leases may occupy slots.
    """

    CLAIMED = "claimed"
    EMPTY = "empty"
    UNBOUND = "unbound"
    UNSORTED = "unsorted"
    FLOORED = "floored"
    MORE = "more"
    SHORT = "short"
    OTHER = "other"
    CROWDED = "crowded"


FALLS_BACK = (ClaimAnswer.OTHER, ClaimAnswer.CROWDED)
"""Answers after which the general path claims, with or without rules."""
