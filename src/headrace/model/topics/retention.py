"""Which old records of a topic may be removed."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class Collected(msgspec.Struct, frozen=True):
    """The records ``from_seq`` to ``first_seq - 1`` of a topic were removed.

    ``overtaken`` are procs that had not read them: ``max_age`` does not wait for procs.
    """

    topic: str
    from_seq: int
    first_seq: int
    overtaken: tuple[str, ...] = ()


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """How long topics without settings of their own keep their records, in seconds.

    None for both keeps everything. ``interval`` is how often maintenance runs.
    """

    min_age: float | None = None
    max_age: float | None = None
    interval: float = 30.0


def new_floor(
    *,
    first_seq: int,
    next_seq: int,
    needed: Sequence[int],
    old_enough: int | None,
    too_old: int | None,
) -> int:
    """The first seq that stays.

    ``needed`` are the first seqs that procs still need. ``old_enough`` is the first seq that
    is younger than ``min_age``, None without a ``min_age``; ``too_old`` the same for ``max_age``,
    which does not wait for procs.
    """
    floor = first_seq
    if old_enough is not None:
        floor = max(floor, min([old_enough, next_seq, *needed]))
    if too_old is not None:
        floor = max(floor, min(too_old, next_seq))
    return floor
