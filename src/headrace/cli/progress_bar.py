"""The drawing of a progress bar. Imported only when one is drawn, since rich takes long to load."""

from __future__ import annotations

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


class _Rate(ProgressColumn):
    def __init__(self, noun: str) -> None:
        super().__init__()
        self._noun = noun

    def render(self, task: Task) -> Text:
        records = int(task.fields["records"])
        rate = records / task.elapsed if task.elapsed else 0
        return Text(f"{records:,} {self._noun}, {rate:,.0f}/s")


def bar_on_stderr(noun: str, *, has_end: bool) -> Progress:
    """A bar with the rate, and with the remaining time if the work has a known end."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        _Rate(noun),
        TimeElapsedColumn(),
        *((TimeRemainingColumn(),) if has_end else ()),
        console=Console(stderr=True),
        transient=True,
        # By default rich would redirect stdout and print our data above the bar.
        redirect_stdout=False,
    )
