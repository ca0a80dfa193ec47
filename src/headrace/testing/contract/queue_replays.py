"""Topics followed into queues, and ranges of topics replayed."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.errors import (
    InvalidOption,
    ProcDisabled,
    ProcNameTaken,
    QueueFull,
    UnknownProc,
    UnknownTopic,
)
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.queue_base import QueueContract


def bodies(hr: Any, queue: str) -> list[Any]:
    """Claim and complete all items of a queue. Return their payloads."""
    found = hr.queue(queue).claim(1000)
    for item in found:
        item.complete()
    return [item.payload for item in found]


class ReplayContract(QueueContract):
    """``topic().to_queue()`` and ``topic().replay()`` push every record once."""

    def test_records_become_items(self, hr: Any) -> None:
        """In order, with the body as payload, and headers that name the record."""
        ids = [
            hr.commit("orders", {"n": 1}, headers={"trace": "7"}),
            hr.commit("orders", {"n": 2}),
        ]
        follower = hr.topic("orders").to_queue("mail")
        assert follower.run_once() == 2
        items = hr.queue("mail").claim(10)
        assert [item.payload for item in items] == [{"n": 1}, {"n": 2}]
        origin = {"headrace-topic": "orders", "headrace-record": ids[0]}
        assert items[0].headers == {"trace": "7", **origin}
        assert follower.lag().records == 0

    def test_each_record_is_copied_once(self, hr: Any) -> None:
        """The next run continues where the last one stopped."""
        hr.commit("orders", {"n": 1})
        assert hr.topic("orders").to_queue("mail").run_once() == 1
        assert hr.topic("orders").to_queue("mail").run_once() == 0
        hr.commit("orders", {"n": 2})
        assert hr.topic("orders").to_queue("mail").run_once() == 1
        assert bodies(hr, "mail") == [{"n": 1}, {"n": 2}]

    def test_a_subject_makes_items_unique(self, hr: Any) -> None:
        """The subject is a field of the body or a function of the record."""
        hr.commit_many("orders", [{"who": "ann"}, {"who": "bob"}, {"who": "ann"}])
        hr.topic("orders").to_queue("mail", subject="who").run_once()
        assert bodies(hr, "mail") == [{"who": "ann"}, {"who": "bob"}]
        by_seq = hr.topic("orders").to_queue(
            "post", subject=lambda record: f"#{record.seq}", payload=lambda record: record.seq
        )
        by_seq.run_once()
        assert bodies(hr, "post") == [0, 1, 2]

    def test_a_record_that_cannot_be_pushed_does_not_stop_the_others(self, hr: Any) -> None:
        """It becomes a dead letter of the follower, with the error."""
        hr.commit_many("orders", [{"who": "ann"}, {"nobody": 1}, {"who": "bob"}])
        follower = hr.topic("orders").to_queue("mail", subject="who")
        follower.run_once()
        assert bodies(hr, "mail") == [{"who": "ann"}, {"who": "bob"}]
        [letter] = hr.range("orders-to-mail-dead")
        assert letter.body["body"] == {"nobody": 1}
        assert letter.body["error"] == "KeyError: 'who'"

    def test_a_dying_follower_loses_no_record(self, hr: Any, clock: FakeClock) -> None:
        """Its expired claims do not count against the records, however often it dies."""
        hr.commit("orders", {"n": 1})
        follower = hr.topic("orders").to_queue("mail")
        for _ in range(3):
            assert hr.procs.create(follower.name, "orders").claim() is not None
            clock.advance(20)
        assert follower.run_once() == 1
        assert bodies(hr, "mail") == [{"n": 1}]
        assert [topic.name for topic in hr.topics.list()] == ["orders"]

    def test_a_full_queue_loses_no_record(self, hr: Any, clock: FakeClock) -> None:
        """Records wait in the topic until the queue has capacity."""
        hr.queues.create("mail", max_items=1, exist_ok=True).push("first")
        hr.commit_many("orders", [{"n": 1}, {"n": 2}])
        hr.queues.create("mail", max_items=2, exist_ok=True)
        follower = hr.topic("orders").to_queue("mail")
        replay = hr.topic("orders").replay("mail", name="again")
        for _ in range(3):
            for move in (follower.run_once, replay.run):
                with pytest.raises(QueueFull):
                    move()
            clock.advance(20)
        assert bodies(hr, "mail") == ["first"]
        assert follower.run_once() == 2
        assert bodies(hr, "mail") == [{"n": 1}, {"n": 2}]
        assert replay.run() == 2
        assert bodies(hr, "mail") == [{"n": 1}, {"n": 2}]
        assert [topic.name for topic in hr.topics.list()] == ["orders"]

    @pytest.mark.parametrize("kind", ["follower", "replay"])
    def test_a_limit_of_attempts_is_removed(self, hr: Any, kind: str) -> None:
        """From followers and replays that were created earlier with one."""

        def begin() -> Any:
            if kind == "replay":
                return hr.topic("orders").replay("mail", name="again")
            return hr.topic("orders").to_queue("mail")

        hr.commit_many("orders", [{"n": 1}, {"n": 2}])
        name = begin().name
        hr.procs.create(name, "orders").update(max_attempts=1)
        begun = begin()
        begun.run() if kind == "replay" else begun.run_once()
        assert hr.proc(name).info().max_attempts == -1
        assert bodies(hr, "mail") == [{"n": 1}, {"n": 2}]

    def test_a_follower_creates_its_proc_when_it_first_runs(self, hr: Any) -> None:
        """``to_queue`` itself asks the store nothing, as any reference."""
        follower = hr.topic("orders").to_queue("mail")
        assert hr.procs.list() == []
        with pytest.raises(UnknownProc):
            follower.lag()
        follower.run_once()
        assert [proc.name for proc in hr.procs.list()] == [follower.name]

    def test_a_follower_can_start_at_the_end(self, hr: Any) -> None:
        """The offset is that of a proc."""
        hr.commit("orders", {"n": 1})
        follower = hr.topic("orders").to_queue("mail", offset="$>", name="late")
        follower.run_once()
        hr.commit("orders", {"n": 2})
        assert follower.run_once() == 1
        assert bodies(hr, "mail") == [{"n": 2}]

    def test_a_range_is_replayed(self, hr: Any) -> None:
        """The ends are those of ``range``. Records committed later are not included."""
        ids = hr.commit_many("orders", [{"n": n} for n in range(6)])
        replay = hr.topic("orders").replay("mail", ids[1], ids[3])
        assert (replay.total, replay.done()) == (3, 0)
        progress: list[tuple[int, int]] = []
        assert replay.run(lambda done, total: progress.append((done, total))) == 3
        assert progress == [(3, 3)]
        assert replay.done() == 3
        assert bodies(hr, "mail") == [{"n": 1}, {"n": 2}, {"n": 3}]

    def test_a_bad_record_does_not_extend_a_replay(self, hr: Any) -> None:
        """It becomes a dead letter. No record behind the range replaces it."""
        names = ["ann", None, "bob", "eve"]
        ids = hr.commit_many("orders", [{"who": name} if name else {"n": 1} for name in names])
        replay = hr.topic("orders").replay("mail", ids[0], ids[2], subject="who")
        replay.run()
        assert bodies(hr, "mail") == [{"who": "ann"}, {"who": "bob"}]
        assert replay.done() == 3
        assert len(list(hr.range(f"{replay.name}-dead"))) == 1

    def test_a_replay_runs_once(self, hr: Any) -> None:
        """Running it again does nothing. A replay of another name is another one."""
        hr.commit_many("orders", [{"n": n} for n in range(3)])
        assert hr.topic("orders").replay("mail", name="monday").run() == 3
        hr.commit("orders", {"n": 3})
        assert hr.topic("orders").replay("mail", name="monday").run() == 0
        assert hr.topic("orders").replay("mail", name="tuesday").run() == 4
        assert len(bodies(hr, "mail")) == 7

    def test_a_replay_continues_where_it_stopped(self, hr: Any) -> None:
        """Whichever process stopped it, and wherever."""
        hr.commit_many("orders", [{"n": n} for n in range(1200)])
        replay = hr.topic("orders").replay("mail")

        class Enough(Exception):
            pass

        def stop(done: int, total: int) -> None:
            raise Enough

        with pytest.raises(Enough):
            replay.run(stop)
        assert 0 < replay.done() < 1200
        left = 1200 - replay.done()
        assert hr.topic("orders").replay("mail").run() == left
        assert hr.queues.stats("mail")[0].pending == 1200

    def test_a_replay_can_be_paused(self, hr: Any) -> None:
        """No process continues it meanwhile."""
        hr.commit_many("orders", [{"n": n} for n in range(3)])
        replay = hr.topic("orders").replay("mail")
        replay.pause()
        with pytest.raises(ProcDisabled):
            replay.run()
        replay.resume()
        assert replay.run() == 3

    def test_a_rate_is_kept(self, hr: Any) -> None:
        """A replay with a rate takes its time, and finishes."""
        hr.commit_many("orders", [{"n": n} for n in range(30)])
        progress: list[int] = []
        replay = hr.topic("orders").replay("mail", rate=100)
        assert replay.run(lambda done, total: progress.append(done)) == 30
        assert len(progress) > 1
        assert progress[-1] == 30

    def test_nothing_to_replay(self, hr: Any) -> None:
        """An empty range is no error. An unknown topic is one."""
        [first, second] = hr.commit_many("orders", [{"n": 1}, {"n": 2}])
        assert hr.topic("orders").replay("mail", second, first).run() == 0
        with pytest.raises(UnknownTopic):
            hr.topic("nothing").replay("mail")

    def test_invalid_options_are_refused(self, hr: Any) -> None:
        """Nothing is created."""
        hr.commit("orders", {"n": 1})
        with pytest.raises(InvalidOption):
            hr.topic("orders").replay("mail", rate=0)
        with pytest.raises(InvalidOption):
            hr.topic("orders").to_queue("mail", subject=7)
        hr.topic("orders").replay("mail", name="monday")
        hr.commit("others", {"n": 1})
        with pytest.raises(ProcNameTaken):
            hr.topic("others").replay("mail", name="monday")
