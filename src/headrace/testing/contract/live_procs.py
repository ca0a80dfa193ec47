"""Live procs, and the notifications they rely on."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from headrace.client import live_failures
from headrace.errors import InvalidOption, InvalidTopicName, NothingClaimed, ProcDisabled
from headrace.testing.contract.base import Connect, Contract, fill
from headrace.testing.sync_facade import ClientMode

PATIENCE = 20.0


class _NoText(Exception):
    def __str__(self) -> str:
        raise LookupError


class LiveProcContract(Contract):
    """Following a topic through ``changes``, whose callback is the same in blocking and in async
    code. Blocking code runs it in threads, async code in tasks."""

    @pytest.fixture
    def heard(self) -> queue.Queue[Any]:
        return queue.Queue()

    @pytest.fixture
    def pump(self, hr: Any, mode: ClientMode) -> Callable[[], None]:
        """Let the tasks of an async client continue. Threads need no help."""
        return hr.pump if mode == "async" else lambda: None

    def _next(self, heard: queue.Queue[Any], pump: Callable[[], None]) -> Any:
        give_up = threading.Event()
        for _ in range(int(PATIENCE / 0.005)):
            pump()
            try:
                return heard.get_nowait()
            except queue.Empty:
                give_up.wait(0.005)
        raise AssertionError("nothing was heard")

    def test_all_starts_at_the_first_record(
        self, hr: Any, heard: queue.Queue[Any], pump: Any
    ) -> None:
        fill(hr, 3)
        live = hr.live("t")
        live.changes(lambda claim: heard.put(claim[0].seq))
        assert [self._next(heard, pump) for _ in range(3)] == [0, 1, 2]
        fill(hr, 2)
        assert [self._next(heard, pump) for _ in range(2)] == [3, 4]
        live.close()
        assert hr.procs.list() == []

    def test_live_starts_at_the_next_record(
        self, hr: Any, heard: queue.Queue[Any], pump: Any
    ) -> None:
        fill(hr, 3)
        live = hr.live("t", mode="live", count=10)
        live.changes(lambda claim: heard.put([record.seq for record in claim]))
        fill(hr, 2)
        assert self._next(heard, pump) == [3, 4]
        live.close()

    def test_the_topic_may_be_created_later(
        self, hr: Any, heard: queue.Queue[Any], pump: Any
    ) -> None:
        live = hr.live("later")
        live.changes(lambda claim: heard.put(claim[0].seq))
        fill(hr, 1, "later")
        assert self._next(heard, pump) == 0
        live.close()

    def test_a_commit_of_another_client_wakes_it(
        self, hr: Any, connect: Connect, heard: queue.Queue[Any], pump: Any
    ) -> None:
        live = hr.live("t", mode="live")
        live.changes(lambda claim: heard.put(claim[0].body["n"]))
        other = connect()
        for n in range(3):
            other.commit("t", {"n": n})
            assert self._next(heard, pump) == n
        live.close()

    def test_records_of_a_failed_callback_are_delivered_again(
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

    def test_a_canceled_live_proc_is_disabled_but_kept(
        self, hr: Any, heard: queue.Queue[Any], pump: Any
    ) -> None:
        fill(hr, 1)
        live = hr.live("t")
        live.changes(lambda claim: heard.put(claim[0].seq))
        self._next(heard, pump)
        assert live.cancel().status == "disabled"
        fill(hr, 1)
        assert heard.empty()
        [info] = hr.procs.list()
        assert info.name == live.name
        assert info.on_exhausted == "continue"
        assert live.info().status == "disabled"
        assert live.resume().status == "active"
        assert live.disable().status == "disabled"
        assert live.delete().name == live.name
        assert hr.procs.list() == []

    def test_a_callback_that_raises_is_logged_and_slowed_down(
        self, hr: Any, heard: queue.Queue[Any], pump: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        """This holds for any exception. Without ``on_error`` the error is logged. Each pause is
        twice as long as the one before."""
        fill(hr, 2)
        raised: list[BaseException] = [SystemExit(1), _NoText(), asyncio.CancelledError()]

        def callback(claim: Any) -> None:
            heard.put(time.monotonic())
            if raised:
                raise raised.pop(0)

        live = hr.live("t")
        live.changes(callback)
        times = [self._next(heard, pump) for _ in range(5)]
        assert [times[n + 1] - times[n] >= 0.05 * 2**n for n in range(3)] == [True] * 3
        logged = [record for record in caplog.records if record.name == "headrace"]
        assert [live.name in record.getMessage() for record in logged] == [True] * 3
        assert live.failures == 3
        live.close()

    def test_an_on_error_that_raises_is_logged(
        self, hr: Any, heard: queue.Queue[Any], pump: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        fill(hr, 1)

        def callback(claim: Any) -> None:
            heard.put(claim[0].seq)
            if live.failures == 0:
                raise ValueError

        def on_error(error: Exception) -> None:
            raise SystemExit(2)

        live = hr.live("t")
        live.changes(callback, on_error=on_error)
        assert [self._next(heard, pump) for _ in range(2)] == [0, 0]
        assert "on_error raised SystemExit: 2" in caplog.text
        live.close()

    def test_a_disabled_live_proc_continues_when_it_is_resumed(
        self, hr: Any, heard: queue.Queue[Any], pump: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It may be resumed through itself or through another reference to its proc. It reports
        once that it is disabled."""
        errors: queue.Queue[Any] = queue.Queue()
        live = hr.live("t", mode="live")
        live.changes(lambda claim: heard.put(claim[0].seq), on_error=errors.put)
        elsewhere = hr.procs.create(live.name, "t")
        for seq, resume in enumerate([live.resume, elsewhere.resume]):
            if seq:
                monkeypatch.setattr(live_failures, "DISABLED_POLL_SECONDS", 0.01)
            elsewhere.disable()
            fill(hr, 1)
            assert isinstance(self._next(errors, pump), ProcDisabled)
            assert heard.empty()
            resume()
            assert self._next(heard, pump) == seq
        assert errors.empty()
        assert live.failures == 0
        live.close()

    def test_a_canceled_live_proc_can_be_started_again(
        self, hr: Any, heard: queue.Queue[Any], pump: Any
    ) -> None:
        fill(hr, 1)
        live = hr.live("t")
        for seq in range(3):
            live.changes(lambda claim: heard.put(claim[0].seq))
            assert self._next(heard, pump) == seq
            assert live.cancel().status == "disabled"
            fill(hr, 1)
            assert live.resume().status == "active"
        live.close()

    def test_without_claimed_records_there_is_nothing_to_settle(self, hr: Any) -> None:
        live = hr.live("t")
        for use in (live.ack, live.nack, lambda: live.ack_commit([])):
            with pytest.raises(NothingClaimed):
                use()

    def test_bad_input(self, hr: Any) -> None:
        with pytest.raises(InvalidOption):
            hr.live("t", mode="some")
        with pytest.raises(InvalidOption):
            hr.live("t", count=0)
        with pytest.raises(InvalidTopicName):
            hr.live("no good")
        assert hr.procs.list() == []
