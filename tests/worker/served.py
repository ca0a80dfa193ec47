"""Claims as they are where another process does the work."""

import threading
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace
from workshop import Shop

from headrace.contract.items import Take


class Clock:
    """Stands still but for claims, and for handlers that say how long they take."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Claims:
    """The claims of a worker on a store that does its work elsewhere, each of a second."""

    def __init__(self, shop: Shop, clock: Clock) -> None:
        self.answered = 0
        self.by: list[str] = []
        self.sizes: list[int] = []
        # Which may be loose; they are, if that is wanted.
        self.loosely: list[bool] = []
        self.are_loose = False
        self.before: dict[int, Callable[[], object]] = {}
        self._clock = clock
        store: Any = shop.hr._store
        self._run = store.run
        self._claim_items = store.claim_items
        store.run = self.run
        store.claim_items = self.claim_items
        store.capabilities = replace(store.capabilities, is_served=True)

    def claim_items(self, take: Take) -> Any:
        self.loosely.append(take.may_be_loose)
        self.sizes.append(take.count)
        return self._claim_items(take)

    def run(self, op: Any) -> Any:
        if op.name != "claim_items":
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
        return replace(answer, is_loose=self.are_loose and self.loosely[number])
