"""Push requests: from documents to a ``PushCall``, and from its outcome to a ``PushResult``."""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec

from headrace.contract.items import PushCall, PushConflict, PushFull, PushOutcome, PushWarning, Skip
from headrace.core.commits import check_key
from headrace.core.documents import Mode
from headrace.errors import InvalidOption, KeyReused, PushTimeout, QueueFull
from headrace.model import error_messages
from headrace.model.fields import shown
from headrace.model.names import writable_queue
from headrace.model.queues.items import Document
from headrace.model.queues.settings import WhileActive
from headrace.model.times import Duration, duration_ms


class DocumentResult(msgspec.Struct, frozen=True):
    """The result for one document. ``next``: it waits until the item's claim ends.

    The id is that of the live item with the subject; None where the subject is ``taken``.
    """

    index: int
    id: int | None
    outcome: Literal["pushed", "updated", "next", "skipped"]
    reason: Skip | None = None


class PushResult(msgspec.Struct, frozen=True):
    """The result of one call. A document that waits as ``next`` counts as updated."""

    pushed: int
    updated: int
    skipped: int
    ids: tuple[int | None, ...]
    notes: tuple[PushWarning, ...] = ()

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
    """The result of a push for the user; raises if the store refused it."""
    if isinstance(outcome, PushConflict):
        raise KeyReused(
            f"key {shown(outcome.key)} was used before with other documents: nothing was pushed; "
            "a key belongs to one push, so choose another one.",
            key=outcome.key,
        )
    if isinstance(outcome, PushFull):
        if outcome.rule is not None:
            values = outcome.channel or ""
            raise error_messages.limit_reached(outcome.queue, outcome.rule, outcome.limit, values)
        raise error_messages.queue_full(outcome.queue, outcome.limit, outcome.channel)
    skipped = sum(note.outcome == "skipped" for note in outcome.notes)
    return PushResult(
        pushed=len(outcome.ids) - len(outcome.notes),
        updated=len(outcome.notes) - skipped,
        skipped=skipped,
        ids=tuple(id or None for id in outcome.ids),
        notes=outcome.notes,
    )


def push_timeout(outcome: PushFull) -> PushTimeout:
    """The error for a push that waited while the queue stayed full."""
    try:
        result_of(outcome)
    except QueueFull as full:
        reason, details = str(full), full.details
    return PushTimeout(f"the wait is over, and {reason}", **details)


class Debounce(msgspec.Struct, frozen=True):
    """How long an upsert waits for a pause between pushes, and its maximum wait."""

    pause_ms: int | None = None
    max_wait_ms: int | None = None


NO_DEBOUNCE = Debounce()


def debounce(pause: Duration | None, max_wait: Duration | None) -> Debounce:
    """Check a pause and a maximum wait."""
    if pause is None:
        if max_wait is not None:
            raise InvalidOption(
                "max_wait bounds a debounce: give both, or a delay.", option="max_wait"
            )
        return NO_DEBOUNCE
    max_wait_ms = None if max_wait is None else duration_ms("max_wait", max_wait, least=1)
    return Debounce(duration_ms("debounce", pause, least=1), max_wait_ms)


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
    writable_queue(queue)
    if key is not None:
        check_key(key)
    if while_active not in (None, "skip", "next"):
        raise InvalidOption(
            f"while_active is {shown(while_active)}: use skip or next.", option="while_active"
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
        max_wait_ms=wait.max_wait_ms,
        key=key,
        digest=digest,
    )


def _refuse_times(documents: tuple[Document, ...]) -> None:
    if any(document.due is not None or document.delay is not None for document in documents):
        raise InvalidOption(
            "a debounce says when the item runs: leave at and delay out.", option="debounce"
        )
