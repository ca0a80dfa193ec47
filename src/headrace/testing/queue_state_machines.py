"""A state machine that runs random operations on the queues of a driver and of the model.

The memory driver is the model, as in ``headrace.testing.state_machines``: after every step all
answers, all errors and everything that can be read of the queues must be equal in both.

>>> class MyMachine(QueueMachine): ...     def url(self) -> str: ...         return
"mydb://somewhere/new" >>> TestMine = MyMachine.TestCase
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule
from msgspec.structs import replace

from headrace.contract.items import (
    ClaimRequest,
    ClientInfo,
    ItemFilter,
    Outcome,
    PushCall,
    WorkerRow,
)
from headrace.contract.values import CommitCall, CommitPart
from headrace.model.failures import Failure
from headrace.model.queues.items import JSON, Kind, State
from headrace.testing import strategies as choose
from headrace.testing.faults import Point
from headrace.testing.limit_steps import LimitSteps
from headrace.testing.model_pair import NOBODY, QueueSide, plain_errors, view_of
from headrace.testing.step_runner import transact
from headrace.testing.strategies import Doc, DrawnOutcome
from headrace.testing.sync_facade import ClientMode, connect, shut


def _is_out(machine: Any) -> bool:
    return bool(machine.items(State.ACTIVE))


def _is_ended(machine: Any) -> bool:
    return bool(machine.items(State.DEAD) or machine.items(State.COMPLETED))


class QueueMachine(LimitSteps):
    """Random operations on queues, in one process, with crashes and a changing clock."""

    @initialize(
        changes=choose.changes(5),
        other=choose.changes(3),
        docs=st.lists(choose.docs, min_size=1, max_size=4),
    )
    def begin(self, changes: dict[str, Any], other: dict[str, Any], docs: list[Doc]) -> None:
        """Create something to work on."""
        self.ask(None, "queues.create", "a", changes, True)
        self.ask(None, "queues.create", "b", other, True)
        self.ask(None, "queues.create", "c", {}, True)
        self.push("a", docs, None)

    @rule(queue=choose.queues, docs=choose.some_docs, crash=choose.crashes)
    def push(self, queue: str, docs: list[Doc], crash: Point | None) -> None:
        self.ask(crash, "queues.push", [PushCall(queue=queue, documents=self.documents(docs))])

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
        self.ask(crash, "queues.push", [call])

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
        """Push newer content for an item in flight."""
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
        """Documents of several callers in one transaction. Of two calls with one key the first
        counts."""
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
        self.ask(crash, "queues.push", together)

    @rule(
        queue=choose.queues,
        count=choose.counts,
        lease=choose.leases,
        version=st.sampled_from([None, None, None, 0, 1]),
        worker=st.sampled_from([None, "w"]),
        choice=choose.choices,
        may_confirm=st.booleans(),
        crash=choose.crashes,
    )
    def claim(
        self,
        queue: str,
        count: int,
        lease: int | None,
        version: int | None,
        worker: str | None,
        choice: dict[str, Any],
        crash: Point | None,
        *,
        may_confirm: bool = False,
    ) -> None:
        """Optionally only under a version of the settings, current or old."""
        if version is not None and queue in self.views:
            version = self.views[queue].info.version - version
        request = ClaimRequest(
            queue=queue,
            token=self.new_token(),
            count=count,
            lease_ms=lease,
            version=version,
            worker=worker,
            may_confirm=may_confirm,
            **choice,
        )
        self.ask(crash, "queues.claim", request)

    @rule(
        queue=choose.queues,
        select=choose.selections,
        is_registered=st.booleans(),
        crash=choose.crashes,
    )
    def selections(
        self, queue: str, select: str | None, is_registered: bool, crash: Point | None
    ) -> None:
        """Register, delete or list selections."""
        if select is None:
            self.ask(crash, "channels.selections", queue)
        elif is_registered:
            self.ask(crash, "channels.register_selection", queue, select)
        else:
            self.ask(crash, "channels.forget_selection", queue, select)

    @rule(
        queue=choose.queues,
        select=choose.selections,
        limit=choose.limits,
        is_deleted=st.sampled_from([False, False, True]),
        crash=choose.crashes,
    )
    def channels(
        self, queue: str, select: str | None, limit: int, is_deleted: bool, crash: Point | None
    ) -> None:
        """List channels, or delete them."""
        if is_deleted:
            self.ask(crash, "channels.delete", queue, select, limit)
        else:
            self.ask(crash, "channels.list", queue, select, "", limit)

    @precondition(_is_out)
    @rule(
        which=choose.which,
        sayings=st.lists(choose.sayings, min_size=1, max_size=3),
        crash=choose.crashes,
    )
    def settle(self, which: int, sayings: list[DrawnOutcome], crash: Point | None) -> None:
        out = self.items(State.ACTIVE)
        self.say(out[which % len(out)][0], sayings, crash)

    def say(self, queue: str, sayings: Sequence[DrawnOutcome], crash: Point | None) -> None:
        said = [self.outcome(queue, saying) for saying in sayings]

        def arguments(side: QueueSide) -> Sequence[Any]:
            return queue, [replace(one, item=side.id(one.item)) for one in said]

        self.run_both(crash, "queues.settle", arguments)

    @rule(
        queue=choose.queues,
        count=choose.counts,
        sayings=st.lists(choose.sayings, min_size=1, max_size=3),
        crash=choose.crashes,
    )
    def work(
        self, queue: str, count: int, sayings: list[DrawnOutcome], crash: Point | None
    ) -> None:
        """What a worker does."""
        self.get_work(queue, count)
        self.say(queue, [saying._replace(token="own") for saying in sayings], crash)

    @rule(queue=choose.queues, count=choose.counts, crash=choose.crashes)
    def complete(self, queue: str, count: int, crash: Point | None) -> None:
        """What a worker does if all goes well."""
        got = self.get_work(queue, count)
        self.say(queue, [choose.DONE._replace(which=n) for n in range(got)], crash)

    @rule(
        queue=choose.queues,
        kind=st.sampled_from(["kill", "kill", "reject"]),
        failure=choose.failures,
        crash=choose.crashes,
    )
    def fail(self, queue: str, kind: Kind, failure: Failure | None, crash: Point | None) -> None:
        """What a worker does if an item fails."""
        self.get_work(queue, 1)
        self.say(queue, [choose.DONE._replace(kind=kind, failure=failure)], crash)

    def get_work(self, queue: str, count: int) -> int:
        """Make sure that items of the queue are in flight. Return how many."""
        self.claim(queue, count, None, None, "w", {}, None)
        if not self.items(State.ACTIVE, queue):
            self.push(queue, [Doc(subject="w")], None)
            self.ask(None, "queues.resume", queue)
            self.ask(None, "queues.freeze", queue, 0, "running")
            self.claim(queue, count, 10_000, None, "w", {}, None)
        return len(self.items(State.ACTIVE, queue))

    def outcome(self, queue: str, saying: DrawnOutcome) -> Outcome:
        """An outcome for the item with a number."""
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
                CommitCall(parts=(CommitPart("said", 1, self.content()),))
                for _ in range(saying.commits)
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

        self.run_both(crash, "queues.extend", arguments)

    def expire(self, queue: str, limit: int, crash: Point | None) -> None:
        self.ask(crash, "queues.expire_leases", queue, limit)

    @precondition(_is_out)
    @rule(which=choose.which, count=choose.counts, is_claimed=st.booleans(), crash=choose.crashes)
    def overstay(self, which: int, count: int, is_claimed: bool, crash: Point | None) -> None:
        """A lease expires. The item is claimed again, or its lease is ended."""
        out = self.items(State.ACTIVE)
        queue, item = out[which % len(out)]
        self.clock.now = max(self.clock.now, item.lease_until or 0)
        if is_claimed:
            self.claim(queue, count, 10_000, None, "x", {}, crash)
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
        self.ask(crash, "queues.create", queue, changes, is_new)

    @rule(queue=choose.queues, changes=choose.changes(2), crash=choose.crashes)
    def update(self, queue: str, changes: dict[str, Any], crash: Point | None) -> None:
        self.ask(crash, "queues.update", queue, changes)

    @rule(
        queue=choose.queues,
        what=st.sampled_from(["pause", "resume", "freeze", "unfreeze", "defaults"]),
        changes=choose.changes(1),
        crash=choose.crashes,
    )
    def switch(self, queue: str, what: str, changes: dict[str, Any], crash: Point | None) -> None:
        match what:
            case "pause":
                self.ask(crash, "queues.pause", queue, "somebody")
            case "resume":
                self.ask(crash, "queues.resume", queue)
            case "freeze":
                self.ask(crash, "queues.freeze", queue, 2000, "stopped")
            case "unfreeze":
                self.ask(crash, "queues.freeze", queue, 0, "running")
            case _:
                self.ask(crash, "queues.set_defaults", changes)

    @rule(
        client=st.sampled_from(["one", "two"]),
        queues=st.lists(choose.queues, max_size=2),
        silent=st.sampled_from([None, None, 0, 1000, 60_000]),
        crash=choose.crashes,
    )
    def coordinate(
        self, client: str, queues: list[str], silent: int | None, crash: Point | None
    ) -> None:
        """Clients send heartbeats, or are removed."""
        if silent is None:
            row = ClientInfo(id=client, name=client, host="here", pid=1)
            workers = [
                WorkerRow(id=f"{client}-{queue}", client=client, queue=queue)
                for queue in sorted(set(queues))
            ]
            self.ask(crash, "queues.heartbeat", row, workers)
        else:
            self.ask(crash, "queues.forget_clients", silent)
        self.ask(None, "queues.workers", None)
        self.ask(None, "queues.clients")

    @precondition(lambda self: len(self.views) > 2)
    @rule(
        queue=st.sampled_from(["b", "c", "c", "a"]),
        keep_data=st.booleans(),
        crash=choose.crashes,
    )
    def drop(self, queue: str, keep_data: bool, crash: Point | None) -> None:
        self.ask(crash, "queues.drop", queue, keep_data)

    @rule(
        queue=choose.queues,
        number=choose.which,
        what=st.sampled_from(["queues.cancel_item", "queues.retry_item"]),
        crash=choose.crashes,
    )
    def by_hand(self, queue: str, number: int, what: str, crash: Point | None) -> None:
        states = (State.PLANNED, State.PENDING, State.DEAD, State.COMPLETED, State.ACTIVE)
        chosen = self.some_item(queue, number, *states)
        self.run_both(crash, what, lambda side: (queue, side.id(chosen)))

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
        self.run_both(
            crash, "queues.edit_item", lambda side: (queue, side.id(chosen), payload, priority, due)
        )

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
        filter: ItemFilter,
        to: str | None,
        limit: int,
        crash: Point | None,
    ) -> None:
        """Finished items are retried or deleted."""
        ended = [*self.items(State.DEAD), *self.items(State.COMPLETED)]
        queue, item = ended[which % len(ended)]
        number = self.model.number(item.id)

        def some(side: QueueSide) -> ItemFilter:
            return replace(filter, ids=(side.id(number), NOBODY)) if which > 3 else filter

        match what:
            case "redrive":
                self.run_both(crash, "queues.redrive", lambda side: (queue, some(side), to, limit))
            case "purge":
                self.run_both(crash, "queues.purge_dead", lambda side: (queue, some(side), limit))
            case _:
                self.run_both(crash, "queues.retry_item", lambda side: (queue, side.id(number)))

    @rule(
        queue=choose.queues,
        limit=choose.limits,
        seconds=st.sampled_from([0, 0, 11, 61]),
        crash=choose.crashes,
    )
    def tend(self, queue: str, limit: int, seconds: float, crash: Point | None) -> None:
        self.clock.advance(seconds)
        if limit == 2:
            self.ask(crash, "queues.consolidate", [queue])
        else:
            self.ask(crash, "queues.maintain", queue, limit)

    @precondition(lambda self: self.driver.client.capabilities.supports_transactions)
    @rule(
        queue=choose.queues,
        docs=choose.some_docs,
        sayings=st.lists(choose.sayings, max_size=2),
        is_undone=st.booleans(),
    )
    def transact(
        self, queue: str, docs: list[Doc], sayings: list[DrawnOutcome], is_undone: bool
    ) -> None:
        """Several operations in one transaction, which may be rolled back."""
        if self.has_late_turns:
            if queue in self.views and self.views[queue].info.has_channels:
                return
            docs = [doc._replace(channel=None) for doc in docs]
            sayings = [saying._replace(pushes=()) for saying in sayings]
        calls = [PushCall(queue=queue, documents=self.documents(docs), mode="upsert")]
        said = [self.outcome(queue, saying) for saying in sayings]
        request = ClaimRequest(queue=queue, token=self.new_token(), count=2)
        answers = []
        for side in (self.driver, self.model):
            own = [replace(one, item=side.id(one.item)) for one in said]
            work = [
                ("queues.push", [calls]),
                ("queues.settle", [queue, own]),
                ("queues.claim", [request]),
            ]
            answers.append(transact(side, work, is_undone=is_undone))
        mine, self.views = view_of(self.driver), view_of(self.model)
        if not is_undone:
            for ours, theirs in zip(*answers, strict=True):
                found, wanted = self.answers("transaction", lambda side: (request,), ours, theirs)
                assert found == wanted
        difference = self.difference(mine)
        assert not difference, f"after a transaction, {difference}"

    @rule(queue=choose.queues, subject=choose.subjects, filter=choose.filters)
    def inspect_closely(self, queue: str, subject: str, filter: ItemFilter) -> None:
        """Everything of a queue that only shows on request."""
        self.ask(None, "queues.counts", None, True)
        self.ask(None, "queues.item", queue, subject)
        self.ask(None, "queues.dead_groups", queue)
        self.ask(None, "queues.count_dead", queue, filter)
        self.ask(None, "queues.dead_items", queue, filter, 0, 100)
        self.ask(None, "queues.samples", queue, 0, 100)
        if queue in self.views:
            assert plain_errors(self.driver, queue) == plain_errors(self.model, queue)
        for state in (State.PLANNED, State.PENDING, State.ACTIVE):
            for _, item in self.items(state, queue)[:4]:
                number = self.model.number(item.id)
                for operation, more in (("queues.position", ()), ("limits.of_item", (9,))):
                    ours, theirs = (
                        side.plain(side.run(operation, queue, side.id(number), *more))
                        for side in (self.driver, self.model)
                    )
                    assert ours == theirs
        self.compare_limits()
        assert _records(self.driver) == _records(self.model)

    @rule(seconds=choose.seconds)
    def step_clock(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @precondition(lambda self: self.age > 60)
    @rule(mode=st.sampled_from(["blocking", "async"]))
    def reopen(self, mode: ClientMode) -> None:
        """Another process, as far as the store can tell. Blocking or async."""
        self.age = 0
        before = self.driver.client
        if before.capabilities.survives_restart:
            shut(before)
            self.driver.client = connect(mode, self.address, **self.client_options())
        else:
            self.driver.client = connect(mode, self.address, **self.client_options())
            shut(before)


def _records(side: QueueSide) -> Any:
    """All records of all topics, in the form that must be equal on both sides."""
    found = []
    for info in side.client.topics.list():
        for record in side.client.range(info.name):
            body = record.body
            if "superseded_at" in body:
                body = body | {"id": side.number(body["id"])}
            found.append((info.name, record.id, body))
    return found
