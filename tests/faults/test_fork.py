"""Clients that were used before a fork."""

import pytest

import headrace
from faults.children.fork_story import STORIES, TOPICS
from faults.kill_loop import KILLS, SECONDS
from faults.processes import ChildProcesses
from headrace.testing.audit_log import check_commits

FORKS = max(KILLS // 6, 1)


@pytest.mark.parametrize("story", STORIES)
def test_client_works_on_both_sides_of_a_fork(
    durable_url: str, processes: ChildProcesses, story: str
) -> None:
    """Parent and child continue with the same client, and each acknowledged commit is stored."""
    child = processes.start("fork_story", url=durable_url, story=story)
    child.await_end()
    assert child.errors() == ""
    entries = child.entries()
    assert all(entry.outcome for entry in entries)
    with headrace.connect(durable_url) as hr:
        check_commits(entries, {topic: hr.range(topic) for topic in TOPICS})


def test_forks_while_threads_use_the_client(store_url: str, processes: ChildProcesses) -> None:
    """The child can use it, whatever those threads were doing. They continue, and acknowledged work
    of either side is stored."""
    child = processes.start("fork_storm", url=store_url, forks=FORKS)
    child.await_end(seconds=SECONDS)
    assert child.errors() == ""
