"""The guarantees of names that begin with ``_``: they are Headrace's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace import Commit, Push
from headrace.contract.items import PushCall
from headrace.contract.values import CommitCall, CommitPart, ProcSpec
from headrace.errors import InvalidInput, ReservedName
from headrace.model.queues.items import Document
from headrace.model.topics.procs import ProcChanges
from headrace.testing.contract.base import Contract, bodies, needs
from headrace.testing.contract.queue_base import StoreOps

OWN = "_own"


def write_own(hr: Any) -> None:
    """What a writer of Headrace's own does: it uses the store's operations, not the client."""
    ops = StoreOps(hr)
    ops.topics.commit([CommitCall(parts=(CommitPart(OWN, 1, '{"n":1}'),))])
    ops.queues.push([PushCall(queue=OWN, documents=(Document(payload='{"n":1}'),))])
    ops.procs.create(ProcSpec(name=OWN, topic=OWN, offset=">"), ProcChanges())


WRITES: list[Callable[[Any], object]] = [
    lambda hr: hr.commit(OWN, {}),
    lambda hr: hr.commit(OWN, {}, key="k"),
    lambda hr: hr.commit([("t", {}), (OWN, {})]),
    lambda hr: hr.commit_many(OWN, [{}]),
    lambda hr: hr.topic(OWN).commit({}),
    lambda hr: hr.push(OWN, {}),
    lambda hr: hr.push(OWN, 1, subject="s"),
    lambda hr: hr.push_many(OWN, [1]),
    lambda hr: hr.upsert(OWN, 1, subject="s"),
    lambda hr: hr.queue(OWN).push(1),
    lambda hr: hr.queues.create(OWN),
    lambda hr: hr.queues.create(OWN, exist_ok=True),
    lambda hr: hr.queues.create("q", dead_to=OWN),
    lambda hr: hr.queues.create("q", keep_superseded=OWN),
    lambda hr: hr.queues.set_defaults(dead_to=["q", OWN]),
    lambda hr: hr.queue(OWN).update(lease=5),
    lambda hr: hr.queue(OWN).pause(),
    lambda hr: hr.queue(OWN).resume(),
    lambda hr: hr.queue(OWN).drop(),
    lambda hr: hr.queue("q").dead.redrive(to=OWN),
    lambda hr: hr.procs.create(OWN, "t"),
    lambda hr: hr.proc(OWN).update(max_attempts=3),
    lambda hr: hr.proc(OWN).seek(">"),
    lambda hr: hr.proc(OWN).disable(),
    lambda hr: hr.proc(OWN).resume(),
    lambda hr: hr.proc(OWN).delete(),
    lambda hr: hr.start_worker(OWN, print),
]


class ReservedNameContract(Contract):
    """Users read what begins with ``_``, and do not write it."""

    @pytest.mark.parametrize("write", WRITES)
    def test_users_do_not_write(self, hr: Any, write: Callable[[Any], object]) -> None:
        """Not to what exists, and nothing comes into being. The error says what to do."""
        write_own(hr)
        before = self._seen(hr)
        with pytest.raises(ReservedName) as caught:
            write(hr)
        assert isinstance(caught.value, InvalidInput)
        assert caught.value.name == OWN
        assert "use another name" in str(caught.value)
        assert self._seen(hr) == before

    def _seen(self, hr: Any) -> object:
        topics = hr.topics.list()
        return topics, hr.queues.list(), hr.procs.list(), hr.queues.defaults(), hr.queues.stats()

    @needs("admin")
    def test_users_do_not_change_the_retention(self, hr: Any) -> None:
        write_own(hr)
        with pytest.raises(ReservedName):
            hr.topic(OWN).set_retention(min_age=5)
        assert hr.topic(OWN).info().min_age is None

    @needs("pipelines")
    def test_users_make_no_such_pipelines(self, hr: Any) -> None:
        """A pipeline may read such a topic, and does not write to one."""
        write_own(hr)
        with pytest.raises(ReservedName):
            hr.pipelines.create(OWN, source="t", to="u", processor=_same)
        with pytest.raises(ReservedName):
            hr.pipelines.create("p", source="t", to=OWN, processor=_same)
        with pytest.raises(ReservedName):
            hr.pipeline(OWN).delete()
        hr.pipelines.create("p", source=[OWN], to="u", processor=_same)
        assert [info.sources for info in hr.pipelines.list()] == [(OWN,)]

    def test_outcomes_do_not_write(self, hr: Any) -> None:
        """Nor do acks: the item and the claim stay as they were."""
        hr.push("q", 1)
        hr.commit("t", {})
        claim = hr.procs.create("p", "t").claim()
        [item] = hr.queue("q").claim()
        for write in (
            lambda: claim.ack_commit([(OWN, {})]),
            lambda: item.complete(then=Commit(OWN, {})),
            lambda: item.complete(then=[Push(OWN, 1)]),
        ):
            with pytest.raises(ReservedName):
                write()
        claim.ack()
        item.complete()

    def test_users_read(self, hr: Any) -> None:
        """Records, items and states, also by a proc of their own."""
        write_own(hr)
        assert bodies(hr.range(OWN)) == [{"n": 1}]
        assert hr.topic(OWN).length() == 1
        assert OWN in [info.name for info in hr.topics.list()]
        reader = hr.procs.create("reader", OWN)
        claim = reader.claim()
        assert bodies(claim) == [{"n": 1}]
        claim.ack()
        assert hr.proc(OWN).info().topic == OWN
        assert hr.proc(OWN).lag().records == 1
        assert [item.payload for item in hr.queue(OWN).items("pending")] == [{"n": 1}]
        assert [info.name for info in hr.queues.list()] == [OWN]

    def test_what_has_such_a_name_already_can_be_finished(self, hr: Any) -> None:
        """Names with ``_`` were allowed once: items are claimed and settled, records acked."""
        write_own(hr)
        [item] = hr.queue(OWN).claim()
        assert item.payload == {"n": 1}
        item.complete()
        hr.proc(OWN).claim().ack()
        assert hr.proc(OWN).lag().records == 0

    def test_claiming_makes_no_such_queue(self, hr: Any) -> None:
        with pytest.raises(ReservedName):
            hr.queue(OWN).claim()
        assert hr.queues.list() == []

    def test_a_topic_of_headrace_feeds_a_queue(self, hr: Any) -> None:
        """The proc for that has a name that users may write."""
        write_own(hr)
        with hr.topic(OWN).to_queue("q") as follower:
            name = follower.name
        assert name == "of_own-to-q"
        with pytest.raises(ReservedName):
            hr.topic("t").to_queue(OWN)


def _same(body: Any) -> Any:
    return body
