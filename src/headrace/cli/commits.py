"""What ``headrace topic commit`` does with its input."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import typer

from headrace.api import Headrace
from headrace.cli import output
from headrace.cli.command import hush
from headrace.cli.exits import Code
from headrace.cli.lines import BadLine, Batch, batches
from headrace.cli.progress import progress
from headrace.errors import HeadraceError, InvalidBody, InvalidOption, OutcomeUnknown
from headrace.model.names import check_topic


def headers(pairs: Sequence[str]) -> dict[str, str]:
    """Headers from ``name=value``."""
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise InvalidOption(f"header {pair!r} must be name=value.", option="header")
        found[name] = value
    return found


def parsed(body: str) -> Any:
    """A body from the command line."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise InvalidBody(f"BODY is not JSON: {error}.", path="$") from error


def print_ids(ids: Sequence[str], *, is_json: bool) -> None:
    """Print ids, one on a line."""
    for rid in ids:
        if is_json:
            output.json_line({"id": rid})
        else:
            output.line(rid)


def from_stdin(
    hr: Headrace,
    topic: str,
    *,
    key: str | None,
    headers: dict[str, str],
    max_body: int,
    is_json: bool,
) -> None:
    """Commit the lines of stdin, batch by batch, each batch whole or not at all.

    With a key every batch has one of its own, made from its number: the same input again
    commits only what is missing.
    """
    check_topic(topic)
    stream: Any = sys.stdin.buffer  # a BufferedReader, though typed as any BinaryIO
    started = time.monotonic()
    with _counted() as count, progress(topic, total=_size(stream)) as advance:
        for number, batch in enumerate(batches(stream, is_prompt=key is None)):
            batch_key = None if key is None else f"{key}/{number}"
            ids = _commit(hr, topic, batch, batch_key, headers, max_body)
            count.total += len(ids)
            advance(len(ids), steps=batch.size)
            _print_on(ids, is_json=is_json)
    seconds = max(time.monotonic() - started, 0.001)
    said = f"committed {output.counted(count.total)} to {topic!r}"
    output.note(f"{said} in {seconds:.1f} s ({count.total / seconds:,.0f}/s)")


def _commit(
    hr: Headrace,
    topic: str,
    batch: Batch,
    key: str | None,
    headers: dict[str, str],
    max_body: int,
) -> list[str]:
    try:
        return hr.commit_many(topic, batch.bodies, headers=headers, key=key)
    except InvalidBody as error:
        raise batch.bad_line(error, max_body=max_body) from error


class _Count:
    total = 0


@contextmanager
def _counted() -> Iterator[_Count]:
    """Count what is committed, and tell if the work ends early."""
    count = _Count()
    try:
        yield count
    except BadLine as error:
        output.complain(
            f"{error}; nothing of its batch was committed; "
            f"committed before it: {output.counted(count.total)}."
        )
        raise typer.Exit(Code.FAILED) from error
    except BaseException as error:
        said = f"committed {output.counted(count.total)} before this"
        is_known = isinstance(error, HeadraceError) and not isinstance(error, OutcomeUnknown)
        output.note(said if is_known else f"{said}, and perhaps the batch under way")
        raise


def _print_on(ids: Sequence[str], *, is_json: bool) -> None:
    """Print ids; a reader that has gone away does not stop the commits."""
    try:
        print_ids(ids, is_json=is_json)
        sys.stdout.flush()
    except BrokenPipeError:
        hush()


def _size(stream: Any) -> int | None:
    """How many bytes there are to read, if that can be known."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
