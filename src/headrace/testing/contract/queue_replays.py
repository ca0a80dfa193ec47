"""Topics followed into queues, and ranges of them replayed."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.errors import InvalidOption, ProcDisabled, ProcNameTaken, UnknownTopic
from headrace.testing.contract.queue_base import QueueContract


def bodies(hr: Any, queue: str) -> list[Any]:
    """The payloads that wait in a queue, claimed and completed."""
    found = hr.queue(queue).claim(1000)
    for item in found:
        item.complete()
    return [item.payload for item in found]


class ReplayContract(QueueContract):
    """``topic().to_queue()`` and ``topic().replay()``: every record once."""

    def test_records_become_items(self, hr: Any) -> None:
        """In order, with the body as payload and headers that say where it comes from."""
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

    def test_each_record_is_moved_once(self, hr: Any) -> None:
        """Whoever runs it next goes on where the last one was."""
        hr.commit("orders", {"n": 1})
        assert hr.topic("orders").to_queue("mail").run_once() == 1
        assert hr.topic("orders").to_queue("mail").run_once() == 0
        hr.commit("orders", {"n": 2})
        assert hr.topic("orders").to_queue("mail").run_once() == 1
        assert bodies(hr, "mail") == [{"n": 1}, {"n": 2}]

    def test_a_subject_makes_items_unique(self, hr: Any) -> None:
        """A field of the body, or a function of the record."""
        hr.commit_many("orders", [{"who": "ann"}, {"who": "bob"}, {"who": "ann"}])
        hr.topic("orders").to_queue("mail", subject="who").run_once()
        assert bodies(hr, "mail") == [{"who": "ann"}, {"who": "bob"}]
        by_seq = hr.topic("orders").to_queue(
            "post", subject=lambda record: f"#{record.seq}", payload=lambda record: record.seq
        )
        by_seq.run_once()
        assert bodies(hr, "post") == [0, 1, 2]

    def test_a_record_that_cannot_be_pushed_does_not_stop_the_others(self, hr: Any) -> None:
        """It is a dead letter of the follower, with the error."""
        hr.commit_many("orders", [{"who": "ann"}, {"nobody": 1}, {"who": "bob"}])
        follower = hr.topic("orders").to_queue("mail", subject="who")
        follower.run_once()
        assert bodies(hr, "mail") == [{"who": "ann"}, {"who": "bob"}]
        [letter] = hr.range("orders-to-mail-dead")
        assert letter.body["body"] == {"nobody": 1}
        assert letter.body["error"] == "KeyError: 'who'"

    def test_it_can_begin_at_the_end(self, hr: Any) -> None:
        """The offset is that of a proc."""
        hr.commit("orders", {"n": 1})
        follower = hr.topic("orders").to_queue("mail", offset="$>", name="late")
        follower.run_once()
        hr.commit("orders", {"n": 2})
        assert follower.run_once() == 1
        assert bodies(hr, "mail") == [{"n": 2}]

    def test_a_range_is_replayed(self, hr: Any) -> None:
        """The ends are as in ``range``, and what is committed later is not part of it."""
        ids = hr.commit_many("orders", [{"n": n} for n in range(6)])
        replay = hr.topic("orders").replay("mail", ids[1], ids[3])
        assert (replay.total, replay.done()) == (3, 0)
        told: list[tuple[int, int]] = []
        assert replay.run(lambda done, total: told.append((done, total))) == 3
        assert told == [(3, 3)]
        assert replay.done() == 3
        assert bodies(hr, "mail") == [{"n": 1}, {"n": 2}, {"n": 3}]

    def test_a_replay_is_done_once(self, hr: Any) -> None:
        """The same replay again does nothing; under another name it is another one."""
        hr.commit_many("orders", [{"n": n} for n in range(3)])
        assert hr.topic("orders").replay("mail", name="monday").run() == 3
        hr.commit("orders", {"n": 3})
        assert hr.topic("orders").replay("mail", name="monday").run() == 0
        assert hr.topic("orders").replay("mail", name="tuesday").run() == 4
        assert len(bodies(hr, "mail")) == 7

    def test_a_replay_goes_on_where_it_was(self, hr: Any) -> None:
        """Whoever broke off, and wherever."""
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
        assert hr.stats("mail")[0].pending == 1200

    def test_a_replay_can_be_paused(self, hr: Any) -> None:
        """Nobody goes on with it meanwhile."""
        hr.commit_many("orders", [{"n": n} for n in range(3)])
        replay = hr.topic("orders").replay("mail")
        replay.pause()
        with pytest.raises(ProcDisabled):
            replay.run()
        replay.resume()
        assert replay.run() == 3

    def test_a_rate_is_kept(self, hr: Any) -> None:
        """It takes its time, and gets there."""
        hr.commit_many("orders", [{"n": n} for n in range(30)])
        told: list[int] = []
        replay = hr.topic("orders").replay("mail", rate=100)
        assert replay.run(lambda done, total: told.append(done)) == 30
        assert len(told) > 1
        assert told[-1] == 30

    def test_nothing_to_replay(self, hr: Any) -> None:
        """An empty range is no error; a topic without records is one."""
        [first, second] = hr.commit_many("orders", [{"n": 1}, {"n": 2}])
        assert hr.topic("orders").replay("mail", second, first).run() == 0
        with pytest.raises(UnknownTopic):
            hr.topic("nothing").replay("mail")

    def test_bad_wishes_are_refused(self, hr: Any) -> None:
        """Nothing is made then."""
        hr.commit("orders", {"n": 1})
        with pytest.raises(InvalidOption):
            hr.topic("orders").replay("mail", rate=0)
        with pytest.raises(InvalidOption):
            hr.topic("orders").to_queue("mail", subject=7)
        hr.topic("orders").replay("mail", name="monday")
        hr.commit("others", {"n": 1})
        with pytest.raises(ProcNameTaken):
            hr.topic("others").replay("mail", name="monday")
