"""What a schedule does when it is due."""

from __future__ import annotations

from typing import Literal

import msgspec

from headrace.model.queues.items import Document
from headrace.model.queues.settings import WhileActive
from headrace.model.times import moment_of

Overlap = Literal["skip", "queue", "replace", "allow"]
"""What happens to a firing while an earlier one still waits or runs: see ``PushAction``."""


class PushAction(msgspec.Struct, frozen=True, kw_only=True, tag="push"):
    """Push an item.

    Its subject is the schedule's name, unless it has one of its own: by that the queue sees that
    an earlier firing still waits or runs. ``skip`` then pushes nothing. ``queue`` lets one item
    wait, with the newest content. ``replace`` replaces the one that waits, and pushes nothing
    while one runs. ``allow`` pushes anyway: the due time is a part of the subject. Without an
    ``overlap`` it is an upsert as the caller wrote it.
    """

    queue: str
    document: Document
    overlap: Overlap | None = "skip"
    while_active: WhileActive | None = None


class CommitAction(msgspec.Struct, frozen=True, kw_only=True, tag="commit"):
    """Commit a record: ``body`` and ``headers`` are JSON text."""

    topic: str
    body: str
    headers: str | None = None


class PauseAction(msgspec.Struct, frozen=True, kw_only=True, tag="pause"):
    """Pause a queue."""

    queue: str


class ResumeAction(msgspec.Struct, frozen=True, kw_only=True, tag="resume"):
    """Resume a queue."""

    queue: str


Action = PushAction | CommitAction | PauseAction | ResumeAction


class PushForm(msgspec.Struct, frozen=True):
    """How one firing is pushed."""

    document: Document
    mode: Literal["push", "upsert"]
    while_active: WhileActive | None


def firing_id(schedule: str, due: int) -> str:
    """The name of one firing: ``nightly@2030-01-31T02:30:00Z``."""
    text = moment_of(due).isoformat(timespec="milliseconds" if due % 1000 else "seconds")
    return f"{schedule}@{text.removesuffix('+00:00')}Z"


def push_form(schedule: str, due: int, action: PushAction) -> PushForm:
    """The push of one firing, by the rule on overlaps."""
    own = action.document.subject
    subject = firing_id(schedule, due) if action.overlap == "allow" else own or schedule
    document = msgspec.structs.replace(action.document, subject=subject)
    match action.overlap:
        case "skip" | "allow":
            return PushForm(document, "push", None)
        case "queue":
            return PushForm(document, "upsert", "next")
        case "replace":
            return PushForm(document, "upsert", "skip")
        case None:
            return PushForm(document, "upsert", action.while_active)


def commit_headers(schedule: str, due: int, action: CommitAction) -> str:
    """The headers of a record: those of the action, and the name of the firing."""
    headers = msgspec.json.decode(action.headers) if action.headers else {}
    return msgspec.json.encode({"schedule": firing_id(schedule, due), **headers}).decode()
