"""Uses a client, forks, and uses it on both sides."""

import json
import multiprocessing
import os
import sys
import threading
from pathlib import Path

import headrace
from faults.children import committer
from faults.children.forks import await_end, fork
from headrace.testing.ledger import Ledger, check_order

TOPICS = ["left", "right"]
THREADS = 8


class Family:
    """A client that was used before the fork, and a ledger for each side of it."""

    def __init__(self, hr: headrace.Headrace, url: str, ledger: Path) -> None:
        self.hr = hr
        self.url = url
        self.ledger = ledger

    def use(self, name: str, calls: int = 5) -> None:
        """Commit, read and claim, as ``name``."""
        with Ledger(Path(f"{self.ledger}.{name}")) as book:
            for number in range(calls):
                wanted = committer.plan(number, TOPICS)
                committer.commit(self.hr, book, f"{name}-{number}", wanted)
                check_order(self.hr.range(wanted[0]))
        proc = self.hr.proc(name, topic=TOPICS[0])
        claim = proc.claim(2)
        assert claim is not None
        assert [record.seq for record in claim] == [0, 1]
        claim.ack()


class Signal:
    """One side says when, the other waits for it; or ends, if nobody can say it any more."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()

    def send(self) -> None:
        os.write(self._write, b"!")

    def wait(self) -> None:
        os.close(self._write)
        assert os.read(self._read, 1), "the other side has ended"


def both_at_once(family: Family) -> None:
    pid = fork(lambda: family.use("child", calls=40))
    family.use("parent", calls=40)
    await_end(pid)
    family.use("parent-after")


def child_goes_on_after_the_parent_has_closed(family: Family) -> None:
    started, closed = Signal(), Signal()

    def work() -> None:
        family.use("child")
        started.send()
        closed.wait()
        family.use("child-after")

    pid = fork(work)
    started.wait()
    family.hr.close()
    closed.send()
    await_end(pid)


def child_goes_on_with_two_clients_of_one_store(family: Family) -> None:
    started, closed = Signal(), Signal()
    with headrace.connect(family.url) as second:
        other = Family(second, family.url, family.ledger)
        other.use("second")

        def work() -> None:
            for name, member in (("child", family), ("child-second", other)):
                member.use(name)
            started.send()
            closed.wait()
            for name, member in (("child-after", family), ("child-second-after", other)):
                member.use(name)

        pid = fork(work)
        started.wait()
        family.hr.close()
    closed.send()
    await_end(pid)


def parent_goes_on_after_the_child_has_closed(family: Family) -> None:
    def work() -> None:
        family.use("child")
        family.hr.close()

    await_end(fork(work))
    family.use("parent-after")


def child_that_ends_as_programs_do(family: Family) -> None:
    pid = os.fork()
    if pid == 0:
        family.use("child")
        sys.exit()
    await_end(pid)
    family.use("parent-after")


def child_that_does_not_use_it(family: Family) -> None:
    pid = os.fork()
    if pid == 0:
        sys.exit()
    await_end(pid)
    family.use("parent-after")


def child_of_multiprocessing(family: Family) -> None:
    child = multiprocessing.get_context("fork").Process(target=family.use, args=["child"])
    child.start()
    family.use("parent")
    child.join()
    assert child.exitcode == 0


def claim_of_the_parent_acked_by_the_child(family: Family) -> None:
    proc = family.hr.proc("shared", topic=TOPICS[0])
    claim = proc.claim(2)
    assert claim is not None
    await_end(fork(claim.ack))
    after = proc.claim()
    assert after is not None
    assert after[0].seq == 2


def child_with_many_threads(family: Family) -> None:
    def work() -> None:
        together = threading.Barrier(THREADS)
        failures: list[BaseException] = []

        def run(number: int) -> None:
            together.wait()
            try:
                family.use(f"child{number}")
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=run, args=[n]) for n in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures, failures

    pid = fork(work)
    family.use("parent")
    await_end(pid)
    family.use("parent-after")


STORIES = {
    story.__name__: story
    for story in (
        both_at_once,
        child_goes_on_after_the_parent_has_closed,
        child_goes_on_with_two_clients_of_one_store,
        parent_goes_on_after_the_child_has_closed,
        child_that_ends_as_programs_do,
        child_that_does_not_use_it,
        child_of_multiprocessing,
        claim_of_the_parent_acked_by_the_child,
        child_with_many_threads,
    )
}


def main(url: str, ledger: str, name: str, story: str) -> None:
    with headrace.connect(url) as hr:
        family = Family(hr, url, Path(ledger))
        family.use("before")
        STORIES[story](family)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
