"""What commands print: data on stdout, messages on stderr.

JSON is written as bytes, so that it is UTF-8 on every terminal. All other text passes
``escape_control``, so that a record cannot control the reader's terminal.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec
import typer

from headrace.model.query.key_values import KeyValues
from headrace.model.topics.records import Record
from headrace.model.url import masked_text


def _encode_key_values(value: Any) -> Any:
    if isinstance(value, KeyValues):
        return value.described
    raise TypeError(f"{type(value).__name__} cannot be printed as JSON")


_encode = msgspec.json.Encoder(enc_hook=_encode_key_values).encode


MIN_COLUMN_WIDTH = 12
"""A table's column is not truncated below this width, even if the table is then too wide."""


def styled(text: str, stream: TextIO, **style: Any) -> str:
    """The text with a style, such as ``bold``, if the stream is a terminal with colours."""
    is_plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return text if is_plain or not stream.isatty() else typer.style(text, **style)


def note(message: str) -> None:
    """Print a message for people on stderr."""
    sys.stderr.write(f"{escape_control(message)}\n")
    sys.stderr.flush()


def error(message: str) -> None:
    """Print an error in one line on stderr, with the passwords in URLs masked."""
    prefix = styled("headrace: ", sys.stderr, fg="red", bold=True)
    sys.stderr.write(f"{prefix}{escape_control(masked_text(message))}\n")
    sys.stderr.flush()


def json_document(value: Any) -> None:
    """Print one JSON document."""
    _write(msgspec.json.format(_encode(value), indent=2))


def json_line(value: Any) -> None:
    """Print one line of a JSON stream."""
    _write(_encode(value))


def _write(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")


def line(text: str) -> None:
    """Print one line of plain data."""
    sys.stdout.write(f"{escape_control(text)}\n")


def record(record: Record, *, is_json: bool) -> None:
    """Print one record: its id, time and body, and its headers if it has any."""
    if is_json:
        json_line(
            {
                "id": record.id,
                "topic": record.topic,
                "seq": record.seq,
                "ts": record.ts,
                "headers": record.headers,
                "body": record.body,
            }
        )
        return
    headers = f"  {_encode(record.headers).decode()}" if record.headers else ""
    line(f"{record.id}  {format_time(record.ts)}  {_encode(record.body).decode()}{headers}")


def table(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print columns under titles, with numbers aligned to the right.

    On a terminal that is too narrow the widest columns are truncated. Everywhere else, and with
    ``--json``, values are printed in full.
    """
    if not rows:
        return
    cells = [[escape_control(format_value(value)) for value in row] for row in rows]
    widths = [max(cell_len(c) for c in column) for column in zip(titles, *cells, strict=True)]
    if sys.stdout.isatty():
        widths = _fitted(widths, shutil.get_terminal_size().columns)
    is_number = [all(isinstance(v, (int, float)) for v in column) for column in zip(*rows)]  # noqa: B905  # rows are of one length
    header = _aligned(titles, widths, is_number)
    sys.stdout.write(f"{styled(header, sys.stdout, bold=True)}\n")
    for row in cells:
        sys.stdout.write(f"{_aligned(row, widths, is_number)}\n")


def _fitted(widths: Sequence[int], total: int) -> list[int]:
    """The widths with the widest columns narrowed, as far as the total demands it."""
    fitted = list(widths)
    excess = sum(fitted) + 2 * (len(fitted) - 1) - total
    while excess > 0 and max(fitted) > MIN_COLUMN_WIDTH:
        widest = max(fitted)
        # The next width below; columns of the same width become narrower together.
        floor = max([width for width in fitted if width < widest] + [MIN_COLUMN_WIDTH])
        columns = [index for index, width in enumerate(fitted) if width == widest]
        cut = min(widest - floor, -(-excess // len(columns)))
        for index in columns:
            fitted[index] -= cut
        excess -= cut * len(columns)
    return fitted


def cell_len(text: str) -> int:
    """How many columns of a terminal a text occupies."""
    if text.isascii():
        return len(text)
    from rich import cells

    return cells.cell_len(text)


def _truncated(text: str, width: int) -> str:
    if cell_len(text) <= width:
        return text
    start = text[: width - 1]
    while cell_len(start) > width - 1:
        start = start[:-1]
    return f"{start}…"


def fields(pairs: Sequence[tuple[str, object]]) -> None:
    """Print names and values, one pair per line."""
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        line(f"{name:<{width}}  {format_value(value)}".rstrip())


def _aligned(cells: Sequence[str], widths: Sequence[int], is_number: Sequence[bool]) -> str:
    padded = []
    for text, width, is_right in zip(cells, widths, is_number, strict=True):
        cell = _truncated(text, width)
        space = " " * (width - cell_len(cell))
        padded.append(space + cell if is_right else cell + space)
    return "  ".join(padded).rstrip()


def format_value(value: object) -> str:
    """A value for people; a missing one is a dash."""
    if value is None or value == "":
        return "-"
    if isinstance(value, datetime):
        return format_time(round(value.timestamp() * 1000))
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


def format_count(count: int, noun: str = "record") -> str:
    """A count with its noun, for people."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def format_json(value: Any) -> str:
    """A JSON value on one line."""
    return _encode(value).decode()


def format_time(ms: int) -> str:
    """A time in UTC, in the form that commands accept."""
    try:
        when = datetime.fromtimestamp(ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def escape_control(value: str) -> str:
    """The text with escapes in place of characters that could control a terminal."""
    if value.isprintable():
        return value
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in value)
