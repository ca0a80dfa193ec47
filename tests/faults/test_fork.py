"""Clients that were used before a fork."""

import pytest

import headrace
from faults.children.forker import STORIES, TOPICS
from faults.crew import Crew
from headrace.testing.ledger import check_commits


@pytest.mark.parametrize("story", STORIES)
def test_client_works_on_both_sides_of_a_fork(durable_url: str, crew: Crew, story: str) -> None:
    """Parent and child go on with the same client, and each acknowledged commit is kept."""
    child = crew.start("forker", url=durable_url, story=story)
    child.await_end()
    assert child.errors() == ""
    entries = child.entries()
    assert all(entry.outcome for entry in entries)
    with headrace.connect(durable_url) as hr:
        check_commits(entries, {topic: hr.range(topic) for topic in TOPICS})
