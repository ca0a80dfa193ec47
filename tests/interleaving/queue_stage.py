"""The same small queues every time, under names of their own, and all that shows of them.

Items are known by what they carried when they were first seen, so that it does not matter
in which order two sessions got their ids.
"""

import re
from typing import Any, NamedTuple

from headrace.contract.items import EndedItem, Outcome, PushCall, Take, Taking
from headrace.contract.values import CommitCall, Part
from headrace.errors import HeadraceError
from headrace.model.items import Document, ItemState
from headrace.testing.clocks import FakeClock
from headrace.testing.queue_sides import QueueSide, live, look, plain_view

START = FakeClock().now
LEASE = 10_000


class Labels(QueueSide):
    """Items by label: their queue, and their first content or the subject."""

    def __init__(self, client: Any, mark: str) -> None:
        super().__init__(client)
        self.mark = mark
        self.labels: dict[int, str] = {}
        self.last = 2**62

    def number(self, id: int) -> Any:
        return self.labels.get(id, "somebody")

    def see(self) -> dict[str, Any]:
        """All queues of the scene; the items in them are known from then on."""
        views = look(self, self.mark)
        for name, view in views.items():
            for item in map(live, view.items):
                self.labels.setdefault(item.id, self.label(name, item))
        return views

    def label(self, queue: str, item: ItemState) -> str:
        """What an item is called from its first sight on."""
        # What is pushed later may be replaced before it is seen.
        word = item.payload if item.id <= self.last else item.subject or item.payload
        return self.labels.get(item.id, f"{queue}/{word}")

    def id(self, number: Any) -> int:
        [id] = [id for id, label in self.labels.items() if label == f"{self.mark}{number}"]
        return id


class Scene(NamedTuple):
    """Queues named after ``mark``, as one session has them before it."""

    side: Labels
    client: Any

    def name(self, queue: str) -> str:
        return f"{self.side.mark}{queue}"

    def run(self, operation: str, *args: Any) -> Any:
        store = self.client._store
        return store.run(getattr(store, operation)(*args))

    def push(self, queue: str, payload: Any, subject: str | None = None, **call: Any) -> Any:
        document = Document(payload=f'"{payload}"', subject=subject)
        calls = [PushCall(queue=self.name(queue), documents=(document,), **call)]
        return self.run("push", calls)

    def claim(self, token: str, count: int = 1, queue: str = "q", lease: int = LEASE) -> Taking:
        take = Take(queue=self.name(queue), token=token, count=count, lease_ms=lease)
        taking: Taking = self.run("claim_items", take)
        return taking

    def say(self, item: str, token: str, kind: Any, **outcome: Any) -> Any:
        said = Outcome(item=self.item(item), token=token, kind=kind, **outcome)
        return self.run("settle", self.name("q"), [said])

    def then(self, subject: str | None = None) -> dict[str, Any]:
        """What goes with an outcome: a commit and a push."""
        document = Document(payload='"then"', subject=subject)
        return {
            "commits": (CommitCall(parts=(Part(self.name("said"), 1, '"then"'),)),),
            "pushes": (PushCall(queue=self.name("then"), documents=(document,)),),
        }

    def item(self, payload: str) -> int:
        return self.side.id(f'q/"{payload}"')

    def killed(self) -> list[Outcome]:
        """What is said of an item whose queue passes on what dies."""
        id = self.side.id('letters/"doomed"')
        return [Outcome(item=id, token="worker", kind="kill")]


def prepare(client: Any, mark: str, clock: FakeClock, *, is_late: bool = False) -> Scene:
    """Three items wait, two are out (with one token), one is dead; those with letters have
    subjects. Perhaps the leases are over."""
    clock.now = START
    scene = Scene(Labels(client, mark), client)
    changes = {"dead_to": (), "while_active": "next", "keep": "none", "reject_delay": 0}
    scene.run("create_queue", scene.name("q"), {**changes, "discipline": "fifo"}, True)
    scene.run("create_queue", scene.name("other"), {}, True)
    passing_on = {"dead_to": (scene.name("other"),)}
    scene.run("create_queue", scene.name("letters"), passing_on, True)
    scene.push("letters", "doomed", "x")
    scene.claim("worker", queue="letters")
    scene.push("q", "dead", "x")
    scene.side.see()
    scene.claim("killer")
    scene.say("dead", "killer", "kill")
    for payload, subject in (("out", "a"), ("out2", None)):
        scene.push("q", payload, subject)
    scene.claim("worker", 2)
    for payload, subject in (("first", "s"), ("second", None), ("third", None)):
        scene.push("q", payload, subject)
    scene.side.see()
    scene.side.last = max(scene.side.labels)
    clock.advance(20 if is_late else 1)
    return scene


def answer(scene: Scene, act: Any) -> Any:
    """What an act returns or raises; ids are still those of the side."""
    try:
        return act(scene)
    except HeadraceError as error:
        return error


def plain(scene: Scene, value: Any) -> str:
    """An answer without the scene's names and ids."""
    if isinstance(value, Taking):
        value = Taking(state=value.state, items=value.items)
    if isinstance(value, list) and value and all(isinstance(one, int) for one in value):
        value = sorted(scene.side.number(one) for one in value)
    words = repr(scene.side.plain(value))
    return re.sub(r"item \d+", "item …", words).replace(scene.side.mark, "")


def state(scene: Scene) -> list[str]:
    """All that the scene holds."""
    shown = []
    for name, view in scene.side.see().items():
        parts = plain_view(scene.side, view)
        waiting = [item for item in view.items if isinstance(item, ItemState)]
        # Who of two that came at once stands before the other is nobody's business.
        line = [item for item in waiting if item.position and item.id <= scene.side.last]
        parts["line"] = [
            scene.side.number(item.id) for item in sorted(line, key=lambda item: item.position)
        ]
        parts["items"].sort(key=str)
        parts["ended"] = [isinstance(item, EndedItem) for item in view.items].count(True)
        shown.append(f"{name}: {parts}".replace(scene.side.mark, ""))
    records = [
        (info.name.replace(scene.side.mark, ""), [r.body for r in scene.client.range(info.name)])
        for info in scene.client.topics(prefix=scene.side.mark)
    ]
    return [*shown, repr(records)]


def claimed(value: Any) -> set[int] | None:
    """The ids that a claim got, if it was one."""
    return {item.id for item in value.items} if isinstance(value, Taking) else None
