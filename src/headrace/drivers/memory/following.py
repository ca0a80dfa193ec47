"""From the log to a queue in memory."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.contract.items import PushCall
from headrace.contract.op import Op
from headrace.contract.shared import digest_of
from headrace.contract.values import AckResult
from headrace.drivers.memory.pipelines import MemoryPipelines
from headrace.drivers.memory.pushes import MemoryPushes
from headrace.drivers.memory.topics import immediate


class MemoryFollowing(MemoryPipelines, MemoryPushes):
    """What procs and queues do together."""

    def ack_push(self, proc: str, token: str, calls: Sequence[PushCall]) -> Op[AckResult]:
        digest = digest_of(calls)

        def push() -> None:
            for call in calls:
                self.push_one(call)

        return immediate("ack_push", lambda: self.acked(proc, token, digest, push))
