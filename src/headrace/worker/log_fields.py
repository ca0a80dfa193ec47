"""The fields of the running task on the program's own log records."""

from __future__ import annotations

import logging

from headrace.worker.app import current_item
from headrace.worker.log_words import fields_of


class TaskFields(logging.Filter):
    """Adds ``task``, ``item``, ``queue`` and ``attempt`` to records that a task logs.

    >>> handler.addFilter(TaskFields())

    It belongs on a handler, so that the records of all loggers pass it. Every record goes on, and
    a field that a record has of its own stays.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        item = current_item()
        if item is not None:
            for name, value in {**fields_of(item), "queue": item.queue}.items():
                record.__dict__.setdefault(name, value)
        return True
