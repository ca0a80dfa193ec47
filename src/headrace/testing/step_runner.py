"""How a step of the queue machine runs: on both sides, compared, with or without a crash."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Any, NamedTuple

from hypothesis.stateful import RuleBasedStateMachine
from msgspec.structs import replace

from headrace.contract.items import ClaimResponse
from headrace.errors import HeadraceError
from headrace.model.queues.items import BYTES, JSON, Document, ItemState, State
from headrace.testing.clocks import FakeClock
from headrace.testing.faults import Point, crashing
from headrace.testing.model_pair import QueueSide, QueueView, live, plain_view, view_of
from headrace.testing.strategies import Doc
from headrace.testing.sync_facade import SyncFacade, connect, shut

Arguments = Callable[[QueueSide], Sequence[Any]]
IDS = ("queues.extend", "queues.expire_leases")
"""Operations that answer with ids."""
LOOKS = (
    "queues.counts",
    "queues.item",
    "queues.dead_groups",
    "queues.count_dead",
    "queues.dead_items",
    "queues.samples",
    "queues.clients",
    "queues.workers",
    "limits.list",
    "limits.usage",
    "counters.list",
)
"""Operations that change nothing."""


class Answer(NamedTuple):
    """The result of a step: ``is_lost`` if it crashed, ``is_done`` if it took effect."""

    value: Any = None
    is_lost: bool = False
    is_done: bool = True


class QueueStepRunner(RuleBasedStateMachine):
    """Two sides, and what a step may choose from. ``QueueMachine`` has the steps.

    ``in_parts`` names operations that are more than one transaction on this driver, so that a crash
    may leave a part of them done: the push without its answer, a claim on some of the items, some
    of the outcomes. ``has_late_turns`` says that channels which a transaction has emptied lose
    their turn only later, so that they have an older one if they are filled again.
    """

    in_parts: frozenset[str] = frozenset()
    has_late_turns = False

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.open()
        self.views: dict[str, QueueView] = {}
        self.tokens: list[str] = []
        self.written = 0
        self.age = 0

    def open(self) -> None:
        """Two empty stores."""
        self.address = self.url()
        self.driver = QueueSide(connect("blocking", self.address, **self.client_options()))
        self.model = QueueSide(connect("blocking", "memory://", clock=self.clock))

    def url(self) -> str:
        """The URL of an empty store, requested whenever the machine starts or starts over."""
        raise NotImplementedError  # each driver has its own; a state machine cannot be an ABC

    def client_options(self) -> dict[str, Any]:
        """The options of the driver's clients. A node has the clock itself."""
        return {"clock": self.clock}

    def await_end(self) -> None:
        """Wait until a crashed operation is over for the database too. Until then it holds locks,
        and other operations skip the rows that it has locked."""

    def evidence(self) -> str:
        """What else is known of the store at the moment, to explain a failure."""
        return ""

    def teardown(self) -> None:
        shut(self.driver.client)
        shut(self.model.client)

    # The parts of every step.

    def ask(self, crash: Point | None, operation: str, *args: Any) -> Answer:
        """Do the same on both sides and compare."""
        return self.run_both(crash, operation, lambda side: args)

    def run_both(self, crash: Point | None, operation: str, arguments: Arguments) -> Answer:
        """Do the same on both sides and compare. Each side has its own ids."""
        self.age += 1
        ours = Answer(is_lost=True)
        if crash is None:
            ours = attempt(self.driver, operation, arguments)
        else:
            with crashing(self.driver.client, crash) as strike:
                ours = attempt(self.driver, operation, arguments)
            self.await_end()
            if strike.has_struck and not strike.is_after_commit:
                return self.crashed(operation, arguments)
        theirs = attempt(self.model, operation, arguments)
        if operation not in LOOKS:
            mine, self.views = view_of(self.driver), view_of(self.model)
        if not ours.is_lost:
            found, wanted = self.answers(operation, arguments, ours.value, theirs.value)
            assert found == wanted, (
                f"{operation}: the driver says\n{found!r}\nthe model\n{wanted!r}{self.evidence()}"
            )
        difference = "" if operation in LOOKS else self.difference(mine)
        assert not difference, f"after {operation}, {difference}{self.evidence()}"
        is_done = not isinstance(theirs.value, HeadraceError)
        return Answer(theirs.value, ours.is_lost, is_done)

    def answers(
        self, operation: str, arguments: Arguments, ours: Any, theirs: Any
    ) -> tuple[Any, Any]:
        """Both answers in the form that must be equal."""
        if isinstance(ours, ClaimResponse) and isinstance(theirs, ClaimResponse):
            [request] = arguments(self.model)
            # A store that always waits for the flush has no claims to confirm.
            ours = replace(ours, confirm=None)
            if ours.next_due is None and len(ours.items) == request.count:
                # Unknown, which is allowed if more may be due.
                theirs = replace(theirs, next_due=None)
            if _is_sooner(ours.next_due, theirs.next_due) and self._has_rates():
                # Time frees slots of a rate, and no driver checks whether anything waits for them.
                theirs = replace(theirs, next_due=ours.next_due)
            if ours.version == self.views[request.queue].info.version:
                # A lease that it ended may have given the queue its first channel.
                theirs = replace(theirs, version=ours.version)
        if operation in IDS and isinstance(ours, list):
            return [self.driver.number(id) for id in ours], [self.model.number(id) for id in theirs]
        return self.driver.plain(ours), self.model.plain(theirs)

    def difference(self, mine: dict[str, QueueView]) -> str:
        """A description of what differs between the sides. The model's side is ``views``."""
        if sorted(mine) != sorted(self.views):
            return f"there are {sorted(mine)}, not {sorted(self.views)}"
        for name, view in mine.items():
            ours, theirs = plain_view(self.driver, view), plain_view(self.model, self.views[name])
            for part, found in ours.items():
                if found != theirs[part]:
                    return f"{part} of {name}: driver and model have\n{found!r}\n{theirs[part]!r}"
        return ""

    def crashed(self, operation: str, arguments: Arguments) -> Answer:
        """A crash before COMMIT left nothing behind, or a part where the driver allows that."""
        mine, before = view_of(self.driver), view_of(self.model)
        self.views = before
        difference = self.difference(mine)
        if not difference:
            return Answer(is_lost=True, is_done=False)
        assert operation in self.in_parts, f"after a crash in {operation}, {difference}"
        attempt(self.model, operation, arguments)
        self.views = view_of(self.model)
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
        """Only what the operation concerned differs."""
        assert operation in ("queues.claim", "queues.settle"), f"{operation} was done in part"
        ours = {item["id"]: item for item in self.all_items(self.driver, mine)}
        for item in self.all_items(self.model, before):
            found = ours.pop(item["id"], None)
            if found == item:
                continue
            if operation == "queues.settle":
                assert item["id"] in {self.driver.number(said.item) for said in args[1]}
                continue
            is_due = item["state"] == State.PLANNED and item["next_execution"] <= self.clock.now
            assert found is not None
            assert found["token"] == args[0].token or (is_due and not found["token"])
        assert not ours

    def all_items(self, side: QueueSide, views: dict[str, QueueView]) -> list[dict[str, Any]]:
        """All items, including finished ones."""
        return [side.plain(live(item)) for view in views.values() for item in view.items]

    def _has_rates(self) -> bool:
        return any(row.period_ms for row in self.model.run("limits.list", "", 9))

    def clear(self) -> None:
        """Start over with two empty stores."""
        self.teardown()
        self.open()
        self.views = {}

    # The choices of steps.

    def items(self, state: State, queue: str | None = None) -> list[tuple[str, ItemState]]:
        """The items of the model in a state, of one queue or of all."""
        return [
            (name, live(item))
            for name, view in sorted(self.views.items())
            for item in view.items
            if queue in (None, name) and live(item).state == state
        ]

    def some_item(self, queue: str, number: int, *states: State) -> int:
        """The number of an item of the queue in one of the states, or of any other item, or of
        none."""
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
            key_values=doc.channel,
        )

    def documents(self, docs: Sequence[Doc]) -> tuple[Document, ...]:
        return tuple(self.document(doc) for doc in docs)

    def new_token(self) -> str:
        self.tokens.append(f"token{len(self.tokens)}")
        return self.tokens[-1]


