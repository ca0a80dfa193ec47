"""Queues by name, without making them: a mistyped name is an error, not a new queue."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.api import Headrace
from headrace.cli.command import Session
from headrace.client.queues import Queue
from headrace.model.names import check_queue
from headrace.model.refusals import unknown_queue

QueueName = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue's name.")]


def reference(session: Session, hr: Headrace, name: str) -> Queue:
    """A queue to ask something of; what is asked says so if there is none."""
    return Queue(hr, check_queue(name), max_body=session.settings()["max_body"].value)


def is_there(hr: Headrace, name: str) -> bool:
    """Whether there is a queue of that name."""
    # In order of their names a name comes before all that begin with it.
    return [info.name for info in hr.queues(prefix=check_queue(name), limit=1)] == [name]


def must_be_there(hr: Headrace, name: str) -> None:
    """``UnknownQueue`` if there is none of that name."""
    if not is_there(hr, name):
        raise unknown_queue(name)
