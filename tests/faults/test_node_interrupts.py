"""Exceptions of signal handlers in calls to a node: no connection is left with another's answer."""

import random
from collections import Counter

import pytest

import headrace
from faults.interrupts import interrupted, points_of
from faults.test_interrupts import chosen, elsewhere
from served_node import ServedNode

# An interrupted operation may never run, and interrupts may come in finalizers.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*was built but never run:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.usefixtures("garbage_collected"),
]


@pytest.mark.parametrize("socket", ["tcp", "unix"])
def test_calls_after_an_interrupt_get_their_own_answers(
    served: ServedNode, memory_url: str, rng: random.Random, socket: str
) -> None:
    """The interrupted push is executed once or not at all, perhaps a moment later."""
    with served.serving(memory_url):
        url = served.tcp_url if socket == "tcp" else served.unix_url
        with headrace.connect(url) as hr:
            hr.queues.create("q")
            hr.commit("t", {"n": 0})
            for number in range(8):  # what is cached after some uses
                hr.queue("q").push({"n": number})
            done = set(range(8))
            points = chosen(rng, points_of(lambda: hr.queue("q").push({"n": 8})))
            done.add(8)
            kept = []
            for number, at in enumerate(points, start=9):
                document = {"n": number}
                error = interrupted(lambda: hr.queue("q").push(document), at)  # noqa: B023  # called here
                kept.append(error)
                if error is None:
                    done.add(number)
                assert elsewhere(lambda: hr.queue("q").info()).name == "q"
                assert [record.body for record in hr.range("t")] == [{"n": 0}]
            assert any(kept), "nothing was interrupted"
            found = Counter(item.payload["n"] for item in hr.queue("q").items(limit=1000))
            assert done <= set(found) <= set(range(9 + len(points)))
            assert set(found.values()) == {1}
