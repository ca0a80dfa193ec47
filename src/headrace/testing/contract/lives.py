"""Live procs, and the wake-ups behind them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

import pytest

from headrace.errors import InvalidOption, InvalidTopicName, NothingToReclaim
from headrace.testing.contract.base import Connect, Contract, fill
from headrace.testing.faces import FaceName

PATIENCE = 20.0


class LiveContract(Contract):
    """Following a topic. Blocking code iterates in threads here, async code in tasks; the
    face runs both through ``changes``, whose callback works alike."""

    @pytest.fixture
    def heard(self) -> queue.Queue[Any]:
        return queue.Queue()

    @pytest.fixture
    def pump(self, hr: Any, face: FaceName) -> Callable[[], None]:
        """Let an async client's tasks go on; threads go on by themselves."""
        return hr.pump if face == "async" else lambda: None

    def _next(self, heard: queue.Queue[Any], pump: Callable[[], None]) -> Any:
        give_up = threading.Event()
        for _ in range(int(PATIENCE / 0.005)):
            pump()
            try:
                return heard.get_nowait()
            except queue.Empty:
                give_up.wait(0.005)
        raise AssertionError("nothing was heard")

    def test_all_begins_with_the_first_record(
        self, hr: Any, heard: queue.Queue[Any], pump: Any
    ) -> None:
        fill(hr, 3)
        live = hr.live("t")
        live.changes(lambda claim: heard.put(claim[0].seq))
        assert [self._next(heard, pump) for _ in range(3)] == [0, 1, 2]
        fill(hr, 2)
        assert [self._next(heard, pump) for _ in range(2)] == [3, 4]
        live.close()
        assert hr.procs() == []

    def test_live_begins_with_the_next_record(
        self, hr: Any, heard: queue.Queue[Any], pump: Any
    ) -> None:
        fill(hr, 3)
        live = hr.live("t", mode="live", count=10)
        live.changes(lambda claim: heard.put([record.seq for record in claim]))
        fill(hr, 2)
        assert self._next(heard, pump) == [3, 4]
        live.close()

    def test_a_topic_may_come_later(self, hr: Any, heard: queue.Queue[Any], pump: Any) -> None:
        live = hr.live("later")
        live.changes(lambda claim: heard.put(claim[0].seq))
        fill(hr, 1, "later")
        assert self._next(heard, pump) == 0
        live.close()

    def test_another_client_wakes_it(
        self, hr: Any, connect: Connect, heard: queue.Queue[Any], pump: Any
    ) -> None:
        live = hr.live("t", mode="live")
        live.changes(lambda claim: heard.put(claim[0].body["n"]))
        other = connect()
        for n in range(3):
            other.commit("t", {"n": n})
            assert self._next(heard, pump) == n
        live.close()

    def test_what_a_callback_refuses_comes_again(
        self, hr: Any, heard: queue.Queue[Any], pump: Any
    ) -> None:
        fill(hr, 2)
        errors: list[Exception] = []
        attempts: list[int] = []

        def callback(claim: Any) -> None:
            attempts.append(claim[0].seq)
            if len(attempts) < 3:
                raise ValueError("not yet")
            heard.put(claim[0].seq)

        live = hr.live("t")
        live.changes(callback, on_error=errors.append)
        assert [self._next(heard, pump) for _ in range(2)] == [0, 1]
        assert attempts == [0, 0, 0, 1]
        assert [str(error) for error in errors] == ["not yet", "not yet"]
        live.close()

    def test_a_canceled_live_proc_is_disabled_and_stays(
        self, hr: Any, heard: queue.Queue[Any], pump: Any
    ) -> None:
        fill(hr, 1)
        live = hr.live("t")
        live.changes(lambda claim: heard.put(claim[0].seq))
        self._next(heard, pump)
        assert live.cancel().status == "disabled"
        fill(hr, 1)
        assert heard.empty()
        [info] = hr.procs()
        assert info.name == live.name
        assert info.on_max_reclaims_reached == "continue"
        assert live.inspect().status == "disabled"
        assert live.resume().status == "active"
        assert live.disable().status == "disabled"
        assert live.destroy().name == live.name
        assert hr.procs() == []

    def test_without_records_out_there_is_nothing_to_settle(self, hr: Any) -> None:
        live = hr.live("t")
        for use in (live.ack, live.reclaim, lambda: live.ack_commit([])):
            with pytest.raises(NothingToReclaim):
                use()

    def test_bad_input(self, hr: Any) -> None:
        with pytest.raises(InvalidOption):
            hr.live("t", mode="some")
        with pytest.raises(InvalidOption):
            hr.live("t", count=0)
        with pytest.raises(InvalidTopicName):
            hr.live("no good")
        assert hr.procs() == []
