"""What commands print: data on stdout, talk on stderr.

JSON is written as bytes, so that it is UTF-8 whatever the terminal is. Everything else
passes ``plain``, so that a record cannot drive the reader's terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from headrace.model.record import Record

_encode = msgspec.json.Encoder().encode


class Terminal(Console):
    """stdout, or stderr, with colours where they can be seen."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, soft_wrap=True, highlight=False)

    def on_broken_pipe(self) -> None:
        """Left to itself rich would end the process here, with 1."""
        raise BrokenPipeError


def note(message: str) -> None:
    """Say something to the person, not to the next program."""
    sys.stderr.write(f"{plain(message)}\n")
    sys.stderr.flush()


def complain(message: str) -> None:
    """Say what went wrong, in one line."""
    Terminal(stderr=True).print(Text.assemble(("headrace: ", "bold red"), plain(message)))


def document(value: Any) -> None:
    """Print one JSON document."""
    _write(msgspec.json.format(_encode(value), indent=2))


def json_line(value: Any) -> None:
    """Print one line of a JSON stream."""
    _write(_encode(value))


def _write(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")


def line(text: str) -> None:
    """Print one line of plain data."""
    sys.stdout.write(f"{plain(text)}\n")


def record(found: Record, *, is_json: bool) -> None:
    """Print one record: its id, its time and its body; headers only if it has any."""
    if is_json:
        json_line(
            {
                "id": found.id,
                "topic": found.topic,
                "seq": found.seq,
                "ts": found.ts,
                "headers": found.headers,
                "body": found.body,
            }
        )
        return
    headers = f"  {_encode(found.headers).decode()}" if found.headers else ""
    line(f"{found.id}  {moment(found.ts)}  {_encode(found.body).decode()}{headers}")


def table(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print columns under titles; numbers stand to the right, and nothing is cut off."""
    if not rows:
        return
    cells = [[plain(text(value)) for value in row] for row in rows]
    widths = [max(cell_len(c) for c in column) for column in zip(titles, *cells, strict=True)]
    is_number = [all(isinstance(v, (int, float)) for v in column) for column in zip(*rows)]  # noqa: B905  # rows are of one length
    header = _aligned(titles, widths, is_number)
    Terminal().print(Text(header, style="bold"))
    for row in cells:
        sys.stdout.write(f"{_aligned(row, widths, is_number)}\n")


def fields(pairs: Sequence[tuple[str, object]]) -> None:
    """Print names and values below each other."""
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        line(f"{name:<{width}}  {text(value)}".rstrip())


def _aligned(cells: Sequence[str], widths: Sequence[int], is_number: Sequence[bool]) -> str:
    padded = []
    for cell, width, is_right in zip(cells, widths, is_number, strict=True):
        space = " " * (width - cell_len(cell))
        padded.append(space + cell if is_right else cell + space)
    return "  ".join(padded).rstrip()


def text(value: object) -> str:
    """A value for people; what is not there is a dash."""
    if value is None or value == "":
        return "-"
    if isinstance(value, datetime):
        return moment(round(value.timestamp() * 1000))
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


def counted(count: int, noun: str = "record") -> str:
    """How many there are of something, for people."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def compact(value: Any) -> str:
    """A JSON value on one line."""
    return _encode(value).decode()


def shortened(value: Any, longest: int = 60) -> str:
    """A JSON value on one line that is not too long for a table."""
    found = compact(value)
    return found if len(found) <= longest else f"{found[: longest - 1]}…"


def moment(ms: int) -> str:
    """A time in UTC, in the form that commands also accept."""
    try:
        when = datetime.fromtimestamp(ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def plain(value: str) -> str:
    """The text with escapes in place of what could move a cursor or change a colour."""
    if value.isprintable():
        return value
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in value)
