"""Queues on a PostgreSQL server that crashes."""

import headrace
from faults.queue_scenes import claim, ids, push, run
from headrace.model.items import Document, State
from headrace.testing.postgres import PrivatePostgres

ONE = Document(payload="1")


def test_end_of_a_lease_survives_a_crash_of_the_server(fragile: PrivatePostgres) -> None:
    """A claim need not be on the disk, but a dead item that it found must not come back."""
    with headrace.connect(fragile.url) as hr:
        run(hr, "create_queue", "q", {"max_crashes": 1}, True)
        [poison, other] = push(hr, "q", ONE, ONE)
        assert claim(hr, "q", "first", 1, lease_ms=0) == [poison]
        assert claim(hr, "q", "second", 2) == [other]
        fragile.restart(immediately=True)
        assert ids(hr, "q", State.DEAD) == [poison]
        assert poison not in ids(hr, "q", State.PENDING, State.ACTIVE)
