"""Commits until it is killed."""

import itertools
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import headrace
from faults.polling import orphanhood
from headrace.testing.audit_log import AuditLog, body


def plan(number: int, topics: Sequence[str]) -> list[str]:
    """The topics of one call's records: one record, several of one topic, several topics."""
    first, second = topics[number % len(topics)], topics[(number + 1) % len(topics)]
    return [[first], [first] * 3, [first, second, first]][number % 3]


def commit(hr: headrace.Headrace, log: AuditLog, name: str, wanted: Sequence[str]) -> None:
    """One commit without a key, recorded before and after."""
    entries = [(topic, body(name, place)) for place, topic in enumerate(wanted)]
    log.intend(name, topics=list(wanted))
    if len(entries) == 1:
        ids = [hr.commit(*entries[0])]
    elif len(set(wanted)) == 1:
        ids = hr.commit_many(wanted[0], [made for _, made in entries])
    else:
        ids = hr.commit(entries)
    log.outcome(name, ids=ids)


def run(
    hr: headrace.Headrace,
    log: AuditLog,
    name: str,
    topics: Sequence[str],
    is_over: Callable[[], bool],
) -> None:
    for number in itertools.count():
        if is_over():
            return
        commit(hr, log, f"{name}-{number}", plan(number, topics))


def main(url: str, log_path: str, name: str, topics: list[str]) -> None:
    with AuditLog(Path(log_path)) as log, headrace.connect(url) as hr:
        run(hr, log, name, topics, orphanhood())


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
