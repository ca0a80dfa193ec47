"""Any two concurrent operations on queues are equivalent to one after the other.

The answers of both and the resulting state must be those of the model in one of the two orders. A
claim may skip items that the other session has locked: then the model's claim gets the same items,
and everything else must be equal again.
"""

import itertools
import os
import random
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest

import headrace
from headrace.contract.items import ItemFilter
from headrace.drivers.memory import candidates
from headrace.drivers.memory.queue_data import QueueData
from headrace.model.failures import Failure
from headrace.model.queues.items import ItemState
from headrace.testing.clocks import FakeClock
from interleaving.interleaving_fixture import QueueSample, answer, claimed, plain, prepare, state

# A handful of pairs each time, others the next time. HEADRACE_EXAMPLES=100 runs them all.
PAIRS = round(6 * float(os.environ.get("HEADRACE_EXAMPLES", "1")))

pytestmark = pytest.mark.timeout(60 + 10 * PAIRS)

Act = Callable[[QueueSample], Any]
EVERYTHING = ItemFilter()
NO = Failure(message="no")

ACTS: dict[str, Act] = {
    "push": lambda s: s.push("q", "new"),
    "push a subject": lambda s: s.push("q", "new t", "t"),
    "push that subject": lambda s: s.push("q", "other t", "t"),
    "push the dead one's subject": lambda s: s.push("q", "new x", "x"),
    "push it elsewhere": lambda s: s.push("other", "new x", "x"),
    "push to a new queue": lambda s: s.push("new", "new"),
    "upsert what waits": lambda s: s.push("q", "newer s", "s", mode="upsert"),
    "upsert an item in flight": lambda s: s.push("q", "newer a", "a", mode="upsert"),
    "upsert what is new": lambda s: s.push("q", "newer t", "t", mode="upsert"),
    "claim": lambda s: s.claim("one", 2),
    "claim again": lambda s: s.claim("two", 2),
    "complete": lambda s: s.say("out", "worker", "complete"),
    "complete the other": lambda s: s.say("out2", "worker", "complete"),
    "reschedule": lambda s: s.say("out", "worker", "reschedule", delay_ms=5000),
    "reject": lambda s: s.say("out", "worker", "reject", failure=NO, **s.then("x")),
    "kill": lambda s: s.say("out", "worker", "kill", failure=NO),
    "drop": lambda s: s.say("out", "worker", "drop", **s.then()),
    "release": lambda s: s.say("out", "worker", "release"),
    "extend": lambda s: s.run("queues.extend", s.name("q"), "worker", [s.item("out")], 60_000),
    "expire": lambda s: s.run("queues.expire_leases", s.name("q"), 10),
    "cancel": lambda s: s.run("queues.cancel_item", s.name("q"), s.item("first")),
    "cancel the dead one": lambda s: s.run("queues.cancel_item", s.name("q"), s.item("dead")),
    "retry what waits": lambda s: s.run("queues.retry_item", s.name("q"), s.item("first")),
    "retry the dead one": lambda s: s.run("queues.retry_item", s.name("q"), s.item("dead")),
    "edit": lambda s: s.run(
        "queues.edit_item", s.name("q"), s.item("first"), ('"edited"', 0), 9, None
    ),
    "edit the dead one": lambda s: s.run(
        "queues.edit_item", s.name("q"), s.item("dead"), None, 9, None
    ),
    "redrive": lambda s: s.run("queues.redrive", s.name("q"), EVERYTHING, None, 10),
    "redrive elsewhere": lambda s: s.run(
        "queues.redrive", s.name("q"), EVERYTHING, s.name("other"), 10
    ),
    "purge": lambda s: s.run("queues.purge_dead", s.name("q"), EVERYTHING, 10),
    "update": lambda s: s.run("queues.update", s.name("q"), {"reject_delay": 5.0}),
    "turn round": lambda s: s.run("queues.update", s.name("q"), {"discipline": "lifo"}),
    "pass the dead on": lambda s: s.run(
        "queues.update", s.name("q"), {"dead_to": [s.name("other")]}
    ),
    "pause": lambda s: s.run("queues.pause", s.name("q"), None),
    "freeze": lambda s: s.run("queues.freeze", s.name("q"), 60_000, "stopped"),
    "tend": lambda s: s.run("queues.maintain", s.name("q"), 10),
    # Its answer has counts of several moments. The counts that it corrects must be right.
    "consolidate": lambda s: len(s.run("queues.consolidate", [s.name("q")])),
    "kill and pass on": lambda s: s.run("queues.settle", s.name("letters"), s.killed()),
}
ALL = list(
    itertools.product(
        itertools.combinations_with_replacement(ACTS, 2), ("leases stand", "leases are over")
    )
)


