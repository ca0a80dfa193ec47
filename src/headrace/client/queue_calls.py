"""What every method about queues asks of the store: built once for blocking and async clients."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from typing import Any, cast

from headrace.client.calls import Call
from headrace.contract.items import Outcome, PushCall, Settled, Take, Taking
from headrace.contract.queues import QueueStore
from headrace.core.documents import Doc, Fields, Mode, SharedFields, document, encoded
from headrace.core.pushes import PushResult, debounce, push_call, result_of
from headrace.core.queue_settings import Settings, changes_of
from headrace.core.times import Duration, duration_ms
from headrace.errors import InvalidOption
from headrace.model.checks import positive
from headrace.model.names import check_queue
from headrace.model.queues import QueueInfo, WhileActive
from headrace.model.tokens import claim_token

HOST = socket.gethostname()


class QueueCalls:
    """Checks arguments and builds operations on queues; raises before anything is sent."""

    def __init__(self, store: object, *, max_body: int) -> None:
        self.store = cast("QueueStore", store)
        self.max_body = max_body

    def one(
        self,
        queue: str,
        payload: Any,
        fields: Fields,
        key: str | None,
        *,
        mode: Mode = "push",
        while_active: WhileActive | None = None,
        pause: Duration | None = None,
        max_wait: Duration | None = None,
    ) -> PushCall:
        """A push or an upsert of one document."""
        given = document(Doc(payload, **fields), max_body=self.max_body)
        wait = debounce(pause, max_wait)
        return push_call(queue, (given,), mode=mode, while_active=while_active, wait=wait, key=key)

    def many(
        self,
        queue: str,
        documents: object,
        fields: SharedFields,
        key: str | None,
        *,
        mode: Mode = "push",
        while_active: WhileActive | None = None,
        pause: Duration | None = None,
        max_wait: Duration | None = None,
    ) -> PushCall:
        """A push or an upsert of many documents."""
        given = encoded(documents, fields, max_body=self.max_body)
        wait = debounce(pause, max_wait)
        return push_call(queue, given, mode=mode, while_active=while_active, wait=wait, key=key)

    def push(self, call: PushCall) -> Call[PushResult]:
        return Call(self.store.push([call]), lambda outcomes: result_of(outcomes[0]))

    def claim(self, queue: str, count: int, lease: Duration | None) -> Call[Taking]:
        take = Take(
            queue=queue,
            token=claim_token(),
            count=positive("count", count),
            lease_ms=None if lease is None else duration_ms("lease", lease, least=1),
            worker=f"{HOST}/{os.getpid()}",
        )
        return Call(self.store.claim_items(take), same)

    def settle(self, queue: str, outcomes: Sequence[Outcome]) -> Call[list[Settled]]:
        given = list(outcomes)
        for said in given:
            if not isinstance(said, Outcome):
                raise InvalidOption(
                    f"{said!r:.80} is not an outcome: make one with item.outcome(...).",
                    option="outcomes",
                )
        return Call(self.store.settle(check_queue(queue), given), same)

    def extend(
        self, queue: str, token: str, items: Sequence[int], lease_ms: int
    ) -> Call[list[int]]:
        return Call(self.store.extend_items(queue, token, items, lease_ms), same)

    def create(self, name: str, settings: Settings, *, is_new: bool) -> Call[QueueInfo]:
        changes = changes_of(settings)
        return Call(self.store.create_queue(check_queue(name), changes, is_new), same)

    def queue_info(self, name: str) -> Call[QueueInfo]:
        return Call(self.store.queue_info(check_queue(name)), same)


def same(value: Any) -> Any:
    """The answer as it is."""
    return value
