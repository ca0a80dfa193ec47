"""What may be collected of a topic, as a pure rule."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class Collected(msgspec.Struct, frozen=True):
    """What a collection did to one topic: records ``from_seq`` to ``first_seq - 1`` are gone.

    ``overtaken`` are procs that had not passed them: ``max_age`` went first.
    """

    topic: str
    from_seq: int
    first_seq: int
    overtaken: tuple[str, ...] = ()


class Tended(msgspec.Struct, frozen=True):
    """How many old things were removed from a queue: ended items, errors, numbers, subjects."""

    queue: str
    removed: int


class MaintenanceReport(msgspec.Struct, frozen=True, kw_only=True):
    """What maintenance did. ``skipped`` if somebody else does it, or did it just now.

    ``tended`` are queues from which something was removed, ``forgotten_clients`` those that
    were silent for a day, ``dropped_stages`` counts what tasks had staged a day ago and nobody
    published, ``forgotten_locks`` those that nobody had or wanted for an hour,
    ``ended_counters`` holders of slots whose lease was over.
    """

    is_skipped: bool = False
    collected: tuple[Collected, ...] = ()
    expired_procs: tuple[str, ...] = ()
    tended: tuple[Tended, ...] = ()
    forgotten_clients: tuple[str, ...] = ()
    dropped_stages: int = 0
    forgotten_locks: int = 0
    ended_counters: int = 0


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
    is younger than ``min_age``, None when nothing is collected by it; ``too_old`` the same for
    ``max_age``, which asks no proc.
    """
    floor = first_seq
    if old_enough is not None:
        floor = max(floor, min([old_enough, next_seq, *needed]))
    if too_old is not None:
        floor = max(floor, min(too_old, next_seq))
    return floor
