"""The log of commands that run the user's code: on stderr, as text or JSON."""

from __future__ import annotations

import logging
import sys
import time
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import msgspec

from headrace.cli import output

FIELDS = ("queue", "task", "item", "attempt", "duration_ms", "action")
_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class LevelName(StrEnum):
    """From which level on lines are logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How a line looks."""

    TEXT = "text"
    JSON = "json"


def configure_logging(level: LevelName | None, form: LogFormat | None) -> None:
    """Log on stderr, unless the user's module has configured logging.

    Without a level the user's own lines appear from info on, and Headrace's from warning on: a line
    for each task costs more than many a task.
    """
    root = logging.getLogger()
    if root.handlers:
        if level is not None or form is not None:
            output.note(
                "the app has configured logging itself: --log-level and --log-format are ignored"
            )
        return
    # Here, because most commands run no handlers.
    from headrace.worker.log_fields import TaskFields

    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(TaskFields())
    handler.setFormatter(_JsonLines() if form is LogFormat.JSON else _TextLines())
    root.addHandler(handler)
    root.setLevel((level or LevelName.INFO).upper())
    if level is None:
        logging.getLogger("headrace").setLevel(logging.WARNING)


class _TextLines(logging.Formatter):
    converter = staticmethod(time.gmtime)
    default_msec_format = "%s.%03dZ"
    default_time_format = "%Y-%m-%dT%H:%M:%S"

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s%(of_task)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name
        record.of_task = ""
        # Headrace's own lines name the task.
        if not record.name.startswith("headrace.") and hasattr(record, "item"):
            task = getattr(record, "task", "item")
            record.of_task = f" [{task} {record.item}, attempt {getattr(record, 'attempt', 1)}]"
        return super().formatMessage(record)


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        own = {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
        others = {k: v for k, v in vars(record).items() if k not in _STANDARD and k not in line}
        line |= {**own, **others}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = self.formatStack(record.stack_info)
        return msgspec.json.encode(line, enc_hook=str).decode()
