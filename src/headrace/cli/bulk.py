"""Actions on many dead items: count them, ask for confirmation, and show progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.cli import output
from headrace.cli.command import CommandSession
from headrace.cli.progress import AdvanceTo, progress
from headrace.cli.prompts import confirm
from headrace.client._sync.dead_letters import DeadLetters
from headrace.client.workflows.redrive import Progress
from headrace.core.dead_filters import DeadFilter
from headrace.errors import InvalidOption


@dataclass(frozen=True)
class BulkAction:
    """An action on some dead items of a queue, and the words for its messages.

    ``future`` completes "3 dead items of queue 'mail' will ..."; ``past`` precedes the items in
    the summary.
    """

    name: str
    queue: str
    future: str
    past: str
    filter: DeadFilter
    limit: int | None
    rate: float | None = None

    def __post_init__(self) -> None:
        if self.rate is not None and not 0 < self.rate < float("inf"):
            raise InvalidOption(
                f"rate is {self.rate:g}: use items per second above zero.", option="rate"
            )

    @property
    def noun(self) -> str:
        """What the filter selects."""
        return "matching dead item" if self.filter else "dead item"

    def forecast(self, matching: int, count: int) -> str:
        """What will happen to ``count`` of the ``matching`` items."""
        which = f"{output.format_count(matching, self.noun)} of queue {self.queue!r}"
        if count < matching:
            which = f"{count:,} of the {which}"
        elif not self.filter and matching > 1:
            which = f"all {which}"
        pace = "" if self.rate is None else f", {self.rate:g} a second: {count / self.rate:,.0f} s"
        return f"{which} will {self.future}{pace}"

    def summary(self, count: int) -> str:
        """What happened to ``count`` items."""
        return f"{self.past}: {output.format_count(count, 'dead item')} of queue {self.queue!r}"


def run_bulk(
    session: CommandSession,
    action: BulkAction,
    letters: DeadLetters,
    act: Callable[[Progress], int],
    *,
    is_confirmed: bool,
    is_dry: bool,
) -> None:
    """Count the items, ask for confirmation, act, and print the result."""
    matching = letters.count(**action.filter)
    count = matching if action.limit is None else min(matching, action.limit)
    done = 0
    if not count:
        output.note(f"queue {action.queue!r} has no {action.noun}s: there is nothing to do")
    elif is_dry:
        output.note(action.forecast(matching, count))
        output.note("this is a dry run: nothing was done")
    else:
        confirm(action.forecast(matching, count), is_confirmed=is_confirmed)
        done = _act_with_progress(action, count, act)
    if session.is_json:
        output.json_document(
            {
                "queue": action.queue,
                "action": action.name,
                "matching": matching,
                "done": done,
                "is_dry_run": is_dry,
            }
        )
    elif count and not is_dry:
        output.line(action.summary(done))


def _act_with_progress(action: BulkAction, count: int, act: Callable[[Progress], int]) -> int:
    with progress(action.queue, total=count, noun="items", stride=1, is_silent=True) as advance:
        advance_to = AdvanceTo(advance)
        try:
            done = act(advance_to)
        except BaseException:
            output.note(f"{action.summary(advance_to.done)}, before this")
            raise
    if done < count:
        output.note(
            f"{output.format_count(count - done, 'item')} stayed: a live item has the subject, or "
            "another client was faster"
        )
    return done
