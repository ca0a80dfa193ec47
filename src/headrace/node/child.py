"""What a spawned node and its spawner tell each other.

The spawner writes one document to the standard input of the node. The node answers with lines on a
pipe: that its store is away, that it is ready, or why it cannot run.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headrace import errors
from headrace.errors import HeadraceError, NodeLost
from headrace.local_nodes import NodeRecord
from headrace.node.options import NodeOptions

FAILED = 3
"""The exit code of a node that has reported why it cannot run: another start would not help."""


class SpawnRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the node is to be, and the descriptors that it inherits.

    Without a ``lifeline`` the node is detached: it does not end with its spawner.
    """

    options: NodeOptions
    url: str
    listener_fds: list[int]
    lock_fd: int
    ready_fd: int
    lifeline: int | None = None


class SpawnReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the node. Exactly one field is set."""

    ready: NodeRecord | None = None
    away: str | None = None
    code: str | None = None
    message: str = ""
    details: dict[str, Any] = {}


def failure_report(error: HeadraceError) -> SpawnReport:
    """The line of a node that cannot run."""
    details = msgspec.to_builtins(error.details, enc_hook=str, str_keys=True)
    return SpawnReport(code=error.code, message=error.message, details=details)


def reported_error(report: SpawnReport) -> HeadraceError:
    """The error of a node that cannot run, as the spawner raises it."""
    return _CLASSES.get(report.code or "", NodeLost)(report.message, **report.details)


_CLASSES: dict[str, type[HeadraceError]] = {
    found.code: found
    for found in vars(errors).values()
    if isinstance(found, type) and issubclass(found, HeadraceError)
}