def serial(order: tuple[int, int], names: tuple[str, str], *, is_late: bool, got: Any) -> list[str]:
    """The answers of both and the state, one after the other in the model.

    ``got`` has, for each act, the labels of its claimed items, if it was a claim.
    """
    acts = [ACTS[name] for name in names]
    clock = FakeClock()
    with headrace.connect("memory://", clock=clock) as client:
        sample = prepare(client, "s0_", clock, is_late=is_late)
        answers: dict[int, Any] = {}
        for number in order:
            with nullcontext() if got[number] is None else only(sample, got[number], names[number]):
                answers[number] = answer(sample, acts[number])
        after = state(sample)
        return [plain(sample, answers[0]), plain(sample, answers[1]), *after]


def only(sample: QueueSample, labels: set[str], act: str) -> Any:
    """Let a claim of the model find only some of the pending items, or an end of leases only some
    of the leases, since rows locked by the other session are skipped."""

    def is_found(item: ItemState) -> bool:
        return sample.side.label(item.queue, item)[3:] in labels

    if act == "expire":
        until = QueueData.until

        def over(self: QueueData, order: Any, time: int) -> Any:
            items = until(self, order, time)
            return [item for item in items if order is not self.leases or is_found(item)]

        return patch.object(QueueData, "until", over)
    in_line = candidates._in_line

    def found(*arguments: Any) -> Iterator[ItemState]:
        return filter(is_found, in_line(*arguments))

    return patch.object(candidates, "_in_line", found)


def check(stepped: Any, stepper: Any, clients: list[Any], names: Any, lateness: str) -> None:
    """Run two acts in all orders of their steps."""
    acts = [ACTS[name] for name in names]
    is_late = lateness == "leases are over"
    known: dict[Any, list[list[str]]] = {}
    sample: Any = None

    def script(number: int) -> list[Any]:
        nonlocal sample
        mark = f"s{next(_marks)}_"
        sample = prepare(stepped.client, mark, stepped.clock, is_late=is_late)
        return [
            partial(answer, sample._replace(client=client), act)
            for act, client in zip(acts, clients, strict=True)
        ]

    for run in stepper.interleavings(script, interruptions=1):
        assert run.errors == [None, None], (names, lateness, run)
        after = state(sample)
        got = []
        for name, value in zip(names, run.results, strict=True):
            ids = set(value) if name == "expire" else claimed(value)
            labels = None if ids is None else frozenset(map(sample.side.number, ids))
            got.append(
                labels and frozenset(label.replace(sample.side.mark, "") for label in labels)
            )
        key = tuple(got)
        if key not in known:
            known[key] = [
                serial(order, names, is_late=is_late, got=got) for order in ((0, 1), (1, 0))
            ]
        found = [*(plain(sample, value) for value in run.results), *after]
        assert found in known[key], (names, lateness, str(run)[:2000], found, known[key])


_marks = itertools.count(1)


def test_two_concurrent_operations_on_queues_are_serialisable(stepped):
    """Every answer and every state is one of those that the two orders give."""
    stepper, clients = stepped.sessions(2)
    for names, lateness in random.sample(ALL, min(PAIRS, len(ALL))):
        check(stepped, stepper, clients, names, lateness)
