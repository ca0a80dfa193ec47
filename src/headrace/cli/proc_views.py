"""How procs are shown: their position and their lag."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace._sync.headrace import Headrace
from headrace.cli import output
from headrace.errors import UnknownProc
from headrace.model.topics.procs import Lag, ProcInfo


def format_position(info: ProcInfo) -> str:
    """The position that a proc reads from next."""
    return f"after {info.offset}" if info.position is None else f":{info.position}"


def format_lag(lag: Lag) -> str:
    """A lag in records and in seconds."""
    return f"{output.format_count(lag.records)}, {lag.seconds:g} s"


def lags(hr: Headrace, procs: Sequence[ProcInfo]) -> Iterator[tuple[ProcInfo, Lag]]:
    """Each proc with its lag; a proc deleted since it was listed is left out."""
    for info in procs:
        try:
            yield info, hr.proc(info.name).lag()
        except UnknownProc:
            continue
