"""From documents to the call a store understands, and back to what became of them."""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec

from headrace.contract.items import Note, PushCall, PushConflict, PushFull, PushOutcome, Skip
from headrace.core.commits import check_key
from headrace.core.documents import Mode
from headrace.core.times import Duration, duration_ms
from headrace.errors import InvalidOption, KeyReused, PushTimeout, QueueFull
from headrace.model import refusals
from headrace.model.items import Document
from headrace.model.names import check_queue
from headrace.model.queues import WhileActive


class DocumentResult(msgspec.Struct, frozen=True):
    """What became of one document. ``next``: it waits until the item's claim ends.

    The id is that of the live item with the subject; None where the subject is ``taken``.
    """

    index: int
    id: int | None
    outcome: Literal["pushed", "updated", "next", "skipped"]
    reason: Skip | None = None


class PushResult(msgspec.Struct, frozen=True):
    """What became of the documents of one call. What waits as ``next`` counts as updated."""

    pushed: int
    updated: int
    skipped: int
    ids: tuple[int | None, ...]
    notes: tuple[Note, ...] = ()

    @property
    def id(self) -> int | None:
        """The id of the first document's item; of the only one, after ``push``."""
        return self.ids[0] if self.ids else None

    @property
    def results(self) -> list[DocumentResult]:
        """One for each document, in order."""
        notes = {note.index: note for note in self.notes}
        found = []
        for index, id in enumerate(self.ids):
            note = notes.get(index)
            if note is None:
                found.append(DocumentResult(index, id, "pushed"))
            else:
                found.append(DocumentResult(index, id, note.outcome, note.reason))
        return found


def result_of(outcome: PushOutcome) -> PushResult:
    """What a store says of a call, as users get it."""
    if isinstance(outcome, PushConflict):
        raise KeyReused(
            f"key {outcome.key!r} was used before with other documents: nothing was pushed; "
            "a key belongs to one push, so choose another one.",
            key=outcome.key,
        )
    if isinstance(outcome, PushFull):
        if outcome.rule is not None:
            values = outcome.channel or ""
            raise refusals.limit_reached(outcome.queue, outcome.rule, outcome.limit, values)
        raise refusals.queue_full(outcome.queue, outcome.limit, outcome.channel)
    skipped = sum(note.outcome == "skipped" for note in outcome.notes)
    return PushResult(
        pushed=len(outcome.ids) - len(outcome.notes),
        updated=len(outcome.notes) - skipped,
        skipped=skipped,
        ids=tuple(id or None for id in outcome.ids),
        notes=outcome.notes,
    )


def no_room(outcome: PushFull) -> PushTimeout:
    """What to say of a call that has waited for room in vain."""
    try:
        result_of(outcome)
    except QueueFull as full:
        reason, details = str(full), full.details
    return PushTimeout(f"the wait for room is over, and {reason}", **details)


class Debounce(msgspec.Struct, frozen=True):
    """How an upsert waits for a pause, and for how long at the most."""

    pause_ms: int | None = None
    most_ms: int | None = None


NO_DEBOUNCE = Debounce()


def debounce(pause: Duration | None, max_wait: Duration | None) -> Debounce:
    """A pause and a longest wait as users give them."""
    if pause is None:
        if max_wait is not None:
            raise InvalidOption(
                "max_wait bounds a debounce: give both, or a delay.", option="max_wait"
            )
        return NO_DEBOUNCE
    most = None if max_wait is None else duration_ms("max_wait", max_wait, least=1)
    return Debounce(duration_ms("debounce", pause, least=1), most)


def push_call(
    queue: str,
    documents: tuple[Document, ...],
    *,
    mode: Mode = "push",
    while_active: WhileActive | None = None,
    wait: Debounce = NO_DEBOUNCE,
    key: str | None = None,
) -> PushCall:
    """A call for documents that are checked and encoded."""
    check_queue(queue)
    if key is not None:
        check_key(key)
    if while_active not in (None, "skip", "next"):
        raise InvalidOption(
            f"while_active is {while_active!r}: use skip or next.", option="while_active"
        )
    if wait.pause_ms is not None:
        _refuse_times(documents)
    digest = None
    if key is not None:
        content = msgspec.json.encode((queue, mode, while_active, wait, documents))
        digest = hashlib.blake2b(content, digest_size=16).hexdigest()
    return PushCall(
        queue=queue,
        documents=documents,
        mode=mode,
        while_active=while_active,
        debounce_ms=wait.pause_ms,
        max_wait_ms=wait.most_ms,
        key=key,
        digest=digest,
    )


def _refuse_times(documents: tuple[Document, ...]) -> None:
    if any(document.due is not None or document.delay is not None for document in documents):
        raise InvalidOption(
            "a debounce says when the item runs: leave at and delay out.", option="debounce"
        )
