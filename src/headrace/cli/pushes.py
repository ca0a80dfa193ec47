"""What ``headrace push`` does with its input."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from headrace.api import Headrace
from headrace.cli import output, streams
from headrace.cli.lines import Batch, batches
from headrace.cli.progress import progress
from headrace.core.documents import Doc, SharedFields, document, encoded
from headrace.core.pushes import DocumentResult, PushResult
from headrace.errors import InvalidInput
from headrace.model.names import check_queue

REASONS = {
    "exists": "a live item has its subject",
    "active": "the item with its subject is in flight",
    "taken": "its subject was used before",
    "fixed": "the item with its subject may not be updated",
}


@dataclass(frozen=True)
class Way:
    """Where items go, and how. ``are_docs``: what is given are documents, not payloads."""

    hr: Headrace
    queue: str
    fields: SharedFields
    max_body: int
    is_upsert: bool = False
    are_docs: bool = False

    def __post_init__(self) -> None:
        check_queue(self.queue)
        # What is wrong with these is no line's fault.
        document(Doc(None, **self.fields), max_body=self.max_body)

    def send(self, batch: Batch, key: str | None) -> PushResult:
        """Push a batch, whole or not at all; ``BadLine`` if a line is to blame."""
        send = self.hr.upsert_many if self.is_upsert else self.hr.push_many
        try:
            if self.are_docs:
                return send(self.queue, self._documents(batch.bodies), key=key)
            return send(self.queue, batch.bodies, key=key, **self.fields)
        except InvalidInput as error:
            raise batch.bad_line(error, self._check) from error

    def _check(self, line: Any) -> None:
        documents = self._documents([line]) if self.are_docs else [line]
        encoded(documents, self.fields, max_body=self.max_body)

    def _documents(self, lines: Iterable[Any]) -> list[Doc]:
        return [Doc.from_dict(line) for line in lines]


def one(way: Way, payload: Any, subject: str | None, *, key: str | None, is_json: bool) -> None:
    """Push one item, and tell if it was not simply that."""
    send = way.hr.upsert if way.is_upsert else way.hr.push
    result = send(way.queue, payload, key=key, subject=subject, **way.fields)
    _print(result, is_json=is_json)
    [said] = result.results
    if said.outcome == "skipped":
        output.note(f"skipped: {REASONS[said.reason or 'exists']}")
    elif said.outcome == "updated":
        output.note(f"item {said.id} is updated")
    elif said.outcome == "next":
        output.note(f"item {said.id} is in flight: this comes after it")


def from_stdin(way: Way, *, key: str | None, is_json: bool) -> None:
    """Push the lines of stdin, batch by batch, each batch whole or not at all.

    With a key every batch has one of its own, made from its number: the same input again
    pushes only what is missing.
    """
    stream = streams.stdin()
    updated = skipped = 0
    verb = "upserted" if way.is_upsert else "pushed"
    with (
        streams.counted(verb, "item") as count,
        progress(way.queue, total=streams.size(stream), noun="items") as advance,
    ):
        for number, batch in enumerate(batches(stream, is_prompt=key is None)):
            result = way.send(batch, None if key is None else f"{key}/{number}")
            count.total += result.pushed + result.updated
            updated += result.updated
            skipped += result.skipped
            advance(len(result.ids), steps=batch.size)
            streams.print_on(partial(_print, result, is_json=is_json))
    said = f"{verb} {output.counted(count.total, 'item')} to {way.queue!r}"
    if updated:
        said += f", {updated:,} of them there before"
    if skipped:
        said += f", skipped {skipped:,}"
    output.note(f"{said} {count.pace}")


def _print(result: PushResult, *, is_json: bool) -> None:
    for said in result.results:
        if is_json:
            output.json_line(_described(said))
        else:
            output.line(output.text(said.id))


def _described(said: DocumentResult) -> dict[str, Any]:
    found = msgspec.structs.asdict(said)
    del found["index"]
    return found
