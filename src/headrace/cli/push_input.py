"""``headrace push``: push one payload, or the lines of stdin."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from headrace._sync.headrace import Headrace
from headrace.cli import output, stdin
from headrace.cli.jsonl import LineBatch, batches
from headrace.cli.progress import progress
from headrace.core.documents import Doc, SharedItemOptions, doc_of, document
from headrace.core.pushes import DocumentResult, PushResult
from headrace.errors import InvalidInput
from headrace.model import checks
from headrace.model.names import writable_queue

REASONS = {
    "exists": "a live item has this subject",
    "active": "the item with this subject is in flight",
    "taken": "this subject was used before",
    "fixed": "the item with this subject may not be updated",
}


@dataclass(frozen=True)
class PushTarget:
    """Where and how items are pushed. ``are_docs``: lines are documents, not payloads."""

    hr: Headrace
    queue: str
    fields: SharedItemOptions
    max_body: int
    is_upsert: bool = False
    are_docs: bool = False

    def __post_init__(self) -> None:
        writable_queue(self.queue)
        # An error in these fields must not be reported as the error of a line.
        document(Doc(None, **self.fields), max_body=self.max_body)

    def send(self, batch: LineBatch, key: str | None) -> PushResult:
        """Push a batch atomically; ``BadLine`` names the line that is invalid."""
        send = self.hr.upsert_many if self.is_upsert else self.hr.push_many
        try:
            if self.are_docs:
                return send(self.queue, self._documents(batch.bodies), key=key)
            return send(self.queue, batch.bodies, key=key, **self.fields)
        except InvalidInput as error:
            raise batch.bad_line(error) from error

    def _documents(self, lines: Iterable[Any]) -> list[Doc]:
        return checks.each(lines, doc_of)


def push_one(
    target: PushTarget, payload: Any, subject: str | None, *, key: str | None, is_json: bool
) -> None:
    """Push one item, and print a note if it was skipped, updated or deferred."""
    send = target.hr.upsert if target.is_upsert else target.hr.push
    result = send(target.queue, payload, key=key, subject=subject, **target.fields)
    _print(result, is_json=is_json)
    [pushed] = result.results
    if pushed.outcome == "skipped":
        output.note(f"skipped: {REASONS[pushed.reason or 'exists']}")
    elif pushed.outcome == "updated":
        output.note(f"updated item {pushed.id}")
    elif pushed.outcome == "next":
        output.note(f"item {pushed.id} is in flight: this one runs after it")


def push_stdin(target: PushTarget, *, key: str | None, is_json: bool) -> None:
    """Push the lines of stdin in batches; each batch is atomic.

    With a key, each batch gets an idempotency key made from its number: running the same input
    again pushes only the missing batches.
    """
    stream = stdin.binary_stdin()
    updated = skipped = 0
    verb = "upserted" if target.is_upsert else "pushed"
    with (
        stdin.count_input(verb, "item") as count,
        progress(target.queue, total=stdin.size_of(stream), noun="items") as advance,
    ):
        for number, batch in enumerate(batches(stream, is_prompt=key is None)):
            result = target.send(batch, None if key is None else f"{key}/{number}")
            count.total += result.pushed + result.updated
            updated += result.updated
            skipped += result.skipped
            advance(len(result.ids), steps=batch.size)
            stdin.print_unless_closed(partial(_print, result, is_json=is_json))
    message = f"{verb} {output.format_count(count.total, 'item')} to {target.queue!r}"
    if updated:
        message += f", {updated:,} of them existed"
    if skipped:
        message += f", skipped {skipped:,}"
    output.note(f"{message} {count.pace}")


def _print(result: PushResult, *, is_json: bool) -> None:
    for each in result.results:
        if is_json:
            output.json_line(_to_dict(each))
        else:
            output.line(output.format_value(each.id))


def _to_dict(result: DocumentResult) -> dict[str, Any]:
    fields = msgspec.structs.asdict(result)
    del fields["index"]
    return fields
