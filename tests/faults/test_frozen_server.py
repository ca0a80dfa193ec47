"""A PostgreSQL server whose processes are stopped: it accepts connections and never answers."""

import asyncio
import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

import headrace
from faults.answer_log import AnswerLog, acts
from faults.answer_log import names as all_names
from faults.crash_case import opened
from faults.kill_loop import KILLS, SECONDS
from faults.polling import until
from headrace.errors import OutcomeUnknown, StoreError, StoreUnavailable
from headrace.testing import sync_facade
from headrace.testing.postgres import PrivatePostgres

PATIENCE = 0.4
LATEST = PATIENCE + 2.0
"""Seconds after which each call has ended."""
PLACES = 10
"""Connections that a client has for operations, and as many for transactions."""

Act = Callable[[str], object]


@contextmanager
def frozen(server: PrivatePostgres) -> Iterator[None]:
    server.freeze()
    try:
        yield
    finally:
        server.thaw()


@pytest.fixture(autouse=True)
def thawed(fragile: PrivatePostgres) -> Iterator[None]:
    yield
    fragile.thaw()


def measured(act: Act, name: str) -> tuple[str, float]:
    """What a call ended with, and after how many seconds."""
    begun = time.monotonic()
    try:
        act(name)
    except OutcomeUnknown:
        answer = "unknown"
    except StoreUnavailable:
        answer = "no"
    else:
        answer = "yes"
    return answer, time.monotonic() - begun


def writes(hr: Any) -> dict[str, Act]:
    """Calls that store their name, each on its own connection."""

    def transact(name: str) -> None:
        with hr.transaction() as tx:
            tx.push("q", name)

    return {
        "push": lambda name: hr.push("q", name),
        "push many": lambda name: hr.push_many("q", [name]),
        "push with a key": lambda name: hr.push("q", name, key=name),
        "commit": lambda name: hr.commit("t", {"name": name}),
        "commit to two": lambda name: hr.commit([("t", {"name": name}), ("u", {"name": name})]),
        "transaction": transact,
    }


def reads(hr: Any) -> dict[str, Act]:
    return {
        "range": lambda _: hr.range("t"),
        "claim": lambda _: hr.queue("q").claim(),
        "diagnose": lambda _: hr.admin.diagnose(),
    }


def names(hr: Any) -> Counter[str]:
    found: Counter[str] = Counter()
    while items := hr.queue("q").claim():
        found[items[0].payload] += 1
    found.update(record.body["name"] for record in hr.range("t"))
    return found


@pytest.mark.parametrize("mode", ["blocking", "async"])
def test_every_call_ends_when_patience_does(
    fragile: PrivatePostgres, mode: sync_facade.ClientMode
) -> None:
    """With a true answer: a write reported as not stored is not, even after the server
    continues."""
    with headrace.connect(fragile.url) as direct, ExitStack() as stack:
        direct.queues.create("q")
        direct.commit("t", {"name": "first"})
        direct.commit("u", {"name": "first"})
        calls = {}
        for title in (*writes(None), *reads(None)):
            # A client for each, since an async one belongs to one thread.
            hr = stack.enter_context(opened(mode, fragile.url, patience=PATIENCE))
            hr.range("t")
            calls[title] = {**writes(hr), **reads(hr)}[title]
        with frozen(fragile), ThreadPoolExecutor(len(calls)) as threads:
            found = dict(zip(calls, threads.map(measured, calls.values(), calls), strict=True))
        late = {title: seconds for title, (_, seconds) in found.items() if seconds > LATEST}
        assert late == {}
        answers = {title: what for title, (what, _) in found.items()}
        assert answers["range"] == answers["diagnose"] == answers["transaction"] == "no"
        assert "yes" not in answers.values()
        # The server executes what had reached it, unless it sees the end of the connection first.
        fragile.execute("select pg_sleep(0.2)")
        stored = names(direct)
    lies = [title for title, what in answers.items() if stored[title] and what == "no"]
    assert lies == []


def test_connect_ends_when_patience_does(fragile: PrivatePostgres) -> None:
    with frozen(fragile):
        answer, seconds = measured(lambda _: headrace.connect(fragile.url, patience=PATIENCE), "")
        assert (answer, seconds < LATEST) == ("no", True)
        answer, seconds = measured(lambda _: asyncio.run(connect(fragile.url)), "")
        assert (answer, seconds < LATEST) == ("no", True)


async def connect(url: str) -> None:
    async with await headrace.aconnect(url, patience=PATIENCE):
        pass


@pytest.mark.parametrize(
    ("mode", "moment"),
    [
        ("blocking", "statement"),
        ("blocking", "commit"),
        ("async", "commit"),
        ("async", "rollback"),
    ],
)
def test_a_transaction_ends_when_patience_does(
    fragile: PrivatePostgres, mode: sync_facade.ClientMode, moment: str
) -> None:
    with opened(mode, fragile.url, patience=PATIENCE) as hr:
        hr.commit("t", {"name": "first"})
        begun = 0.0

        def transact() -> None:
            nonlocal begun
            with hr.transaction() as tx:
                tx.commit("t", {"name": "mine"})
                fragile.freeze()
                begun = time.monotonic()
                if moment == "statement":
                    tx.commit("t", {"name": "more"})
                if moment == "rollback":
                    raise ZeroDivisionError

        expected = {
            "statement": StoreUnavailable,
            "commit": OutcomeUnknown,
            "rollback": ZeroDivisionError,
        }
        with pytest.raises(expected[moment]):
            transact()
        assert time.monotonic() - begun < LATEST
        fragile.thaw()
        if moment != "commit":
            assert hr.topic("t").length() == 1


