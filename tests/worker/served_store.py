"""Claims as they behave if another process does the work."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec.structs import replace
from worker_fixtures import WorkerEnv

from headrace.contract.items import ClaimRequest, ClaimResponse
from headrace.contract.op import Op, Steps

LEASE_MS = 300_000


class Clock:
    """Stands still except for claims, and for handlers that say how long they take."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Claims:
    """The claims of a worker on a store in another process. Each takes a second."""

    def __init__(self, env: WorkerEnv, clock: Clock) -> None:
        self.answered = 0
        self.by: list[str] = []
        self.sizes: list[int] = []
        # Which may be confirmed later, and have to be if the test asks for it.
        self.may_confirm: list[bool] = []
        self.are_unconfirmed = False
        self.is_confirmed_meanwhile = False
        self.before: dict[int, Callable[[], object]] = {}
        self._clock = clock
        store: Any = env.hr._store
        self._queues = store.queues
        self._run = store.run
        self._claim_items = store.queues.claim
        store.run = self.run
        store.queues.claim = self.claim_items
        store.capabilities = replace(store.capabilities, has_server=True)

    def claim_items(self, request: ClaimRequest) -> Any:
        self.may_confirm.append(request.may_confirm)
        self.sizes.append(request.count)
        return self._claim_items(request)

    def run(self, op: Any) -> Any:
        if op.name != "queues.claim":
            return self._run(op)
        number = len(self.by)
        self.by.append(threading.current_thread().name)
        try:
            answer = self._run(op)
            self.before.get(number, lambda: None)()
        except BaseException:
            op.accept()
            raise
        self._clock.now += 1.0
        self.answered += 1
        if not (self.are_unconfirmed and self.may_confirm[number]):
            return answer
        return replace(answer, confirm=partial(self._confirm, answer))

    def _confirm(self, response: ClaimResponse, item: int) -> Op[bool] | None:
        if self.is_confirmed_meanwhile:
            return None
        [claimed] = [each for each in response.items if each.id == item]

        def steps() -> Steps[bool]:
            extend = self._queues.extend(claimed.queue, claimed.token, [item], LEASE_MS)
            return bool((yield from extend))

        return Op("queues.confirm", steps)
