"""Work on many dead items: counted first, agreed to, and shown while it goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.cli import output
from headrace.cli.asking import ask
from headrace.cli.command import Session
from headrace.cli.progress import progress
from headrace.client.dead_letters import DeadLetters
from headrace.client.redriving import Progress
from headrace.core.dead_filters import DeadFilter
from headrace.errors import InvalidOption


@dataclass(frozen=True)
class Bulk:
    """What is to be done with which dead items of a queue, and how that is told.

    ``will`` completes "3 dead items of queue 'mail' will ...", ``done`` stands before the items.
    """

    name: str
    queue: str
    will: str
    done: str
    filter: DeadFilter
    limit: int | None
    rate: float | None = None

    def __post_init__(self) -> None:
        if self.rate is not None and not 0 < self.rate < float("inf"):
            raise InvalidOption(
                f"rate is {self.rate:g}: use items per second above zero.", option="rate"
            )


def carry_out(
    session: Session,
    bulk: Bulk,
    letters: DeadLetters,
    act: Callable[[Progress], int],
    *,
    is_agreed: bool,
    is_dry: bool,
) -> None:
    """Count, ask, do, and tell."""
    matching = letters.count(**bulk.filter)
    count = matching if bulk.limit is None else min(matching, bulk.limit)
    done = 0
    if not count:
        output.note(f"queue {bulk.queue!r} has no {_kind(bulk)}s: nothing is to be done")
    elif is_dry:
        output.note(_forecast(bulk, matching, count))
        output.note("this is a dry run: nothing was done")
    else:
        ask(_forecast(bulk, matching, count), is_agreed=is_agreed)
        done = _done(bulk, count, act)
    if session.is_json:
        output.document(
            {
                "queue": bulk.queue,
                "action": bulk.name,
                "matching": matching,
                "done": done,
                "is_dry_run": is_dry,
            }
        )
    elif count and not is_dry:
        output.line(_told(bulk, done))


def _done(bulk: Bulk, count: int, act: Callable[[Progress], int]) -> int:
    so_far = 0
    with progress(bulk.queue, total=count, noun="items", stride=1, is_silent=True) as advance:

        def step(done: int, total: int) -> None:
            nonlocal so_far
            advance(done - so_far)
            so_far = done

        try:
            done = act(step)
        except BaseException:
            output.note(f"{_told(bulk, so_far)}, before this")
            raise
    if done < count:
        output.note(
            f"{output.counted(count - done, 'item')} stayed: a live item has the subject, or "
            "somebody else was quicker"
        )
    return done


def _forecast(bulk: Bulk, matching: int, count: int) -> str:
    which = f"{output.counted(matching, _kind(bulk))} of queue {bulk.queue!r}"
    if count < matching:
        which = f"{count:,} of the {which}"
    elif not bulk.filter and matching > 1:
        which = f"all {which}"
    pace = "" if bulk.rate is None else f", {bulk.rate:g} a second: {count / bulk.rate:,.0f} s"
    return f"{which} will {bulk.will}{pace}"


def _told(bulk: Bulk, count: int) -> str:
    return f"{bulk.done}: {output.counted(count, 'dead item')} of queue {bulk.queue!r}"


def _kind(bulk: Bulk) -> str:
    return "matching dead item" if bulk.filter else "dead item"
