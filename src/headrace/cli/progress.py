"""A progress bar on stderr for long commands, shown only to people."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

RECORDS_PER_REDRAW = 500


class Advance(Protocol):
    """Moves the bar forward by some records, and by some steps if those differ."""

    def __call__(self, records: int, *, steps: int | None = None) -> None: ...


class AdvanceTo:
    """Moves a bar to the total so far, as the client's progress callbacks report it."""

    def __init__(self, advance: Advance) -> None:
        self.done = 0
        self._advance = advance

    def __call__(self, done: int, total: int) -> None:
        self._advance(done - self.done)
        self.done = done


@contextmanager
def progress(
    label: str,
    *,
    total: int | None = None,
    noun: str = "records",
    stride: int = RECORDS_PER_REDRAW,
    is_silent: bool = False,
) -> Iterator[Advance]:
    """Show a bar if stderr is a terminal and stdout is not, since lines and a bar do not mix.

    ``total`` is in steps; a step is a record unless ``advance`` says otherwise. ``is_silent``
    work prints nothing to stdout while it runs, so the bar is shown beside a terminal there too.
    The bar is redrawn every ``stride`` records.
    """
    if not sys.stderr.isatty() or (sys.stdout.isatty() and not is_silent):
        yield _ignore
        return
    from headrace.cli.progress_bar import bar_on_stderr

    with bar_on_stderr(noun, has_end=bool(total)) as bar:
        task = bar.add_task(label, total=total, records=0)
        done = completed = drawn = 0

        def advance(records: int, *, steps: int | None = None) -> None:
            nonlocal done, completed, drawn
            done += records
            completed += records if steps is None else steps
            # Drawing costs more than reading a record.
            if done - drawn >= stride:
                drawn = done
                bar.update(task, completed=completed, records=done)

        yield advance


def _ignore(records: int, *, steps: int | None = None) -> None:
    pass
