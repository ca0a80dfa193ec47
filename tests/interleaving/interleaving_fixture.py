"""The same small queues every time, under names of their own, and everything that can be read of
them.

An item is identified by the payload that it had when it was first seen, so that the order in which
two sessions got their ids does not matter.
"""

import re
from operator import attrgetter
from typing import Any, NamedTuple

from headrace.contract.items import ClaimRequest, ClaimResponse, FinishedItem, Outcome, PushCall
from headrace.contract.values import CommitCall, CommitPart
from headrace.errors import HeadraceError
from headrace.model.queues.items import Document, ItemState
from headrace.testing.clocks import FakeClock
from headrace.testing.model_pair import QueueSide, live, plain_view, view_of

START = FakeClock().now
LEASE = 10_000


class Labels(QueueSide):
    """Items by label: their queue, and their first payload or the subject."""

    def __init__(self, client: Any, mark: str) -> None:
        super().__init__(client)
        self.mark = mark
        self.labels: dict[int, str] = {}
        self.last = 2**62

    def number(self, id: int) -> Any:
        return self.labels.get(id, "somebody")

    def see(self) -> dict[str, Any]:
        """All queues of the sample. Their items have labels from then on."""
        views = view_of(self, self.mark)
        for name, view in views.items():
            for item in map(live, view.items):
                self.labels.setdefault(item.id, self.label(name, item))
        return views

    def label(self, queue: str, item: ItemState) -> str:
        """The label of an item, from the first time it is seen."""
        # An item that is pushed later may be replaced before it is seen.
        word = item.payload if item.id <= self.last else item.subject or item.payload
        return self.labels.get(item.id, f"{queue}/{word}")

    def id(self, number: Any) -> int:
        [id] = [id for id, label in self.labels.items() if label == f"{self.mark}{number}"]
        return id


class QueueSample(NamedTuple):
    """Queues named after ``mark``, as one session sees them."""

    side: Labels
    client: Any

    def name(self, queue: str) -> str:
        return f"{self.side.mark}{queue}"

    def run(self, operation: str, *args: Any) -> Any:
        store = self.client._store
        return store.run(attrgetter(operation)(store)(*args))

    def push(self, queue: str, payload: Any, subject: str | None = None, **call: Any) -> Any:
        document = Document(payload=f'"{payload}"', subject=subject)
        calls = [PushCall(queue=self.name(queue), documents=(document,), **call)]
        return self.run("queues.push", calls)

    def claim(
        self, token: str, count: int = 1, queue: str = "q", lease: int = LEASE
    ) -> ClaimResponse:
        request = ClaimRequest(queue=self.name(queue), token=token, count=count, lease_ms=lease)
        response: ClaimResponse = self.run("queues.claim", request)
        return response

    def say(self, item: str, token: str, kind: Any, **outcome: Any) -> Any:
        said = Outcome(item=self.item(item), token=token, kind=kind, **outcome)
        return self.run("queues.settle", self.name("q"), [said])

    def then(self, subject: str | None = None) -> dict[str, Any]:
        """The follow-ups of an outcome: a commit and a push."""
        document = Document(payload='"then"', subject=subject)
        return {
            "commits": (CommitCall(parts=(CommitPart(self.name("said"), 1, '"then"'),)),),
            "pushes": (PushCall(queue=self.name("then"), documents=(document,)),),
        }

    def item(self, payload: str) -> int:
        return self.side.id(f'q/"{payload}"')

    def killed(self) -> list[Outcome]:
        """A kill of an item whose queue has a dead-letter queue."""
        id = self.side.id('letters/"doomed"')
        return [Outcome(item=id, token="worker", kind="kill")]


def prepare(client: Any, mark: str, clock: FakeClock, *, is_late: bool = False) -> QueueSample:
    """Three items are pending, two are in flight (with one token) and one is dead. Some have
    subjects. The leases may have expired."""
    clock.now = START
    sample = QueueSample(Labels(client, mark), client)
    changes = {"dead_to": (), "while_active": "next", "keep": "none", "reject_delay": 0}
    sample.run("queues.create", sample.name("q"), {**changes, "discipline": "fifo"}, True)
    sample.run("queues.create", sample.name("other"), {}, True)
    passing_on = {"dead_to": (sample.name("other"),)}
    sample.run("queues.create", sample.name("letters"), passing_on, True)
    sample.push("letters", "doomed", "x")
    sample.claim("worker", queue="letters")
    sample.push("q", "dead", "x")
    sample.side.see()
    sample.claim("killer")
    sample.say("dead", "killer", "kill")
    for payload, subject in (("out", "a"), ("out2", None)):
        sample.push("q", payload, subject)
    sample.claim("worker", 2)
    for payload, subject in (("first", "s"), ("second", None), ("third", None)):
        sample.push("q", payload, subject)
    sample.side.see()
    sample.side.last = max(sample.side.labels)
    clock.advance(20 if is_late else 1)
    return sample


def answer(sample: QueueSample, act: Any) -> Any:
    """What an act returns or raises, with the ids of its side."""
    try:
        return act(sample)
    except HeadraceError as error:
        return error


def plain(sample: QueueSample, value: Any) -> str:
    """An answer without the names and ids of the sample."""
    if isinstance(value, ClaimResponse):
        value = ClaimResponse(state=value.state, items=value.items)
    if isinstance(value, list) and value and all(isinstance(one, int) for one in value):
        value = sorted(sample.side.number(one) for one in value)
    words = repr(sample.side.plain(value))
    return re.sub(r"item \d+", "item …", words).replace(sample.side.mark, "")


def state(sample: QueueSample) -> list[str]:
    """Everything that the sample holds."""
    shown = []
    for name, view in sample.side.see().items():
        parts = plain_view(sample.side, view)
        waiting = [item for item in view.items if isinstance(item, ItemState)]
        # The order of two concurrent pushes does not matter.
        line = [item for item in waiting if item.position and item.id <= sample.side.last]
        parts["line"] = [
            sample.side.number(item.id) for item in sorted(line, key=lambda item: item.position)
        ]
        parts["items"].sort(key=str)
        parts["ended"] = [isinstance(item, FinishedItem) for item in view.items].count(True)
        shown.append(f"{name}: {parts}".replace(sample.side.mark, ""))
    records = [
        (info.name.replace(sample.side.mark, ""), [r.body for r in sample.client.range(info.name)])
        for info in sample.client.topics.list(prefix=sample.side.mark)
    ]
    return [*shown, repr(records)]


def claimed(value: Any) -> set[int] | None:
    """The ids of the claimed items, if the value is an answer to a claim."""
    return {item.id for item in value.items} if isinstance(value, ClaimResponse) else None
