"""Queues by name, without creating them: a mistyped name is an error, not a new queue."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.completion import queue_names
from headrace.client._sync.client import Client
from headrace.model.error_messages import unknown_queue
from headrace.model.names import check_queue

QueueName = Annotated[
    str, typer.Argument(metavar="QUEUE", help="The queue's name.", autocompletion=queue_names)
]


def queue_exists(hr: Client, name: str) -> bool:
    """Whether a queue of that name exists."""
    # Queues are listed by name, and a name comes before all longer names that begin with it.
    return [info.name for info in hr.queues.list(prefix=check_queue(name), limit=1)] == [name]


def check_queue_exists(hr: Client, name: str) -> None:
    """Raise ``UnknownQueue`` if no queue of that name exists."""
    if not queue_exists(hr, name):
        raise unknown_queue(name)
