"""What a client of PipeProc and its worker processes write to each other, a line for each message.

The client writes a ``WorkerSetup``, then requests. The worker answers each of them in turn.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headrace.errors import HeadraceError
from headrace.model.pipelines import EngineName
from headrace.node.child import SpawnReport, failure_report, reported_error


class WorkerSetup(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker process is: the store that it opens, and its limits.

    ``concurrency`` is how many processors run at the same time. After ``restart_after`` logs, 0 for
    never, the process ends, to be started again.
    """

    url: str
    engine: EngineName
    concurrency: int
    restart_after: int


class RunRequest(msgspec.Struct, frozen=True, kw_only=True, tag="run"):
    """Run a system proc. ``options`` are those of ``hr.pipelines.create``, its ``to`` among them.

    One that is not ``is_new`` was defined before. It is not defined again: it may have been
    destroyed meanwhile.
    """

    name: str
    processor: str
    options: dict[str, Any]
    is_new: bool = True


class StopRequest(msgspec.Struct, frozen=True, kw_only=True, tag="stop"):
    """Stop a system proc when its current logs are acked."""

    name: str


WorkerRequest = RunRequest | StopRequest


class WorkerAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a request succeeded: without a ``problem``, it did."""

    problem: SpawnReport | None = None

    @classmethod
    def of(cls, error: HeadraceError | None) -> WorkerAnswer:
        return cls(problem=None if error is None else failure_report(error))

    def check(self) -> None:
        """Raise the error of the worker, if there is one."""
        if self.problem is not None:
            raise reported_error(self.problem)
