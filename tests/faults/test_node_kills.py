"""A node that is killed or frozen among 32 clients: they go on, and their answers were true.

``HEADRACE_KILLS`` makes the storms longer: one kill of a node for twenty of others.
"""

import asyncio
import itertools
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

import headrace
from faults.answer_log import AnswerLog
from faults.crash_case import opened
from faults.kill_loop import KILLS
from faults.polling import PATIENCE, until
from faults.queue_crash_cases import run
from faults.restarted_node import RestartedNode
from headrace.errors import ItemLost
from headrace.model.queues.items import State
from headrace.testing.sync_facade import ClientMode

NODE_KILLS = max(3, KILLS // 20)
CALLERS = 8
"""How many clients of each kind: pushing, committing, working, and pushing with keys."""
EVERYTHING = 2**31 - 1
LEASE = 3600.0
"""Nothing returns to the queue automatically: what a client loses would stay claimed."""

pytestmark = pytest.mark.timeout(120 + 20 * NODE_KILLS)


class NodeClients:
    """32 clients of a node, which write down what they are told."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._is_over = threading.Event()
        self._numbers = itertools.count()
        self._failures: list[BaseException] = []
        self.pushes = AnswerLog()
        self.commits = AnswerLog()
        self.keyed = AnswerLog()
        self.claims: Counter[str] = Counter()
        self.completions = AnswerLog()
        jobs = [self._push, self._commit, self._work] * CALLERS
        self._threads = [threading.Thread(target=self._run, args=(job,)) for job in jobs]
        self._threads.append(threading.Thread(target=self._run_tasks))

    def answers(self) -> int:
        """How many calls have been answered."""
        logs = (self.pushes, self.commits, self.keyed, self.completions)
        return sum(len(log.answers) for log in logs)

    def _run(self, job: Callable[[headrace.Headrace], None]) -> None:
        try:
            with headrace.connect(self._url, patience=PATIENCE) as hr:
                while not self._is_over.is_set():
                    job(hr)
        except BaseException as error:
            self._failures.append(error)

    def _name(self, kind: str) -> str:
        return f"{kind}-{next(self._numbers)}"

    def _push(self, hr: headrace.Headrace) -> None:
        self.pushes.call(self._name("push"), hr.queue("q").push)

    def _commit(self, hr: headrace.Headrace) -> None:
        self.commits.call(self._name("commit"), lambda name: hr.commit("t", {"name": name}))

    def _work(self, hr: headrace.Headrace) -> None:
        for item in hr.queue("q").claim(2, lease=LEASE, wait=0.2):
            name = str(item.payload)
            self.claims[name] += 1
            self.completions.call(name, lambda _, item=item: item.complete())

    def _run_tasks(self) -> None:
        try:
            asyncio.run(self._push_with_keys())
        except BaseException as error:
            self._failures.append(error)

    async def _push_with_keys(self) -> None:
        async def push() -> None:
            async with headrace.aconnect(self._url, patience=PATIENCE) as hr:
                while not self._is_over.is_set():
                    name = self._name("key")
                    # A key can always be sent again: nothing is unknown.
                    await hr.queue("q").push(name, key=name)
                    self.keyed.answers[name] = "yes"

        await asyncio.gather(*(push() for _ in range(CALLERS)))

    @contextmanager
    def running(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            for thread in self._threads:
                thread.join(2 * PATIENCE)
        assert self._failures == []

    def check(self, hr: headrace.Headrace) -> None:
        """Compare what clients were told with what is stored."""
        self.commits.check(Counter(record.body["name"] for record in hr.range("t")))
        waiting, claimed = (_names(hr, state) for state in (State.PENDING, State.ACTIVE))
        self.pushes.check(self.claims + waiting)
        self.keyed.check(self.claims + waiting)
        self.completions.check(self.claims - claimed)
        unknown = {name for name, said in self.completions.answers.items() if said == "unknown"}
        assert set(claimed) <= unknown, "a client lost what it had claimed"


def _names(hr: headrace.Headrace, state: State) -> Counter[str]:
    return Counter(
        json.loads(item.payload) for item in run(hr, "queues.items", "q", state, 0, EVERYTHING)
    )


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_a_node_is_killed_among_its_clients(
    request: pytest.FixtureRequest, store: str, tmp_path: Path, rng: random.Random
) -> None:
    """Nothing that was acknowledged is lost, and nothing happens twice: what nobody can know is
    reported as unknown."""
    url = request.getfixturevalue(f"{store}_url")
    with RestartedNode(url, tmp_path, is_unix=store == "sqlite") as node:
        with headrace.connect(node.url) as hr:
            hr.queues.create("q")
        clients = NodeClients(node.url)
        with clients.running():
            for _ in range(NODE_KILLS):
                await_answers(clients)
                time.sleep(rng.uniform(0, 0.05))
                node.restart()
            await_answers(clients)
        node.stop()
    with headrace.connect(url) as hr:
        clients.check(hr)


def await_answers(clients: NodeClients, count: int = 100) -> None:
    """Wait until the clients have got some more answers."""
    before = clients.answers()
    until(lambda: clients.answers() > before + count, "answers to clients")


@pytest.mark.parametrize("mode", ["blocking", "async"])
def test_a_node_is_frozen_for_two_leases(sqlite_url: str, tmp_path: Path, mode: ClientMode) -> None:
    """A claim that ends meanwhile is lost or completed, and its item is handled once or again."""
    with (
        RestartedNode(sqlite_url, tmp_path, is_unix=True) as node,
        opened(mode, node.url, patience=PATIENCE) as mine,
        opened(mode, node.url, patience=PATIENCE) as other,
        ThreadPoolExecutor(2) as threads,
    ):
        mine.queue("q").push("it")
        [item] = mine.queue("q").claim(lease=0.5)
        node.freeze()
        completing = threads.submit(item.complete)
        claiming = threads.submit(other.queue("q").claim)
        time.sleep(1.0)
        node.thaw()
        again = claiming.result(PATIENCE)
        try:
            completing.result(PATIENCE)
        except ItemLost:
            assert [one.attempts for one in again] == [2]
        else:
            assert again == []
        mine.queue("q").push("next")
        assert mine.queue("q").stats().pending == 1
