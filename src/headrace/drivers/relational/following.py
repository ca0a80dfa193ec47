"""From the log to a queue, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.contract.items import PushCall
from headrace.contract.op import Op, Steps
from headrace.contract.shared import digest_of
from headrace.contract.values import AckResult
from headrace.drivers.relational.pipelines import Pipelines
from headrace.drivers.relational.queues import Queues


class Following(Pipelines, Queues):
    """What procs and queues do together."""

    def ack_push(self, proc: str, token: str, calls: Sequence[PushCall]) -> Op[AckResult]:
        digest = digest_of(calls)

        def push() -> Steps[None]:
            for call in calls:
                yield from self.push_one(call)

        return Op("ack_push", lambda: self.acked(proc, token, digest, push), repeatable=True)
