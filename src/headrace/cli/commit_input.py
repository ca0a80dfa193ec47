"""``headrace topic commit``: commit the lines of stdin."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from headrace._sync.headrace import Headrace
from headrace.cli import output, stdin
from headrace.cli.jsonl import LineBatch, batches
from headrace.cli.progress import progress
from headrace.errors import InvalidBody
from headrace.model.names import writable_topic


def print_ids(ids: Sequence[str], *, is_json: bool) -> None:
    """Print ids, one per line."""
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
    is_json: bool,
) -> None:
    """Commit the lines of stdin in batches; each batch is atomic.

    With a key, each batch gets an idempotency key made from its number: running the same input
    again commits only the missing batches.
    """
    writable_topic(topic)
    stream = stdin.binary_stdin()
    with (
        stdin.count_input("committed", "record") as count,
        progress(topic, total=stdin.size_of(stream)) as advance,
    ):
        for number, batch in enumerate(batches(stream, is_prompt=key is None)):
            batch_key = None if key is None else f"{key}/{number}"
            ids = _commit(hr, topic, batch, batch_key, headers)
            count.total += len(ids)
            advance(len(ids), steps=batch.size)
            stdin.print_unless_closed(partial(print_ids, ids, is_json=is_json))
    output.note(f"committed {output.format_count(count.total)} to {topic!r} {count.pace}")


def _commit(
    hr: Headrace,
    topic: str,
    batch: LineBatch,
    key: str | None,
    headers: dict[str, str],
) -> list[str]:
    try:
        return hr.commit_many(topic, batch.bodies, headers=headers, key=key)
    except InvalidBody as error:
        raise batch.bad_line(error) from error
