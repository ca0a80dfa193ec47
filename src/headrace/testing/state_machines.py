"""A state machine that runs random operations on a driver and on the model.

The memory driver is the model: after every step all answers, all errors and the whole state must be
equal in both. What the two share, and could both have wrong, is checked once more by
``HistoryChecker``, which knows only what a user can see.

>>> class MyMachine(StoreMachine): ...     def url(self) -> str: ...         return
"mydb://somewhere/new" >>> TestMine = MyMachine.TestCase
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple
from unittest.mock import patch

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.client._sync.procs import Proc
from headrace.client.claimed_records import ClaimedRecords
from headrace.core import scans
from headrace.core.commits import prepare
from headrace.core.requests import procs as proc_requests
from headrace.core.requests.request import Request
from headrace.errors import HeadraceError
from headrace.model.codec import DEFAULT_MAX_BODY
from headrace.testing.clocks import FakeClock
from headrace.testing.faults import Point, crashing
from headrace.testing.history import ClaimedBatch, HistoryChecker, Side, Ticket
from headrace.testing.sync_facade import ClaimFacade, ClientMode, SyncFacade, connect, shut

PROCS = ("p", "q", "r")


class Place(NamedTuple):
    """A position by what it refers to. ``StoreMachine.text`` writes it out for a topic."""

    form: str
    ordinal: int = 0
    shift: int = 0


class Outcome(NamedTuple):
    """The result of a step: ``is_lost`` if it crashed, ``is_done`` if it took effect."""

    value: Any = None
    error: HeadraceError | None = None
    token: str = ""
    is_lost: bool = False
    is_done: bool = True

    def plain(self) -> Any:
        """The part of an answer that must be equal on both sides."""
        if self.error is not None:
            return type(self.error), self.error.code, str(self.error)
        return self.value


_topics = st.sampled_from(["a", "a", "a", "b", "p-dead"])
_whose = st.sampled_from(range(8))
_counts = st.sampled_from([1, 1, 2, 3, 100])
_crashes: st.SearchStrategy[Point | None] = st.sampled_from(
    [None] * 14 + [0, 1, 2, 3, 4, "commit", "commit", "committed", "committed"]
)
_headers = st.sampled_from([None, None, {}, {"trace": "7"}, {"é": "\n\u2028\0"}])
_padding = st.sampled_from([0, 0, 30, 200])
_keys = st.sampled_from(["k", "l", "ключ"])
_places = st.builds(
    Place,
    form=st.sampled_from([":", "id", "ts"]),
    ordinal=st.integers(0, 6),
    shift=st.sampled_from([0, 0, 0, 1, -1]),
)
_offsets = st.one_of(st.sampled_from([Place(">"), Place("$>")]), _places)
_ends = st.one_of(st.none(), st.just(Place("")), _places)
_which = st.sampled_from(["standing", "standing", "stale", "acked", "oldest"])
_errors = st.sampled_from([None, "no", "nö\n", "nul \0, lone \ud800"])
_seconds = st.sampled_from(
    [0.001, 1.0, 5.0, 11.0, -0.001, -1.0, -3600.0, 3600.0, 86_399.0, 86_400.0]
)
_choices: dict[str, st.SearchStrategy[Any]] = {
    "max_attempts": st.sampled_from([1, 1, 2, -1]),
    "lease": st.sampled_from([10.0, 1.0, 0.001, None]),
    "on_exhausted": st.sampled_from(["dead_letter", "dead_letter", "continue", "disable"]),
}
_settings = st.fixed_dictionaries({}, optional=_choices)


def _has_procs(machine: Any) -> bool:
    return bool(machine.witness.readers)


def _has_tickets(machine: Any) -> bool:
    return bool(machine.tickets)


class StoreMachine(RuleBasedStateMachine):
    """Random operations on one store, in one process, with crashes and a changing clock.

    The driver calls its ``probe`` as ``headrace.drivers.runner.Probe`` says. A driver that does not
    is never crashed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.address = self.url()
        self.driver = Side(connect("blocking", self.address, **self.client_options()))
        self.model = Side(connect("blocking", "memory://", clock=self.clock))
        self.witness = HistoryChecker(self.clock)
        self.tickets: list[Ticket] = []
        self.written = 0
        self.age = 0

    def url(self) -> str:
        """The URL of an empty store, requested once per machine."""
        raise NotImplementedError  # each driver has its own; a state machine cannot be an ABC

    def client_options(self) -> dict[str, Any]:
        """The options of the driver's clients. A node has the clock itself."""
        return {"clock": self.clock}

    def teardown(self) -> None:
        shut(self.driver.client)
        shut(self.model.client)

    def run_both(self, crash: Point | None, act: Callable[[Side], Any]) -> Outcome:
        """Do the same on both sides and compare. A crash before COMMIT has no effect."""
        self.age += 1
        ours = Outcome(is_lost=True)
        if crash is None:
            ours = _attempt(act, self.driver)
        else:
            with crashing(self.driver.client, crash) as strike:
                ours = _attempt(act, self.driver)
            if strike.has_struck and not strike.is_after_commit:
                return Outcome(is_lost=True, is_done=False)
        theirs = _attempt(act, self.model)
        if ours.is_lost:
            return ours
        assert ours.plain() == theirs.plain(), (
            f"the driver says\n{ours.plain()!r}\nand the model\n{theirs.plain()!r}"
        )
        if ours.token:
            self.driver.tokens.append(ours.token)
            self.model.tokens.append(theirs.token)
        return ours._replace(is_done=ours.error is None)

    def ask(self, crash: Point | None, method: str, *args: Any, **options: Any) -> Outcome:
        """Call a method of the clients, or of one of their nouns: ``procs.create``."""
        find = attrgetter(method)
        return self.run_both(crash, lambda side: find(side.client)(*args, **options))

    def ask_proc(
        self, crash: Point | None, proc: str, method: str, *args: Any, **options: Any
    ) -> Outcome:
        """Call a method of a proc."""
        return self.run_both(
            crash, lambda side: getattr(side.client.proc(proc), method)(*args, **options)
        )

    def ask_claim(
        self, crash: Point | None, ticket: Ticket, method: str, *args: Any, **options: Any
    ) -> Outcome:
        """Call a method of each side's own claim."""
        return self.run_both(
            crash, lambda side: getattr(side.claim(ticket), method)(*args, **options)
        )

    def topic_of(self, proc: str) -> str:
        return self.witness.readers[proc].topic if proc in self.witness.readers else "a"

    def body(self, padding: int = 0) -> dict[str, Any]:
        """A body that no other record has."""
        self.written += 1
        return {"n": self.written, "padding": "x" * padding}

    def text(self, place: Place | None, topic: str) -> str | None:
        """A place as a user writes it."""
        if place is None or place.form in ("", ">", "$>"):
            return None if place is None else place.form
        records = self.witness.seen.get(topic, [])
        seq = max(0, place.ordinal + place.shift)
        if place.form == ":":
            return f":{seq}"
        ts = records[place.ordinal].ts if place.ordinal < len(records) else self.clock.now
        if place.form == "ts":
            return str(ts + place.shift)
        return f"{ts}-{seq}"

    def name(self, whose: int) -> str:
        """A proc that exists, with few exceptions."""
        known = sorted(self.witness.readers)
        return known[whose % len(known)] if known and whose < 7 else PROCS[whose % len(PROCS)]

    def ticket(self, which: str) -> Ticket:
        """A valid claim, one that another claim took over, the last one acked, or any."""
        readers = self.witness.readers
        known = [ticket for ticket in self.tickets if ticket.proc in readers]
        some = {
            "standing": [ticket for ticket in known if readers[ticket.proc].out is ticket],
            "stale": [ticket for ticket in known if readers[ticket.proc].out not in (None, ticket)],
            "acked": [ticket for ticket in known if readers[ticket.proc].acked is ticket],
            "oldest": self.tickets[:1],
        }
        return (some[which] or self.tickets)[-1]

    @initialize(
        sizes=st.lists(_padding, min_size=1, max_size=4),
        some=st.lists(
            st.tuples(_topics, st.fixed_dictionaries(_choices)), min_size=1, max_size=len(PROCS)
        ),
    )
    def begin(self, sizes: list[int], some: list[tuple[str, dict[str, Any]]]) -> None:
        """Create something to work on."""
        self.ask(None, "commit_many", "a", [self.body(size) for size in sizes])
        for proc, (topic, settings) in zip(PROCS, some, strict=False):
            self.make_proc(proc, topic, Place(">"), settings, None)

    @rule(
        topic=_topics,
        sizes=st.lists(_padding, max_size=4),
        headers=_headers,
        seconds=st.sampled_from([0.0, 0.0, 0.001, 1.0, -1.0, -3600.0]),
        crash=_crashes,
    )
    def commit(
        self,
        topic: str,
        sizes: list[int],
        headers: dict[str, str] | None,
        seconds: float,
        crash: Point | None,
    ) -> None:
        self.clock.advance(seconds)
        bodies = [self.body(size) for size in sizes]
        if len(bodies) == 1:
            self.ask(crash, "commit", topic, bodies[0], headers=headers)
        else:
            self.ask(crash, "commit_many", topic, bodies, headers=headers)

    @rule(entries=st.lists(st.tuples(_topics, _headers), max_size=4), crash=_crashes)
    def commit_over_topics(self, entries: list[tuple[str, Any]], crash: Point | None) -> None:
        full = [(topic, self.body(), headers) for topic, headers in entries]
        self.ask(crash, "commit", full)

    @rule(
        topic=_topics,
        version=st.integers(0, 1),
        key=_keys,
        seconds=st.sampled_from([0.0, 0.0, 0.0, 86_399.0, 86_400.0]),
        crash=_crashes,
    )
    def commit_with_key(
        self, topic: str, version: int, key: str, seconds: float, crash: Point | None
    ) -> None:
        self.clock.advance(seconds)
        self.ask(crash, "commit", topic, {"version": version}, key=key)

    @rule(
        flush=st.lists(st.tuples(_topics, st.none() | _keys, st.integers(0, 1)), max_size=4),
        crash=_crashes,
    )
    def commit_together(self, flush: list[tuple[str, Any, int]], crash: Point | None) -> None:
        """Commits of several callers in one transaction, as a group commit does."""
        together = [
            prepare(
                [(topic, {"version": version} if key else self.body())],
                key=key,
                max_body=DEFAULT_MAX_BODY,
            ).call
            for topic, key, version in flush
        ]

        def act(side: Side) -> Any:
            return side.client._run(Request(side.client._store.topics.commit(together), list))

        self.run_both(crash, act)

    @rule(
        topic=_topics,
        start=_ends,
        end=_ends,
        limit=st.sampled_from([None, None, -1, 0, 1, 2, 3]),
        page_bytes=st.sampled_from([scans.PAGE_BYTES, 1, 50]),
    )
    def read(
        self,
        topic: str,
        start: Place | None,
        end: Place | None,
        limit: int | None,
        page_bytes: int,
    ) -> None:
        """In both directions, with both ends and without."""
        low, high = self.text(start, topic), self.text(end, topic)
        with patch.object(scans, "PAGE_BYTES", page_bytes):
            for exclusive in (False, True):
                self.ask(None, "range", topic, low, high, exclusive=exclusive, limit=limit)
                self.ask(
                    None, "range", topic, high, low, exclusive=exclusive, limit=limit, reverse=True
                )

    @rule(
        topic=_topics,
        whose=_whose,
        procs=st.none() | st.lists(_whose, max_size=3),
        after=st.sampled_from(["", "a", "z"]),
    )
    def inspect(self, topic: str, whose: int, procs: list[int] | None, after: str) -> None:
        self.run_both(None, lambda side: side.client.topic(topic).length())
        self.run_both(None, lambda side: side.client.topic(topic).info())
        self.ask(None, "topics.list", prefix=topic[:1], after=after, limit=1)
        self.ask(None, "procs.list", topic=topic)
        self.ask_proc(None, self.name(whose), "info")
        self.ask_proc(None, self.name(whose), "lag")
        names = None if procs is None else [self.name(other) for other in procs]
        self.ask(None, "procs.wait_idle", names, timeout=0)

    @rule(
        proc=st.sampled_from(PROCS),
        topic=_topics,
        offset=_offsets,
        settings=_settings,
        crash=_crashes,
    )
    def make_proc(
        self,
        proc: str,
        topic: str,
        offset: Place,
        settings: dict[str, Any],
        crash: Point | None,
    ) -> None:
        where = self.text(offset, topic)
        outcome = self.ask(crash, "procs.create", proc, topic, offset=where, **settings)
        if outcome.is_done and proc not in self.witness.readers:
            self.witness.made(proc, topic, where or ">", self.driver)

    @precondition(_has_procs)
    @rule(whose=_whose, settings=_settings, crash=_crashes)
    def update(self, whose: int, settings: dict[str, Any], crash: Point | None) -> None:
        self.ask_proc(crash, self.name(whose), "update", **settings)

    @precondition(_has_procs)
    @rule(whose=_whose, method=st.sampled_from(["disable", "resume", "resume"]), crash=_crashes)
    def switch(self, whose: int, method: str, crash: Point | None) -> None:
        self.ask_proc(crash, self.name(whose), method)

    @precondition(lambda self: len(self.witness.readers) > 1)
    @rule(whose=_whose, crash=_crashes)
    def delete(self, whose: int, crash: Point | None) -> None:
        proc = self.name(whose)
        if self.ask_proc(crash, proc, "delete").is_done:
            self.witness.gone(proc)

    @precondition(_has_procs)
    @rule(whose=_whose, offset=_offsets, crash=_crashes)
    def seek(self, whose: int, offset: Place, crash: Point | None) -> None:
        proc = self.name(whose)
        topic = self.topic_of(proc)
        where = self.text(offset, topic)
        if self.ask_proc(crash, proc, "seek", where).is_done:
            self.witness.made(proc, topic, where or ">", self.driver)

    @precondition(_has_procs)
    @rule(whose=_whose, count=_counts, crash=_crashes)
    def claim(self, whose: int, count: int, crash: Point | None) -> None:
        proc = self.name(whose)
        self._note_claim(self.ask_proc(crash, proc, "claim", count), count, [proc])

    @precondition(_has_procs)
    @rule(whose=_whose, count=_counts, crash=_crashes)
    def work(self, whose: int, count: int, crash: Point | None) -> None:
        """What a worker does if all goes well."""
        if self._get_work(whose, count):
            self.ack("standing", crash)

    @precondition(_has_procs)
    @rule(whose=_whose, count=_counts, failed=st.integers(0, 3), error=_errors, crash=_crashes)
    def fail(
        self, whose: int, count: int, failed: int, error: str | None, crash: Point | None
    ) -> None:
        """What a worker does if a record fails."""
        if self._get_work(whose, count):
            self.nack("standing", ("standing", failed), error, crash)

    def _get_work(self, whose: int, count: int) -> bool:
        proc = self.name(whose)
        before = len(self.tickets)
        self.claim(whose, count, None)
        if len(self.tickets) == before:
            self.ask(None, "commit", self.topic_of(proc), self.body())
            self.claim(whose, count, None)
        return len(self.tickets) > before

    @precondition(_has_procs)
    @rule(whose=_whose, max_bytes=st.sampled_from([1, 60, 300]))
    def claim_what_fits(self, whose: int, max_bytes: int) -> None:
        """A claim shrinks to a number of bytes, and so do the records it returns."""
        with patch.object(proc_requests, "CLAIM_BYTES", max_bytes):
            self.claim(whose, 100, None)

    @precondition(_has_procs)
    @rule(some=st.just([0, 1, 2]) | st.lists(_whose, max_size=3), count=_counts, crash=_crashes)
    def claim_any(self, some: list[int], count: int, crash: Point | None) -> None:
        procs = [self.name(whose) for whose in some]
        self._note_claim(self.ask(crash, "procs.claim_any", procs, count), count, procs)

    def _note_claim(self, outcome: Outcome, count: int, procs: list[str]) -> None:
        claimed = outcome.value
        if isinstance(claimed, ClaimedBatch):
            ticket = Ticket(len(self.tickets), claimed.proc, claimed.records)
            self.tickets.append(ticket)
            self.witness.claimed(ticket, claimed, count, self.driver)
        if outcome.is_done or outcome.error:
            for proc in procs:
                self.witness.maybe_nacked(proc)

    @precondition(lambda self: self.witness.standing())
    @rule(whose=_whose, count=_counts, crash=_crashes)
    def overstay(self, whose: int, count: int, crash: Point | None) -> None:
        """A claim expires, and the next one takes its records over."""
        standing = self.witness.standing()
        proc, deadline = standing[whose % len(standing)]
        self.clock.now = max(self.clock.now, round(deadline * 1000))
        self._note_claim(self.ask_proc(crash, proc, "claim", count), count, [proc])

    @precondition(_has_tickets)
    @rule(which=_which, crash=_crashes)
    def extend(self, which: str, crash: Point | None) -> None:
        ticket = self.ticket(which)
        outcome = self.ask_claim(crash, ticket, "extend")
        if outcome.is_done and outcome.is_lost:
            self.witness.doubted(ticket.proc)
        elif outcome.is_done:
            deadline = None if outcome.value is None else outcome.value.timestamp()
            self.witness.extended(ticket, deadline)

    @precondition(_has_tickets)
    @rule(which=_which, crash=_crashes)
    def ack(self, which: str, crash: Point | None) -> None:
        ticket = self.ticket(which)
        if self.ask_claim(crash, ticket, "ack").is_done:
            self.witness.acked(ticket)

    @precondition(_has_tickets)
    @rule(
        which=_which,
        entries=st.lists(st.tuples(_topics, st.integers(0, 1)), max_size=3),
        headers=_headers,
        crash=_crashes,
    )
    def ack_commit(
        self,
        which: str,
        entries: list[tuple[str, int]],
        headers: dict[str, str] | None,
        crash: Point | None,
    ) -> None:
        ticket = self.ticket(which)
        full = [(topic, {"version": version}) for topic, version in entries]
        outcome = self.ask_claim(crash, ticket, "ack_commit", full, headers=headers)
        if outcome.is_done:
            self.witness.acked(ticket)

    @precondition(_has_tickets)
    @rule(
        which=_which,
        failed=st.none() | st.tuples(_which, st.integers(0, 3)),
        error=_errors,
        crash=_crashes,
    )
    def nack(
        self,
        which: str,
        failed: tuple[str, int] | None,
        error: str | None,
        crash: Point | None,
    ) -> None:
        """Release a claim. The record named as culprit may belong to another claim."""
        ticket = self.ticket(which)
        record = None
        if failed is not None:
            records = self.ticket(failed[0]).records
            record = records[failed[1] % len(records)]
        outcome = self.ask_claim(crash, ticket, "nack", failed=record, error=error)
        if outcome.is_done:
            self.witness.released(ticket.proc)

    @precondition(lambda self: self.witness.standing())
    @rule(whose=_whose, error=_errors, crash=_crashes)
    def release_by_force(self, whose: int, error: str | None, crash: Point | None) -> None:
        proc = self.name(whose)
        if self.ask_proc(crash, proc, "nack", error=error).is_done:
            self.witness.released(proc)

    @rule(seconds=_seconds)
    def step_clock(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @precondition(lambda self: self.age > 100)
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

    @invariant()
    def both_hold_the_same(self) -> None:
        for info in self.ask(None, "topics.list").value:
            self.witness.saw(info.name, self.ask(None, "range", info.name).value)
        for info in self.ask(None, "procs.list").value:
            self.ask_proc(None, info.name, "lag")


def _attempt(act: Callable[[Side], Any], side: Side) -> Outcome:
    try:
        value = act(side)
    except HeadraceError as error:
        return Outcome(error=error)
    if isinstance(value, ClaimedRecords | ClaimFacade):
        return Outcome(
            ClaimedBatch(value.proc_name, value.records, value.deadline), token=value.token
        )
    if isinstance(value, Proc | SyncFacade):
        return Outcome(value.name)
    return Outcome(value)
