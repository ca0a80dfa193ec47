"""Commits for as long as it lives."""

import itertools
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import headrace
from faults.waiting import orphanhood
from headrace.testing.ledger import Ledger, body


def plan(number: int, topics: Sequence[str]) -> list[str]:
    """The topics of one call's records: one record, several of one topic, several topics."""
    first, second = topics[number % len(topics)], topics[(number + 1) % len(topics)]
    return [[first], [first] * 3, [first, second, first]][number % 3]


def commit(hr: headrace.Headrace, book: Ledger, name: str, wanted: Sequence[str]) -> None:
    """One commit without a key, in the ledger before and after."""
    entries = [(topic, body(name, place)) for place, topic in enumerate(wanted)]
    book.intend(name, topics=list(wanted))
    if len(entries) == 1:
        ids = [hr.commit(*entries[0])]
    elif len(set(wanted)) == 1:
        ids = hr.commit_many(wanted[0], [made for _, made in entries])
    else:
        ids = hr.commit(entries)
    book.outcome(name, ids=ids)


def run(
    hr: headrace.Headrace,
    book: Ledger,
    name: str,
    topics: Sequence[str],
    is_over: Callable[[], bool],
) -> None:
    for number in itertools.count():
        if is_over():
            return
        commit(hr, book, f"{name}-{number}", plan(number, topics))


def main(url: str, ledger: str, name: str, topics: list[str]) -> None:
    with Ledger(Path(ledger)) as book, headrace.connect(url) as hr:
        run(hr, book, name, topics, orphanhood())


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
