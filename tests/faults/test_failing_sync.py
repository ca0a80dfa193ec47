"""A SQLite file on a disk that fails to sync."""

import json
import platform

import pytest

import headrace
from faults.children.failing_sync import MACHINES, names_for
from faults.crash_cases import CASES
from faults.processes import ChildProcesses

PLAYED = (
    *("commit", "commit to several topics", "commit with a key", "ack", "ack_commit"),
    *("push", "push many", "upsert", "complete", "settle", "transaction"),
)


@pytest.mark.skipif(platform.machine() not in MACHINES, reason="other system calls")
def test_a_sync_that_fails_at_commit_leaves_the_outcome_unknown(
    sqlite_url: str, processes: ChildProcesses
) -> None:
    """The write is in the log, and a process that opens the file after a crash may find it. So no
    error says that nothing is stored."""
    with headrace.connect(sqlite_url) as hr:
        for case in PLAYED:
            CASES[case].prepare(hr, names_for(case))
    child = processes.start("failing_sync", url=sqlite_url, cases=PLAYED)
    child.await_end()
    answers = dict(json.loads(line).values() for line in child.log_path.read_text().splitlines())
    with headrace.connect(sqlite_url) as hr:
        stored = [case for case in PLAYED if CASES[case].effect(hr, names_for(case))]
    assert [case for case in stored if answers[case].startswith("no")] == []
    assert stored, "no crash brought anything back: this tests nothing"
    assert set(answers.values()) == {"unknown"}
