"""What may be a name."""

from __future__ import annotations

import re

from headrace.errors import InvalidOption, InvalidProcName, InvalidQueueName, InvalidTopicName

_NAME = re.compile(r"[A-Za-z0-9_-]+")
LONGEST_NAME = 200
DEAD_SUFFIX = "-dead"
LONGEST_PROC_NAME = LONGEST_NAME - len(DEAD_SUFFIX)


def check_topic(name: object) -> str:
    """Return ``name`` if it may name a topic, else raise ``InvalidTopicName``."""
    if not _is_name(name):
        raise InvalidTopicName(
            f"{name!r} cannot name a topic: use 1 to {LONGEST_NAME} letters, digits, '_' or '-'.",
            topic=name,
        )
    return str(name)


def check_proc(name: object) -> str:
    """Return ``name`` if it may name a proc, else raise ``InvalidProcName``."""
    # Its dead letters need a topic of their own.
    if not _is_name(name) or len(str(name)) > LONGEST_PROC_NAME:
        raise InvalidProcName(
            f"{name!r} cannot name a proc: use 1 to {LONGEST_PROC_NAME} letters, digits, '_' or "
            "'-'.",
            proc=name,
        )
    return str(name)


def check_queue(name: object) -> str:
    """Return ``name`` if it may name a queue, else raise ``InvalidQueueName``."""
    if not _is_name(name):
        raise InvalidQueueName(
            f"{name!r} cannot name a queue: use 1 to {LONGEST_NAME} letters, digits, '_' or '-'.",
            queue=name,
        )
    return str(name)


def check_sink(name: object) -> str:
    """Return ``name`` if it may name a sink, else raise ``InvalidOption``."""
    if not _is_name(name):
        raise InvalidOption(
            f"{name!r} cannot name a sink: use 1 to {LONGEST_NAME} letters, digits, '_' or '-'.",
            option="sink",
        )
    return str(name)


def check_limit_name(name: object) -> str:
    """Return ``name`` if it may name a limit, else raise ``InvalidOption``."""
    if not _is_name(name) or str(name).startswith("_"):
        raise InvalidOption(
            f"{name!r} cannot name a limit: use 1 to {LONGEST_NAME} letters, digits, '_' or '-', "
            "and no '_' at the beginning.",
            option="name",
        )
    return str(name)


def dead_topic(proc: str) -> str:
    """The topic that takes the dead letters of a proc."""
    return proc + DEAD_SUFFIX


def _is_name(name: object) -> bool:
    return isinstance(name, str) and len(name) <= LONGEST_NAME and bool(_NAME.fullmatch(name))
