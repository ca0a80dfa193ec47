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
from headrace.testing.audit_log import AuditLog, check_order

TOPICS = ["left", "right"]
THREADS = 8


class ForkedClient:
    """A client that was used before the fork, and an audit log for each side."""

    def __init__(self, hr: headrace.Headrace, url: str, log_path: Path) -> None:
        self.hr = hr
        self.url = url
        self.log_path = log_path

    def use(self, name: str, calls: int = 5) -> None:
        """Commit, read and claim, as ``name``."""
        with AuditLog(Path(f"{self.log_path}.{name}")) as log:
            for number in range(calls):
                wanted = committer.plan(number, TOPICS)
                committer.commit(self.hr, log, f"{name}-{number}", wanted)
                check_order(self.hr.range(wanted[0]))
        proc = self.hr.procs.create(name, TOPICS[0])
        claim = proc.claim(2)
        assert claim is not None
        assert [record.seq for record in claim] == [0, 1]
        claim.ack()


class Signal:
    """One side sets it, the other waits for it, or exits if no process is left that could set
    it."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()

    def send(self) -> None:
        os.write(self._write, b"!")

    def wait(self) -> None:
        os.close(self._write)
        assert os.read(self._read, 1), "the other side has ended"


def both_concurrently(family: ForkedClient) -> None:
    pid = fork(lambda: family.use("child", calls=40))
    family.use("parent", calls=40)
    await_end(pid)
    family.use("parent-after")


def child_goes_on_after_the_parent_has_closed(family: ForkedClient) -> None:
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


def child_goes_on_with_two_clients_of_one_store(family: ForkedClient) -> None:
    started, closed = Signal(), Signal()
    with headrace.connect(family.url) as second:
        other = ForkedClient(second, family.url, family.log_path)
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


def parent_goes_on_after_the_child_has_closed(family: ForkedClient) -> None:
    def work() -> None:
        family.use("child")
        family.hr.close()

    await_end(fork(work))
    family.use("parent-after")


def child_that_ends_as_programs_do(family: ForkedClient) -> None:
    pid = os.fork()
    if pid == 0:
        family.use("child")
        sys.exit()
    await_end(pid)
    family.use("parent-after")


def child_that_does_not_use_it(family: ForkedClient) -> None:
    pid = os.fork()
    if pid == 0:
        sys.exit()
    await_end(pid)
    family.use("parent-after")


def child_of_multiprocessing(family: ForkedClient) -> None:
    child = multiprocessing.get_context("fork").Process(target=family.use, args=["child"])
    child.start()
    family.use("parent")
    child.join()
    assert child.exitcode == 0


def claim_of_the_parent_acked_by_the_child(family: ForkedClient) -> None:
    proc = family.hr.procs.create("shared", TOPICS[0])
    claim = proc.claim(2)
    assert claim is not None
    await_end(fork(claim.ack))
    after = proc.claim()
    assert after is not None
    assert after[0].seq == 2


def child_with_many_threads(family: ForkedClient) -> None:
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
        both_concurrently,
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


def main(url: str, log_path: str, name: str, story: str) -> None:
    with headrace.connect(url) as hr:
        family = ForkedClient(hr, url, Path(log_path))
        family.use("before")
        STORIES[story](family)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
