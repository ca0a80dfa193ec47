"""Maintenance beside the work: whoever has workers keeps the store tidy."""

from __future__ import annotations

import threading
from collections.abc import Callable

from headrace.client.chores import INTERVAL_MS, maintenance
from headrace.contract.op import Op
from headrace.contract.store import Store


class Chores:
    """A thread that does a round of maintenance now and then.

    Its own, since a round may take long and the heartbeat must not wait for it. Of all the
    clients of a store one at a time does it.
    """

    def __init__(self, store: Store, trouble: Callable[[Exception], None]) -> None:
        self._store = store
        self._trouble = trouble
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-chores", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Do no more than what is under way."""
        self._over.set()

    def join(self, patience: float) -> None:
        """Wait until it is through with the store."""
        self._thread.join(patience)

    def _run(self) -> None:
        while not self._over.wait(INTERVAL_MS / 1000):
            try:
                self.do()
            except Exception as error:  # the next round may do better
                self._trouble(error)

    def do(self) -> None:
        """One round."""
        plan = maintenance(self._store, force=False)
        try:
            step = next(plan)
            while not self._over.is_set():
                try:
                    answer = None
                    if isinstance(step, Op):
                        answer = self._store.run(step)
                    else:
                        self._over.wait(step)
                except Exception as error:  # the plan knows which of them are no trouble
                    step = plan.throw(error)
                else:
                    step = plan.send(answer)
        except StopIteration:
            return
