"""Sessions that run all kinds of operations on the same queues, channels and limits together."""

import contextlib
import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

import headrace
from faults.kill_loop import KILLS, SECONDS
from faults.polling import until
from faults.queue_checks import SETTINGS, check_counts, items
from faults.queue_crash_cases import run
from headrace.contract.counters import CounterCall
from headrace.contract.items import ClaimRequest, ItemFilter, Outcome, PushCall
from headrace.contract.limits import RuleRow
from headrace.errors import HeadraceError, StoreError
from headrace.model.limits.limit_set import LimitSet
from headrace.model.query.key_values import KeyValues
from headrace.model.query.typed_values import ANY
from headrace.model.queues.items import Document, State
from headrace.testing.contract.limit_rules import pattern

ROUNDS = KILLS
SESSIONS = 6
QUEUES = "qr"
LIVE = (State.PLANNED, State.PENDING, State.ACTIVE)
CHANNELS = [
    None,
    *(KeyValues.of({"os": os, "n": n}).form for os in ("linux", "mac") for n in range(2)),
]
KINDS = ("complete", "reject", "release", "reschedule", "kill", "drop")

pytestmark = pytest.mark.timeout(60 + SECONDS)


class Session:
    """One of several clients, each with its own random choices."""

    def __init__(self, url: str, seed: int) -> None:
        self.hr = headrace.connect(url)
        self.rng = random.Random(seed)
        self.name = str(seed)
        self.calls = 0

    def run(self, operation: str, *args: Any) -> Any:
        return run(self.hr, operation, *args)

    @property
    def queue(self) -> str:
        return self.rng.choice(QUEUES)

    def token(self) -> str:
        self.calls += 1
        return f"{self.name}-{self.calls}"

    def push_call(self) -> PushCall:
        documents = tuple(
            Document(
                payload="1",
                subject=self.rng.choice([None, *"stu"]),
                key_values=self.rng.choice(CHANNELS),
                overrides=self.rng.choice([None, None, '{"updateable":true}']),
                delay=self.rng.choice([None, None, 20]),
            )
            for _ in range(self.rng.randint(1, 4))
        )
        mode = self.rng.choice(["push", "upsert"])
        return PushCall(queue=self.queue, documents=documents, mode=mode)


def push(one: Session) -> None:
    one.run("queues.push", [one.push_call() for _ in range(one.rng.randint(1, 2))])


def work(one: Session) -> None:
    """Claim some items, then settle most of them: the leases of the others end."""
    queue, token = one.queue, one.token()
    select = one.rng.choice([None, '{"Selection":{}}'])
    order = one.rng.choice(["fair", "line"])
    request = ClaimRequest(
        queue=queue, token=token, count=3, lease_ms=50, select=select, order=order
    )
    claimed = [item for item in one.run("queues.claim", request).items if one.rng.random() < 0.9]
    outcomes = [
        Outcome(item=item.id, token=token, kind=one.rng.choice(KINDS), delay_ms=0)
        for item in claimed
    ]
    one.run("queues.settle", queue, outcomes)


def edit(one: Session) -> None:
    queue = one.queue
    for item in one.run("queues.items", queue, State.PENDING, 0, 2):
        if one.rng.random() < 0.5:
            one.run("queues.cancel_item", queue, item.id)
        else:
            one.run("queues.edit_item", queue, item.id, None, one.rng.randint(0, 2), None)


def delete_channels(one: Session) -> None:
    one.run("channels.delete", one.queue, None, 1)


def delay_channel(one: Session) -> None:
    one.run("channels.delay", one.queue, one.rng.choice(CHANNELS[1:]), None, 10)


def change_rules(one: Session) -> None:
    rule = RuleRow(
        id=one.rng.choice("ab"),
        key_values=pattern(os=ANY) if one.rng.random() < 0.5 else pattern(n=ANY),
        limit=one.rng.randint(1, 4),
        queue=one.rng.choice([None, *QUEUES]),
        on=one.rng.choice(["running", "enqueued"]),
    )
    if one.rng.random() < 0.5:
        one.run("limits.delete", rule.id)
    else:
        one.run("limits.create", [rule])


def hold_slots(one: Session) -> None:
    channel = one.rng.choice(CHANNELS[1:])
    session = one.token()
    call = CounterCall(key_values=channel, session=session, count=1, lease_ms=50)
    one.run("counters.acquire", call)
    if one.rng.random() < 0.8:
        one.run("counters.release", session)