@pytest.mark.parametrize("mode", ["blocking", "async"])
def test_waiting_for_a_connection_counts(
    fragile: PrivatePostgres, mode: sync_facade.ClientMode
) -> None:
    """With more calls than connections, those that wait for one end as soon as the others."""
    with headrace.connect(fragile.url, patience=PATIENCE) as hr:
        hr.commit("t", {"name": "first"})
        with frozen(fragile):
            if mode == "blocking":
                with ThreadPoolExecutor(3 * PLACES) as threads:
                    calls = [lambda _: hr.range("t")] * (3 * PLACES)
                    found = list(threads.map(measured, calls, map(str, range(len(calls)))))
            else:
                found = asyncio.run(crowd(fragile))
        assert [what for what, _ in found] == ["no"] * 3 * PLACES
        assert max(seconds for _, seconds in found) < LATEST


async def crowd(fragile: PrivatePostgres) -> list[tuple[str, float]]:
    fragile.thaw()
    async with await headrace.aconnect(fragile.url, patience=PATIENCE) as hr:
        await hr.range("t")
        fragile.freeze()

        async def read() -> tuple[str, float]:
            begun = time.monotonic()
            with pytest.raises(StoreUnavailable):
                await hr.range("t")
            return "no", time.monotonic() - begun

        return list(await asyncio.gather(*(read() for _ in range(3 * PLACES))))


def test_workers_and_waiters_end_when_patience_does(fragile: PrivatePostgres) -> None:
    """A worker with an item and a waiting reader can both be closed."""
    with headrace.connect(fragile.url, patience=PATIENCE) as hr:
        done: list[object] = []
        hr.start_worker("q", done.append)
        hr.push("q", "one")
        until(lambda: done, "the first item")
        hr.live("t").changes(done.append)
        hr.commit("t", {"name": "first"})
        until(lambda: len(done) > 1, "the first record")
        with frozen(fragile):
            begun = time.monotonic()
            hr.close()
            seconds = time.monotonic() - begun
        assert seconds < LATEST


def test_connect_waits_for_a_server_that_is_not_up_yet(fragile: PrivatePostgres) -> None:
    """Until patience ends, and no longer."""
    fragile.stop()
    try:
        answer, seconds = measured(lambda _: headrace.connect(fragile.url, patience=PATIENCE), "")
        assert answer == "no"
        assert PATIENCE / 2 < seconds < LATEST
        threads = ThreadPoolExecutor(1)
        opening = threads.submit(headrace.connect, fragile.url)
    finally:
        fragile.start()
    with threads, opening.result(60) as hr:
        assert hr.topics.list() == []


FREEZES = max(2, KILLS // 30)


def test_a_server_that_freezes_repeatedly(fragile: PrivatePostgres, rng: random.Random) -> None:
    """For less or more than patience: answers are true, and never late."""
    with headrace.connect(fragile.url) as calm:
        calm.push("q", "in the queue")
        calm.commit([("one", {"name": "in one"}), ("two", {"name": "in one"})])
        witness = AnswerLog()
        is_over = threading.Event()
        with headrace.connect(fragile.url, patience=PATIENCE) as hr:
            kinds = acts(hr)

            def work(thread: int) -> None:
                chance = random.Random(rng.random() + thread)
                for number in itertools.count():
                    if is_over.is_set():
                        return
                    witness.call(f"{thread}-{number}", chance.choice(kinds))

            with ThreadPoolExecutor(PLACES + 4) as threads:
                working = [threads.submit(work, thread) for thread in range(PLACES + 4)]
                for _ in range(FREEZES):
                    answered = yes(witness)
                    until(lambda n=answered: yes(witness) > n + 20, "answers")
                    fragile.freeze()
                    is_over.wait(rng.uniform(0, 2 * LATEST))
                    fragile.thaw()
                is_over.set()
                for done in working:
                    done.result(SECONDS)
        # The server has now executed what had reached it, and nothing else comes.
        active = "select from pg_stat_activity where state <> 'idle' and pid <> pg_backend_pid()"
        until(lambda: not fragile.execute(active), "the end of all statements")
        print(f"{FREEZES} freezes: {Counter(witness.answers.values())}, {witness.longest:.2f} s")
        witness.check(all_names(calm))
        # A response between two freezes restarts the wait. Other processes need the processor, too.
        assert witness.longest < 2 * LATEST + 1


def yes(witness: AnswerLog) -> int:
    return Counter(list(witness.answers.values()))["yes"]


@pytest.mark.parametrize("wrong", ["database", "user"])
def test_connect_does_not_wait_for_what_patience_cannot_cure(
    fragile: PrivatePostgres, wrong: str
) -> None:
    url = {
        "database": fragile.url.replace(f"/{fragile.database}", "/nowhere"),
        "user": fragile.url.replace("headrace@", "nobody@"),
    }[wrong]
    begun = time.monotonic()
    with pytest.raises(StoreError):
        headrace.connect(url, patience=30)
    assert time.monotonic() - begun < 10
