"""A state machine that plays random operations on the queues of a driver and of the model.

The memory driver is the model, as in ``headrace.testing.machines``: after every step all
answers, all errors and all that shows of the queues must be the same in both.

>>> class MyMachine(QueueMachine):
...     def url(self) -> str:
...         return "mydb://somewhere/new"
>>> TestMine = MyMachine.TestCase
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from msgspec.structs import replace

from headrace.contract.items import (
    ClientRow,
    Filter,
    Outcome,
    PushCall,
    Take,
    Taking,
    WorkerRow,
)
from headrace.contract.values import CommitCall, Part
from headrace.errors import HeadraceError
from headrace.model.failures import Failure
from headrace.model.items import BYTES, JSON, Document, ItemState, Kind, State
from headrace.testing import queue_choices as choose
from headrace.testing.clocks import FakeClock
from headrace.testing.faces import BlockingFace, FaceName, connect, shut
from headrace.testing.faults import Point, crashing
from headrace.testing.queue_choices import Doc, Saying
from headrace.testing.queue_sides import (
    NOBODY,
    QueueSide,
    QueueView,
    live,
    look,
    plain_errors,
    plain_view,
)

Arguments = Callable[[QueueSide], Sequence[Any]]
QUEUES = ("a", "b", "c")
IDS = ("extend_items", "expire_leases")
"""Operations that answer with ids."""


class Answer(NamedTuple):
    """What came of a step: ``is_lost`` if it crashed, ``is_done`` if it took effect."""

    value: Any = None
    is_lost: bool = False
    is_done: bool = True


def _is_out(machine: Any) -> bool:
    return bool(machine.items(State.ACTIVE))


def _is_ended(machine: Any) -> bool:
    return bool(machine.items(State.DEAD) or machine.items(State.COMPLETED))


class QueueMachine(RuleBasedStateMachine):
    """Random operations on queues, in one process, with crashes and a restless clock.

    ``in_parts`` names operations that are more than one transaction on this driver, so that a
    crash may leave a part of them done: the push but not its answer, a claim on some of the
    items, some of the outcomes.
    """

    in_parts: frozenset[str] = frozenset()

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.address = self.url()
        self.driver = QueueSide(connect("blocking", self.address, clock=self.clock))
        self.model = QueueSide(connect("blocking", "memory://", clock=self.clock))
        self.views: dict[str, QueueView] = {}
        self.tokens: list[str] = []
        self.written = 0
        self.age = 0

    def url(self) -> str:
        """The URL of an empty store; asked once per machine."""
        raise NotImplementedError

    def teardown(self) -> None:
        shut(self.driver.client)
        shut(self.model.client)

    # What every step is made of.

    def ask(self, crash: Point | None, operation: str, *args: Any) -> Answer:
        """Do the same on both sides and compare."""
        return self.play(crash, operation, lambda side: args)

    def play(self, crash: Point | None, operation: str, arguments: Arguments) -> Answer:
        """Do the same on both sides and compare; ids are each side's own."""
        self.age += 1
        ours = Answer(is_lost=True)
        if crash is None:
            ours = _attempt(self.driver, operation, arguments)
        else:
            with crashing(self.driver.client, crash) as strike:
                ours = _attempt(self.driver, operation, arguments)
            if strike.has_struck and not strike.is_after_commit:
                return self.crashed(operation, arguments)
        theirs = _attempt(self.model, operation, arguments)
        mine, self.views = look(self.driver), look(self.model)
        if not ours.is_lost:
            found, wanted = self.answers(operation, arguments, ours.value, theirs.value)
            assert found == wanted, (
                f"{operation}: the driver says\n{found!r}\nthe model\n{wanted!r}"
            )
        difference = self.difference(mine)
        assert not difference, f"after {operation}, {difference}"
        is_done = not isinstance(theirs.value, HeadraceError)
        return Answer(theirs.value, ours.is_lost, is_done)

    def answers(
        self, operation: str, arguments: Arguments, ours: Any, theirs: Any
    ) -> tuple[Any, Any]:
        """Both answers as they must be the same."""
        if isinstance(ours, Taking) and isinstance(theirs, Taking) and ours.next_due is None:
            [take] = arguments(self.model)
            if len(ours.items) == take.count:
                # Not known, which is allowed when more may be due.
                theirs = replace(theirs, next_due=None)
        if operation in IDS and isinstance(ours, list):
            return [self.driver.number(id) for id in ours], [self.model.number(id) for id in theirs]
        return self.driver.plain(ours), self.model.plain(theirs)

    def difference(self, mine: dict[str, QueueView]) -> str:
        """What the sides show differently, in words; the model's side is ``views``."""
        if sorted(mine) != sorted(self.views):
            return f"there are {sorted(mine)}, not {sorted(self.views)}"
        for name, view in mine.items():
            ours, theirs = plain_view(self.driver, view), plain_view(self.model, self.views[name])
            for part, found in ours.items():
                if found != theirs[part]:
                    return f"{part} of {name}: driver and model have\n{found!r}\n{theirs[part]!r}"
        return ""

    def crashed(self, operation: str, arguments: Arguments) -> Answer:
        """A crash before COMMIT left nothing behind; or something of it, where that may be."""
        mine, before = look(self.driver), look(self.model)
        self.views = before
        difference = self.difference(mine)
        if not difference:
            return Answer(is_lost=True, is_done=False)
        assert operation in self.in_parts, f"after a crash in {operation}, {difference}"
        _attempt(self.model, operation, arguments)
        self.views = look(self.model)
        if self.difference(mine):
            self.check_part(mine, before, operation, arguments(self.driver))
            self.clear()
        return Answer(is_lost=True)

    def check_part(
        self,
        mine: dict[str, QueueView],
        before: dict[str, QueueView],
        operation: str,
        args: Sequence[Any],
    ) -> None:
        """What differs is what the operation was about."""
        assert operation in ("claim_items", "settle"), f"{operation} was done in part"
        ours = {item["id"]: item for item in self.all_items(self.driver, mine)}
        for item in self.all_items(self.model, before):
            found = ours.pop(item["id"], None)
            if found == item:
                continue
            if operation == "settle":
                assert item["id"] in {self.driver.number(said.item) for said in args[1]}
                continue
            is_due = item["state"] == State.PLANNED and item["next_execution"] <= self.clock.now
            assert found is not None
            assert found["token"] == args[0].token or (is_due and not found["token"])
        assert not ours

    def all_items(self, side: QueueSide, views: dict[str, QueueView]) -> list[dict[str, Any]]:
        return [item for view in views.values() for item in plain_view(side, view)["items"]]

    def clear(self) -> None:
        """Begin anew with no queues at all."""
        for side in (self.driver, self.model):
            for info in side.run("queues", "", "", 100):
                side.run("drop_queue", info.name, False)
        self.views = {}

    # What steps choose from.

    def items(self, state: State, queue: str | None = None) -> list[tuple[str, ItemState]]:
        """The items of the model in a state, of one queue or of all."""
        return [
            (name, live(item))
            for name, view in sorted(self.views.items())
            for item in view.items
            if queue in (None, name) and live(item).state == state
        ]

    def some_item(self, queue: str, number: int, *states: State) -> int:
        """An item of the queue in one of the states, or any other, or none; by its number."""
        known = [item for state in states for _, item in self.items(state, queue)]
        if known and number < 5:
            return int(self.model.number(known[number % len(known)].id))
        return number * 7

    def content(self) -> str:
        """A payload that no other item has."""
        self.written += 1
        return f'{{"n":{self.written}}}'

    def document(self, doc: Doc, payload: str | None = None) -> Document:
        form, time = doc.when
        return Document(
            payload="" if doc.is_empty else payload or self.content(),
            format=BYTES if doc.is_empty else JSON,
            subject=doc.subject,
            priority=doc.priority,
            due=self.clock.now + time if form == "due" else None,
            delay=time if form == "delay" else None,
            headers=doc.headers,
            overrides=doc.overrides,
        )

    def documents(self, docs: Sequence[Doc]) -> tuple[Document, ...]:
        return tuple(self.document(doc) for doc in docs)

    def new_token(self) -> str:
        self.tokens.append(f"token{len(self.tokens)}")
        return self.tokens[-1]

    # Steps.

    @initialize(
        changes=choose.changes(5),
        other=choose.changes(3),
        docs=st.lists(choose.docs, min_size=1, max_size=4),
    )
    def begin(self, changes: dict[str, Any], other: dict[str, Any], docs: list[Doc]) -> None:
        """Something to work on."""
        self.ask(None, "create_queue", "a", changes, True)
        self.ask(None, "create_queue", "b", other, True)
        self.ask(None, "create_queue", "c", {}, True)
        self.push("a", docs, None)

    @rule(queue=choose.queues, docs=choose.some_docs, crash=choose.crashes)
    def push(self, queue: str, docs: list[Doc], crash: Point | None) -> None:
        self.ask(crash, "push", [PushCall(queue=queue, documents=self.documents(docs))])

    @rule(
        queue=choose.queues,
        docs=choose.some_docs,
        while_active=choose.modes,
        debounce=choose.debounces,
        crash=choose.crashes,
    )
    def upsert(
        self,
        queue: str,
        docs: list[Doc],
        while_active: Any,
        debounce: tuple[int | None, int | None],
        crash: Point | None,
    ) -> None:
        call = PushCall(
            queue=queue,
            documents=self.documents(docs),
            mode="upsert",
            while_active=while_active,
            debounce_ms=debounce[0],
            max_wait_ms=debounce[1],
        )
        self.ask(crash, "push", [call])

    @precondition(_is_out)
    @rule(
        which=choose.which,
        doc=choose.docs,
        while_active=choose.modes,
        debounce=choose.debounces,
        crash=choose.crashes,
    )
    def follow(
        self,
        which: int,
        doc: Doc,
        while_active: Any,
        debounce: tuple[int | None, int | None],
        crash: Point | None,
    ) -> None:
        """Newer content for an item that is out."""
        out = self.items(State.ACTIVE)
        queue, item = out[which % len(out)]
        self.upsert(queue, [doc._replace(subject=item.subject)], while_active, debounce, crash)

    @rule(
        calls=st.lists(
            st.tuples(choose.queues, choose.keys, st.integers(0, 1), choose.docs, st.booleans()),
            max_size=3,
        ),
        crash=choose.crashes,
    )
    def push_together(
        self, calls: list[tuple[str, str | None, int, Doc, bool]], crash: Point | None
    ) -> None:
        """Several callers' documents in one transaction; with a key, the first of two counts."""
        together = [
            PushCall(
                queue=queue,
                documents=(
                    self.document(doc, payload=f'{{"version":{version}}}' if key else None),
                ),
                mode="upsert" if is_upsert else "push",
                key=key,
                digest=f"{version}" if key else None,
            )
            for queue, key, version, doc, is_upsert in calls
        ]
        self.ask(crash, "push", together)

    @rule(
        queue=choose.queues,
        count=choose.counts,
        lease=choose.leases,
        version=st.sampled_from([None, None, None, 0, 1]),
        worker=st.sampled_from([None, "w"]),
        crash=choose.crashes,
    )
    def claim(
        self,
        queue: str,
        count: int,
        lease: int | None,
        version: int | None,
        worker: str | None,
        crash: Point | None,
    ) -> None:
        """Perhaps only if the settings have the version that they have, or had before."""
        if version is not None and queue in self.views:
            version = self.views[queue].info.version - version
        take = Take(
            queue=queue,
            token=self.new_token(),
            count=count,
            lease_ms=lease,
            version=version,
            worker=worker,
        )
        self.ask(crash, "claim_items", take)

    @precondition(_is_out)
    @rule(
        which=choose.which,
        sayings=st.lists(choose.sayings, min_size=1, max_size=3),
        crash=choose.crashes,
    )
    def settle(self, which: int, sayings: list[Saying], crash: Point | None) -> None:
        out = self.items(State.ACTIVE)
        self.say(out[which % len(out)][0], sayings, crash)

    def say(self, queue: str, sayings: Sequence[Saying], crash: Point | None) -> None:
        said = [self.outcome(queue, saying) for saying in sayings]

        def arguments(side: QueueSide) -> Sequence[Any]:
            return queue, [replace(one, item=side.id(one.item)) for one in said]

        self.play(crash, "settle", arguments)

    @rule(
        queue=choose.queues,
        count=choose.counts,
        sayings=st.lists(choose.sayings, min_size=1, max_size=3),
        crash=choose.crashes,
    )
    def work(self, queue: str, count: int, sayings: list[Saying], crash: Point | None) -> None:
        """What a worker does."""
        self.get_work(queue, count)
        self.say(queue, [saying._replace(token="own") for saying in sayings], crash)

    @rule(queue=choose.queues, count=choose.counts, crash=choose.crashes)
    def complete(self, queue: str, count: int, crash: Point | None) -> None:
        """What a worker does when all goes well."""
        got = self.get_work(queue, count)
        self.say(queue, [choose.DONE._replace(which=n) for n in range(got)], crash)

    @rule(
        queue=choose.queues,
        kind=st.sampled_from(["kill", "kill", "reject"]),
        failure=choose.failures,
        crash=choose.crashes,
    )
    def fail(self, queue: str, kind: Kind, failure: Failure | None, crash: Point | None) -> None:
        """What a worker does when an item is too much for it."""
        self.get_work(queue, 1)
        self.say(queue, [choose.DONE._replace(kind=kind, failure=failure)], crash)

    def get_work(self, queue: str, count: int) -> int:
        """Make sure that items of the queue are out; how many are."""
        self.claim(queue, count, None, None, "w", None)
        if not self.items(State.ACTIVE, queue):
            self.push(queue, [Doc(subject="w")], None)
            self.ask(None, "resume_queue", queue)
            self.ask(None, "hold_queue", queue, 0, "running")
            self.claim(queue, count, 10_000, None, "w", None)
        return len(self.items(State.ACTIVE, queue))

    def outcome(self, queue: str, saying: Saying) -> Outcome:
        """What is said, of the item with a number."""
        out = self.items(State.ACTIVE, queue)
        item = out[saying.which % len(out)][1] if out else None
        token = "nobody's"
        if saying.token == "own" and item is not None:
            token = item.token or ""
        elif saying.token == "stale" and self.tokens:
            token = self.tokens[saying.which % len(self.tokens)]
        form, time = saying.wait
        return Outcome(
            item=NOBODY if item is None else self.model.number(item.id),
            token=token,
            kind=saying.kind,
            payload=self.content() if saying.has_payload else None,
            due=self.clock.now + time if form == "due" else None,
            delay_ms=time if form == "delay" else None,
            failure=saying.failure,
            chance=0.5,
            commits=tuple(
                CommitCall(parts=(Part("said", 1, self.content()),)) for _ in range(saying.commits)
            ),
            pushes=tuple(
                PushCall(
                    queue=to,
                    documents=(self.document(doc),),
                    mode="upsert" if is_upsert else "push",
                )
                for to, doc, is_upsert in saying.pushes
            ),
        )

    @precondition(_is_out)
    @rule(
        which=choose.which,
        token=st.sampled_from(["own", "own", "stale"]),
        more=st.lists(choose.which, max_size=2),
        lease=st.sampled_from([1, 5000, 600_000]),
        crash=choose.crashes,
    )
    def extend(
        self, which: int, token: str, more: list[int], lease: int, crash: Point | None
    ) -> None:
        out = self.items(State.ACTIVE)
        queue, item = out[which % len(out)]
        held = item.token if token == "own" else self.tokens[which % len(self.tokens)]
        numbers = [self.model.number(one.id) for _, one in (out[n % len(out)] for n in more)]
        numbers.append(self.model.number(item.id))

        def arguments(side: QueueSide) -> Sequence[Any]:
            return queue, held, [side.id(number) for number in numbers], lease

        self.play(crash, "extend_items", arguments)

    def expire(self, queue: str, limit: int, crash: Point | None) -> None:
        self.ask(crash, "expire_leases", queue, limit)

    @precondition(_is_out)
    @rule(which=choose.which, count=choose.counts, is_claimed=st.booleans(), crash=choose.crashes)
    def overstay(self, which: int, count: int, is_claimed: bool, crash: Point | None) -> None:
        """A lease runs out, and the item is handed out again, or its lease is ended."""
        out = self.items(State.ACTIVE)
        queue, item = out[which % len(out)]
        self.clock.now = max(self.clock.now, item.lease_until or 0)
        if is_claimed:
            self.claim(queue, count, 10_000, None, "x", crash)
        else:
            self.expire(queue, count, crash)

    @rule(
        queue=choose.queues,
        changes=choose.changes(2),
        is_new=st.sampled_from([False, False, True]),
        crash=choose.crashes,
    )
    def create(
        self, queue: str, changes: dict[str, Any], is_new: bool, crash: Point | None
    ) -> None:
        self.ask(crash, "create_queue", queue, changes, is_new)

    @rule(queue=choose.queues, changes=choose.changes(2), crash=choose.crashes)
    def update(self, queue: str, changes: dict[str, Any], crash: Point | None) -> None:
        self.ask(crash, "update_queue", queue, changes)

    @rule(
        queue=choose.queues,
        what=st.sampled_from(["pause", "resume", "hold", "unhold", "defaults"]),
        changes=choose.changes(1),
        crash=choose.crashes,
    )
    def switch(self, queue: str, what: str, changes: dict[str, Any], crash: Point | None) -> None:
        match what:
            case "pause":
                self.ask(crash, "pause_queue", queue, "somebody")
            case "resume":
                self.ask(crash, "resume_queue", queue)
            case "hold":
                self.ask(crash, "hold_queue", queue, 2000, "stopped")
            case "unhold":
                self.ask(crash, "hold_queue", queue, 0, "running")
            case _:
                self.ask(crash, "set_queue_defaults", changes)

    @rule(
        client=st.sampled_from(["one", "two"]),
        queues=st.lists(choose.queues, max_size=2),
        silent=st.sampled_from([None, None, 0, 1000, 60_000]),
        crash=choose.crashes,
    )
    def coordinate(
        self, client: str, queues: list[str], silent: int | None, crash: Point | None
    ) -> None:
        """Clients say what they have, or are forgotten."""
        if silent is None:
            row = ClientRow(id=client, name=client, host="here", pid=1)
            workers = [
                WorkerRow(id=f"{client}-{queue}", client=client, queue=queue)
                for queue in sorted(set(queues))
            ]
            self.ask(crash, "beat", row, workers)
        else:
            self.ask(crash, "forget_clients", silent)
        self.ask(None, "workers", None)
        self.ask(None, "clients")

    @precondition(lambda self: len(self.views) > 2)
    @rule(
        queue=st.sampled_from(["b", "c", "c", "a"]),
        keep_data=st.booleans(),
        crash=choose.crashes,
    )
    def drop(self, queue: str, keep_data: bool, crash: Point | None) -> None:
        self.ask(crash, "drop_queue", queue, keep_data)

    @rule(
        queue=choose.queues,
        number=choose.which,
        what=st.sampled_from(["cancel_item", "retry_item"]),
        crash=choose.crashes,
    )
    def by_hand(self, queue: str, number: int, what: str, crash: Point | None) -> None:
        states = (State.PLANNED, State.PENDING, State.DEAD, State.COMPLETED, State.ACTIVE)
        chosen = self.some_item(queue, number, *states)
        self.play(crash, what, lambda side: (queue, side.id(chosen)))

    @rule(
        queue=choose.queues,
        number=choose.which,
        has_payload=st.booleans(),
        priority=st.sampled_from([None, 0, 7]),
        wait=st.sampled_from([None, 0, -1000, 2000]),
        crash=choose.crashes,
    )
    def edit(
        self,
        queue: str,
        number: int,
        has_payload: bool,
        priority: int | None,
        wait: int | None,
        crash: Point | None,
    ) -> None:
        states = (State.PLANNED, State.PENDING, State.DEAD, State.COMPLETED, State.ACTIVE)
        chosen = self.some_item(queue, number, *states)
        payload = (self.content(), JSON) if has_payload else None
        due = None if wait is None else self.clock.now + wait
        self.play(crash, "edit_item", lambda side: (queue, side.id(chosen), payload, priority, due))

    @precondition(_is_ended)
    @rule(
        which=choose.which,
        what=st.sampled_from(["redrive", "redrive", "purge", "retry"]),
        filter=choose.filters,
        to=st.sampled_from([None, None, "a", "b", "c"]),
        limit=choose.limits,
        crash=choose.crashes,
    )
    def bury(
        self,
        which: int,
        what: str,
        filter: Filter,
        to: str | None,
        limit: int,
        crash: Point | None,
    ) -> None:
        """What ended runs again, or is removed."""
        ended = [*self.items(State.DEAD), *self.items(State.COMPLETED)]
        queue, item = ended[which % len(ended)]
        number = self.model.number(item.id)

        def some(side: QueueSide) -> Filter:
            return replace(filter, ids=(side.id(number), NOBODY)) if which > 3 else filter

        match what:
            case "redrive":
                self.play(crash, "redrive", lambda side: (queue, some(side), to, limit))
            case "purge":
                self.play(crash, "purge_dead", lambda side: (queue, some(side), limit))
            case _:
                self.play(crash, "retry_item", lambda side: (queue, side.id(number)))

    @rule(
        queue=choose.queues,
        limit=choose.limits,
        seconds=st.sampled_from([0, 0, 11, 61]),
        crash=choose.crashes,
    )
    def tend(self, queue: str, limit: int, seconds: float, crash: Point | None) -> None:
        self.clock.advance(seconds)
        if limit == 2:
            self.ask(crash, "consolidate", [queue])
        else:
            self.ask(crash, "tend_queue", queue, limit)

    @rule(
        queue=choose.queues,
        docs=choose.some_docs,
        sayings=st.lists(choose.sayings, max_size=2),
        is_undone=st.booleans(),
    )
    def transact(self, queue: str, docs: list[Doc], sayings: list[Saying], is_undone: bool) -> None:
        """Several operations in one transaction, that comes to nothing perhaps."""
        calls = [PushCall(queue=queue, documents=self.documents(docs), mode="upsert")]
        said = [self.outcome(queue, saying) for saying in sayings]
        take = Take(queue=queue, token=self.new_token(), count=2)
        answers = []
        for side in (self.driver, self.model):
            own = [replace(one, item=side.id(one.item)) for one in said]
            work = [("push", [calls]), ("settle", [queue, own]), ("claim_items", [take])]
            answers.append(_transact(side, work, is_undone=is_undone))
        mine, self.views = look(self.driver), look(self.model)
        if not is_undone:
            for ours, theirs in zip(*answers, strict=True):
                found, wanted = self.answers("transaction", lambda side: (take,), ours, theirs)
                assert found == wanted
        difference = self.difference(mine)
        assert not difference, f"after a transaction, {difference}"

    @rule(queue=choose.queues, subject=choose.subjects, filter=choose.filters)
    def look_closely(self, queue: str, subject: str, filter: Filter) -> None:
        """All that shows of a queue only when it is asked for."""
        self.ask(None, "item", queue, subject)
        self.ask(None, "dead_groups", queue)
        self.ask(None, "count_dead", queue, filter)
        self.ask(None, "dead_items", queue, filter, 0, 100)
        self.ask(None, "samples", queue, 0, 100)
        if queue in self.views:
            assert plain_errors(self.driver, queue) == plain_errors(self.model, queue)
        for state in (State.PLANNED, State.PENDING, State.ACTIVE):
            for _, item in self.items(state, queue)[:4]:
                number = self.model.number(item.id)
                ours, theirs = (
                    side.plain(side.run("place", queue, side.id(number)))
                    for side in (self.driver, self.model)
                )
                assert ours == theirs
        assert _records(self.driver) == _records(self.model)

    @rule(seconds=choose.seconds)
    def step_clock(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @precondition(lambda self: self.age > 60)
    @rule(face=st.sampled_from(["blocking", "async"]))
    def reopen(self, face: FaceName) -> None:
        """Another process, as far as the store can tell; blocking or async."""
        self.age = 0
        before = self.driver.client
        if before.capabilities.survives_restart:
            shut(before)
            self.driver.client = connect(face, self.address, clock=self.clock)
        else:
            self.driver.client = connect(face, self.address, clock=self.clock)
            shut(before)


def _attempt(side: QueueSide, operation: str, arguments: Arguments) -> Answer:
    try:
        return Answer(side.run(operation, *arguments(side)))
    except HeadraceError as error:
        return Answer(error)


class _Undone(Exception):
    """A transaction shall come to nothing."""


def _transact(side: QueueSide, work: Sequence[tuple[str, Any]], *, is_undone: bool) -> list[Any]:
    """Operations in one transaction of the store's own; their answers, or what they raised."""
    answers: list[Any] = []
    store = side.client._store

    async def together() -> None:
        async with store.atransaction() as session:
            for operation, args in work:
                try:
                    answers.append(await session.arun(getattr(session, operation)(*args)))
                except HeadraceError as error:
                    answers.append(error)
            if is_undone:
                raise _Undone

    def one_by_one() -> None:
        with store.transaction() as session:
            for operation, args in work:
                try:
                    answers.append(session.run(getattr(session, operation)(*args)))
                except HeadraceError as error:
                    answers.append(error)
            if is_undone:
                raise _Undone

    with suppress(_Undone):
        if isinstance(side.client, BlockingFace):
            side.client._await(together())
        else:
            one_by_one()
    return answers


def _records(side: QueueSide) -> Any:
    """All records of all topics, as they must be on both sides."""
    found = []
    for info in side.client.topics():
        for record in side.client.range(info.name):
            body = record.body
            if "superseded_at" in body:
                body = body | {"id": side.number(body["id"])}
            found.append((info.name, record.id, body))
    return found
