"""Forks repeatedly while its threads use the client, and uses the client in each child."""

import faulthandler
import json
import sys
import threading
from collections import Counter

import headrace
from faults.children.forks import await_end, fork

THREADS = 6
SECONDS = 30


class Threads:
    """Threads that push, commit, claim and transact until they are stopped."""

    def __init__(self, hr: headrace.Headrace) -> None:
        self._hr = hr
        self._is_over = threading.Event()
        self._failures: list[BaseException] = []
        self.acked: Counter[str] = Counter()
        self._threads = [threading.Thread(target=self._run, args=[n]) for n in range(THREADS)]
        for thread in self._threads:
            thread.start()

    def _run(self, number: int) -> None:
        acked: Counter[str] = Counter()
        try:
            while not self._is_over.is_set():
                use(self._hr, "parent", acked)
        except BaseException as error:
            self._failures.append(error)
        self.acked.update({f"{name} {number}": count for name, count in acked.items()})

    def stop(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(SECONDS)
            assert not thread.is_alive(), "a thread of the parent hangs"
        assert not self._failures, self._failures

    def count(self, name: str) -> int:
        return sum(count for key, count in self.acked.items() if key.startswith(name))


def use(hr: headrace.Headrace, name: str, acked: Counter[str]) -> None:
    """Everything that waits for other sessions, once."""
    hr.push(f"{name}-kept", {})
    acked["push"] += 1
    hr.commit(name, {})
    acked["commit"] += 1
    hr.push("work", {})
    for item in hr.queue("work").claim(wait=0.01):
        item.complete()
    with hr.transaction() as tx:
        tx.commit(name, {})
    acked["commit"] += 1


def work_in_child(hr: headrace.Headrace) -> None:
    faulthandler.dump_traceback_later(SECONDS, exit=True)
    for _ in range(2):
        use(hr, "child", Counter())
    with hr.lock({"who": "child"}, wait=SECONDS):
        pass
    hr.close()


def main(url: str, log_path: str, name: str, forks: int) -> None:
    with headrace.connect(url) as hr:
        for queue in ("parent-kept", "child-kept", "work"):
            hr.queues.create(queue)
        threads = Threads(hr)
        try:
            for _ in range(forks):
                await_end(fork(lambda: work_in_child(hr)))
        finally:
            threads.stop()
        assert hr.topic("parent").length() == threads.count("commit")
        assert hr.queue("parent-kept").stats().pending == threads.count("push")
        if not url.startswith("memory:"):
            assert hr.topic("child").length() == 4 * forks
            assert hr.queue("child-kept").stats().pending == 2 * forks


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