def redrive(one: Session) -> None:
    one.run("queues.redrive", one.queue, ItemFilter(), one.rng.choice([None, *QUEUES]), 4)


def tend(one: Session) -> None:
    one.run("queues.maintain", one.queue, 10)
    one.run("counters.end", 10)


def drop(one: Session) -> None:
    if one.rng.random() < 0.1:
        one.run("queues.drop", one.queue, one.rng.random() < 0.5)


ACTS: tuple[Callable[[Session], None], ...] = (
    *(push, push, push, work, work, edit, delete_channels, delay_channel),
    *(change_rules, hold_slots, redrive, tend, drop),
)


def play(url: str, seed: int) -> Counter[str]:
    done: Counter[str] = Counter()
    one = Session(url, seed)
    with one.hr:
        for _ in range(ROUNDS):
            act = one.rng.choice(ACTS)
            try:
                act(one)
                done[act.__name__] += 1
            except StoreError:
                raise
            except HeadraceError as error:
                # What another session has done meanwhile: no such queue, rule, item.
                done[type(error).__name__] += 1
    return done


@pytest.mark.parametrize("driver", ["postgres", "sqlite"])
def test_mixed_operations_leave_counts_and_limits_right(
    driver: str, request: pytest.FixtureRequest, rng: random.Random
) -> None:
    """Counts equal the items, counters of limits equal what is there, and every item can be
    claimed in the end."""
    url = request.getfixturevalue(f"{driver}_url")
    with headrace.connect(url) as hr:
        for queue in QUEUES:
            run(hr, "queues.create", queue, SETTINGS, True)
        seeds = [rng.getrandbits(32) for _ in range(SESSIONS)]
        with ThreadPoolExecutor(SESSIONS) as threads:
            plays = [threads.submit(play, url, seed) for seed in seeds]
            done = sum((one.result(SECONDS) for one in plays), Counter())
        assert all(done[act.__name__] for act in ACTS), done
        # Queues that were dropped at last are back, with their data if that was kept.
        for queue in QUEUES:
            run(hr, "queues.create", queue, SETTINGS, False)
            check_counts(hr, queue)
        check_usage(hr)
        check_all_can_be_claimed(hr)


def check_usage(hr: Any) -> None:
    """The stored counters of limits equal those computed from items and slots."""
    rows = run(hr, "limits.list", "", 10)
    limits = LimitSet([row.read() for row in rows])
    computed: Counter[Any] = Counter()
    for queue in QUEUES:
        for item in items(hr, queue, *LIVE):
            for on in ("running", "enqueued"):
                if on == "enqueued" or item.state == State.ACTIVE:
                    computed.update(limits.bounds(queue, item.key_values, on).counted)
    for counter in run(hr, "counters.list", None, "", 1000):
        for key in limits.bounds("", counter.key_values, "running").counted:
            computed[key] += counter.count
    for row in rows:
        for usage in run(hr, "limits.usage", row.id, 0):
            scope = usage.queue if usage.queue is not None else "*"
            key = next(
                (
                    key
                    for key in computed
                    if (key.queue, key.measure, key.key_values)
                    == (scope, usage.measure, usage.key_values)
                ),
                None,
            )
            assert usage.used == (computed[key] if key is not None else 0), usage


def check_all_can_be_claimed(hr: Any) -> None:
    """Without rules and delays nothing is left behind."""
    for row in run(hr, "limits.list", "", 10):
        run(hr, "limits.delete", row.id)
    for queue in QUEUES:
        for channel in CHANNELS[1:]:
            with contextlib.suppress(HeadraceError):
                run(hr, "channels.delay", queue, channel, None, None)
        until(partial(has_no_claims, hr, queue), "the leases to end")
        for item in items(hr, queue, State.PLANNED):
            run(hr, "queues.cancel_item", queue, item.id)
        pending = {item.id for item in items(hr, queue, State.PENDING)}
        request = ClaimRequest(queue=queue, token=f"last-{queue}", count=10_000)
        claimed = {item.id for item in run(hr, "queues.claim", request).items}
        assert claimed == pending


def has_no_claims(hr: Any, queue: str) -> bool:
    run(hr, "queues.expire_leases", queue, 1000)
    return not items(hr, queue, State.ACTIVE)
