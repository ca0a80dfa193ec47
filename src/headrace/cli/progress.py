"""A bar on stderr while long work goes on, for people only."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

STRIDE = 500


class Advance(Protocol):
    """Tells the bar that some more records are done, and how far along that is."""

    def __call__(self, records: int, *, steps: int | None = None) -> None: ...


class _Rate(ProgressColumn):
    def __init__(self, noun: str) -> None:
        super().__init__()
        self._noun = noun

    def render(self, task: Task) -> Text:
        records = int(task.fields["records"])
        rate = records / task.elapsed if task.elapsed else 0
        return Text(f"{records:,} {self._noun}, {rate:,.0f}/s")


@contextmanager
def progress(
    label: str,
    *,
    total: int | None = None,
    noun: str = "records",
    stride: int = STRIDE,
    is_silent: bool = False,
) -> Iterator[Advance]:
    """Show a bar, if stderr is a terminal and stdout is not: lines and a bar do not mix.

    ``total`` is in steps, which are records unless said otherwise. ``is_silent`` work prints
    nothing to stdout while it goes on, so the bar is shown there too.
    """
    if not sys.stderr.isatty() or (sys.stdout.isatty() and not is_silent):
        yield _nothing
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        _Rate(noun),
        TimeElapsedColumn(),
        *((TimeRemainingColumn(),) if total else ()),
    )
    # Left to itself rich would take stdout over, and print our data above the bar.
    with Progress(
        *columns, console=Console(stderr=True), transient=True, redirect_stdout=False
    ) as bar:
        task = bar.add_task(label, total=total, records=0)
        done = along = shown = 0

        def advance(records: int, *, steps: int | None = None) -> None:
            nonlocal done, along, shown
            done += records
            along += records if steps is None else steps
            # To draw costs more than to read a record.
            if done - shown >= stride:
                shown = done
                bar.update(task, completed=along, records=done)

        yield advance


def _nothing(records: int, *, steps: int | None = None) -> None:
    pass