def _is_sooner(one: int | None, other: int | None) -> bool:
    return one is not None and (other is None or one < other)


def attempt(side: QueueSide, operation: str, arguments: Arguments) -> Answer:
    try:
        return Answer(side.run(operation, *arguments(side)))
    except HeadraceError as error:
        return Answer(error)


class _Undone(Exception):
    """Rolls a transaction back."""


def transact(side: QueueSide, work: Sequence[tuple[str, Any]], *, is_undone: bool) -> list[Any]:
    """Operations in one transaction of the store. Return their answers, or what they raised."""
    answers: list[Any] = []
    store = side.client._store

    async def together() -> None:
        async with store.atransaction() as session:
            for operation, args in work:
                try:
                    answers.append(await session.arun(attrgetter(operation)(session)(*args)))
                except HeadraceError as error:
                    answers.append(error)
            if is_undone:
                raise _Undone

    def one_by_one() -> None:
        with store.transaction() as session:
            for operation, args in work:
                try:
                    answers.append(session.run(attrgetter(operation)(session)(*args)))
                except HeadraceError as error:
                    answers.append(error)
            if is_undone:
                raise _Undone

    with suppress(_Undone):
        if isinstance(side.client, SyncFacade):
            side.client._await(together())
        else:
            one_by_one()
    return answers
