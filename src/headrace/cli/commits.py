"""What ``headrace topic commit`` does with its input."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from headrace.api import Headrace
from headrace.cli import output, streams
from headrace.cli.lines import Batch, batches
from headrace.cli.progress import progress
from headrace.errors import InvalidBody, InvalidOption
from headrace.model.codec import encode_body
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


def parsed(text: str, name: str = "BODY") -> Any:
    """JSON from the command line."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise InvalidBody(f"{name} is not JSON: {error}.", path="$") from error


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
    stream = streams.stdin()
    with (
        streams.counted("committed", "record") as count,
        progress(topic, total=streams.size(stream)) as advance,
    ):
        for number, batch in enumerate(batches(stream, is_prompt=key is None)):
            batch_key = None if key is None else f"{key}/{number}"
            ids = _commit(hr, topic, batch, batch_key, headers, max_body)
            count.total += len(ids)
            advance(len(ids), steps=batch.size)
            streams.print_on(partial(print_ids, ids, is_json=is_json))
    output.note(f"committed {output.counted(count.total)} to {topic!r} {count.pace}")


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
        raise batch.bad_line(error, partial(encode_body, max_body=max_body)) from error
