"""Which names are allowed."""

from __future__ import annotations

import hashlib
import re

from headrace.errors import (
    InvalidOption,
    InvalidProcName,
    InvalidQueueName,
    InvalidTopicName,
    ReservedName,
)
from headrace.model.fields import shown

_LETTERS = "A-Za-z0-9_."
_NAME = re.compile(f"[{_LETTERS}-]+")
_DOTS = re.compile(r"\.+")
_CHARACTERS = "letters, digits, '_', '-' or '.' (not dots alone)"
MAX_NAME_LENGTH = 200
DEAD_SUFFIX = "-dead"
ALL_QUEUES = "*"
"""Means all queues together where a queue may be named; no queue has this name."""
RESERVED = "_"
"""Begins the names of Headrace's own topics, queues, procs, pipelines and sinks."""
MAX_PROC_NAME_LENGTH = MAX_NAME_LENGTH - len(DEAD_SUFFIX)


def check_topic(name: object) -> str:
    """Return ``name`` if it may name a topic, else raise ``InvalidTopicName``."""
    if not _is_name(name):
        raise InvalidTopicName(
            f"{shown(name)} cannot name a topic: use 1 to {MAX_NAME_LENGTH} {_CHARACTERS}.",
            topic=name,
        )
    return str(name)


def check_proc(name: object) -> str:
    """Return ``name`` if it may name a proc, else raise ``InvalidProcName``."""
    # Its dead letters need a topic of their own.
    if not _is_name(name) or len(str(name)) > MAX_PROC_NAME_LENGTH:
        raise InvalidProcName(
            f"{shown(name)} cannot name a proc: use 1 to {MAX_PROC_NAME_LENGTH} {_CHARACTERS}.",
            proc=name,
        )
    return str(name)


def check_queue(name: object) -> str:
    """Return ``name`` if it may name a queue, else raise ``InvalidQueueName``.

    Willow and FetchQ allow names in plain language: ``git commits``. Only characters that separate
    names elsewhere are refused: control characters, and ``/`` as in an address.
    """
    if isinstance(name, str) and _is_readable(name):
        return name
    raise InvalidQueueName(
        f"{shown(name)} cannot name a queue: use 1 to {MAX_NAME_LENGTH} printable characters without "
        "'/', and no space at either end.",
        queue=name,
    )


def check_sink(name: object) -> str:
    """Return ``name`` if it may name a sink, else raise ``InvalidOption``."""
    if not _is_name(name):
        raise InvalidOption(
            f"{shown(name)} cannot name a sink: use 1 to {MAX_NAME_LENGTH} {_CHARACTERS}.",
            option="sink",
        )
    return str(name)


def writable_topic(name: object) -> str:
    """``check_topic``, and ``ReservedName`` if the topic is Headrace's own.

    Headrace's own writers use the store's operations, which do not check names.
    """
    checked = check_topic(name)
    if checked[0] == RESERVED:
        raise reserved_name("topic", checked)
    return checked


def writable_queue(name: object) -> str:
    """``check_queue``, and ``ReservedName`` if the queue is Headrace's own."""
    checked = check_queue(name)
    if checked[0] == RESERVED:
        raise reserved_name("queue", checked)
    return checked


def writable_proc(name: object) -> str:
    """``check_proc``, and ``ReservedName`` if the proc or pipeline is Headrace's own."""
    checked = check_proc(name)
    if checked[0] == RESERVED:
        raise reserved_name("proc", checked)
    return checked


def writable_sink(name: object) -> str:
    """``check_sink``, and ``ReservedName`` if the sink is Headrace's own."""
    checked = check_sink(name)
    if checked[0] == RESERVED:
        raise reserved_name("sink", checked)
    return checked


def reserved_name(kind: str, name: str) -> ReservedName:
    return ReservedName(
        f"{shown(name)} cannot be created or changed: names that begin with '_' are Headrace's own. "
        f"Reading such a {kind} is allowed; to write, use another name.",
        kind=kind,
        name=name,
    )


def check_limit_name(name: object) -> str:
    """Return ``name`` if it may name a limit, else raise ``InvalidOption``."""
    if not _is_name(name) or str(name).startswith("_"):
        raise InvalidOption(
            f"{shown(name)} cannot name a limit: use 1 to {MAX_NAME_LENGTH} {_CHARACTERS}, "
            "and no '_' at the beginning.",
            option="name",
        )
    return str(name)


def check_schedule(name: object) -> str:
    """Return ``name`` if it may name a schedule, else raise ``InvalidOption``."""
    if not _is_name(name):
        raise InvalidOption(
            f"{shown(name)} cannot name a schedule: use 1 to {MAX_NAME_LENGTH} {_CHARACTERS}.",
            option="name",
        )
    return str(name)


def writable_schedule(name: object) -> str:
    """``check_schedule``, and ``ReservedName`` if the schedule is Headrace's own."""
    checked = check_schedule(name)
    if checked[0] == RESERVED:
        raise reserved_name("schedule", checked)
    return checked


def dead_topic(proc: str) -> str:
    """The topic for the dead letters of a proc."""
    return proc + DEAD_SUFFIX


def proc_name(*parts: str) -> str:
    """A proc's name made of other names; with a digest where a proc may not have all of their
    characters."""
    name = "-".join(parts)
    if name.startswith(RESERVED):
        # It reads a topic of Headrace's own, and is not Headrace's own itself.
        name = f"of{name}"
    if _is_name(name):
        return name
    digest = hashlib.blake2b(name.encode(), digest_size=4).hexdigest()
    return f"{re.sub(f'[^{_LETTERS}]+', '-', name)}-{digest}"


def _is_name(name: object) -> bool:
    return (
        isinstance(name, str)
        and len(name) <= MAX_NAME_LENGTH
        and _NAME.fullmatch(name) is not None
        # In a path these are steps between folders.
        and _DOTS.fullmatch(name) is None
    )


def _is_readable(name: str) -> bool:
    return (
        0 < len(name) <= MAX_NAME_LENGTH
        and name.isprintable()
        and name == name.strip()
        and "/" not in name
        and name != ALL_QUEUES
        and _DOTS.fullmatch(name) is None
    )
