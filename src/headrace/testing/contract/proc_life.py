"""Inspect, disable, resume, destroy, seek, lag, waiting."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from headrace.errors import (
    ClaimLost,
    InvalidOption,
    InvalidPosition,
    ProcAlreadyActive,
    ProcAlreadyDisabled,
    ProcDisabled,
    UnknownProc,
    UnknownSeq,
    WaitTimeout,
)
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Connect, Contract, fill, seqs


class ProcLifeContract(Contract):
    """The life of a proc outside of claims."""

    def test_a_new_proc_looks_like_this(self, hr: Any, clock: FakeClock) -> None:
        info = hr.proc("p", topic="t", offset=">").inspect()
        assert (info.name, info.topic, info.offset, info.status) == ("p", "t", ">", "active")
        assert info.created_at == datetime.fromtimestamp(clock.now / 1000, UTC)
        assert (info.last_claimed_at, info.last_acked_at) == (None, None)
        ranges = (info.last_claimed_range, info.last_acked_range, info.previous_claimed_range)
        assert ranges == ("", "", "")
        assert (info.reclaims, info.last_error, info.claimed) == (0, None, None)

    def test_times_of_claim_and_ack_are_kept(self, hr: Any, clock: FakeClock) -> None:
        fill(hr, 1)
        proc = hr.proc("p", topic="t")
        clock.advance(1)
        claim = proc.claim()
        claimed_at = clock.now
        clock.advance(1)
        claim.ack()
        info = proc.inspect()
        assert info.last_claimed_at == datetime.fromtimestamp(claimed_at / 1000, UTC)
        assert info.last_acked_at == datetime.fromtimestamp(clock.now / 1000, UTC)

    @pytest.mark.parametrize(
        "use",
        ["inspect", "disable", "resume", "destroy", "lag", "claim", "reclaim", "update"],
    )
    def test_an_unknown_proc_is_an_error(self, hr: Any, use: str) -> None:
        proc = hr.proc("p", topic="t")
        proc.destroy()
        with pytest.raises(UnknownProc) as caught:
            getattr(proc, use)()
        assert (caught.value.code, caught.value.proc) == ("invalid_proc", "p")
        for other in (
            lambda: proc.seek(">"),
            lambda: proc.ack("token"),
            lambda: proc.extend("token"),
            lambda: proc.ack_commit("token", [("out", {})]),
        ):
            with pytest.raises(UnknownProc):
                other()
        assert hr.topics() == []

    def test_a_disabled_proc_hands_out_nothing(self, hr: Any) -> None:
        fill(hr, 1)
        proc = hr.proc("p", topic="t")
        assert proc.disable().status == "disabled"
        with pytest.raises(ProcDisabled):
            proc.claim()
        with pytest.raises(ProcAlreadyDisabled) as caught:
            proc.disable()
        assert caught.value.code == "proc_already_disabled"
        assert proc.resume().status == "active"
        with pytest.raises(ProcAlreadyActive) as active:
            proc.resume()
        assert active.value.code == "proc_already_active"
        assert seqs(proc.claim()) == [0]

    def test_a_claim_outlives_disabling(self, hr: Any) -> None:
        """It may be acked, extended, and is still there after resume."""
        fill(hr, 3)
        proc = hr.proc("p", topic="t")
        claim = proc.claim()
        proc.disable()
        claim.extend()
        claim.ack()
        proc.resume()
        held = proc.claim()
        proc.disable()
        proc.resume()
        assert proc.claim() is None
        held.ack_commit([("out", {})])
        assert seqs(proc.claim()) == [2]

    def test_destroy_returns_what_was_and_touches_no_other(self, hr: Any) -> None:
        """PipeProc's destroy wiped all procs that sorted after."""
        fill(hr, 3)
        for name in ("a", "b", "c"):
            hr.proc(name, topic="t").claim(count=2)
        before = {info.name: info for info in hr.procs()}
        assert hr.proc("a").destroy() == before["a"]
        assert {info.name: info for info in hr.procs()} == {k: before[k] for k in ("b", "c")}

    def test_a_proc_made_again_starts_anew(self, hr: Any) -> None:
        fill(hr, 3)
        proc = hr.proc("p", topic="t", max_reclaims=3)
        claim = proc.claim(count=2)
        proc.destroy()
        again = hr.proc("p", topic="t")
        assert again.inspect().max_reclaims == 10
        assert seqs(again.claim(count=9)) == [0, 1, 2]
        with pytest.raises(ClaimLost):
            claim.ack()

    def test_procs_are_listed_by_name(self, hr: Any) -> None:
        for name, topic in (("b", "t"), ("a", "u"), ("c", "t")):
            hr.proc(name, topic=topic)
        assert [info.name for info in hr.procs()] == ["a", "b", "c"]
        assert [info.name for info in hr.procs(topic="t")] == ["b", "c"]
        assert hr.procs(topic="none") == []

    def test_state_outlives_the_client(self, connect: Connect) -> None:
        """An outstanding claim too; its token still acks."""
        one = connect()
        keep = connect()
        fill(one, 5)
        proc = one.proc("p", topic="t", max_reclaims=4)
        proc.claim(count=2).ack()
        claim = proc.claim(count=2)
        before = proc.inspect()
        one.close()
        two = connect()
        assert two.proc("p").inspect() == before
        assert two.proc("p").claim() is None
        two.proc("p").ack(claim.token)
        assert keep.proc("p").inspect().position == 4

    @pytest.mark.parametrize(
        ("offset", "expected"),
        [(">", [0, 1]), ("$>", None), (":0", [1, 2]), (":3", [4]), (":4", None)],
    )
    def test_seek_moves_as_a_new_proc_would_start(
        self, hr: Any, offset: str, expected: list[int] | None
    ) -> None:
        fill(hr, 5)
        proc = hr.proc("p", topic="t")
        proc.claim(count=3).ack()
        info = proc.seek(offset)
        assert info.offset == offset
        claim = proc.claim(count=2)
        assert (claim and seqs(claim)) == expected

    def test_seek_to_a_time(self, hr: Any, clock: FakeClock) -> None:
        fill(hr, 3)
        clock.advance(60)
        fill(hr, 3)
        proc = hr.proc("p", topic="t", offset="$>")
        proc.seek(str(clock.now - 30_000))
        assert seqs(proc.claim()) == [3]

    def test_seek_drops_the_claim_and_the_failures(self, hr: Any) -> None:
        fill(hr, 5)
        proc = hr.proc("p", topic="t", max_reclaims=1, on_max_reclaims_reached="dead_letter")
        claim = proc.claim(count=3)
        claim.reclaim(failed=claim[1])
        held = proc.claim(count=2)
        info = proc.seek(">")
        assert (info.claimed, info.reclaims, info.position) == (None, 0, 0)
        with pytest.raises(ClaimLost):
            held.ack()
        assert seqs(proc.claim(count=3)) == [0, 1, 2]

    def test_a_bad_seek_changes_nothing(self, hr: Any) -> None:
        fill(hr, 2)
        proc = hr.proc("p", topic="t")
        claim = proc.claim()
        before = proc.inspect()
        with pytest.raises(UnknownSeq):
            proc.seek(":2")
        with pytest.raises(InvalidPosition):
            proc.seek("later")
        assert proc.inspect() == before
        claim.ack()

    def test_seek_works_while_disabled(self, hr: Any) -> None:
        fill(hr, 2)
        proc = hr.proc("p", topic="t")
        proc.disable()
        assert proc.seek(":0").status == "disabled"
        proc.resume()
        assert seqs(proc.claim()) == [1]

    def test_update_changes_only_what_is_given(self, hr: Any) -> None:
        proc = hr.proc("p", topic="t", max_reclaims=5, reclaim_timeout=2)
        info = proc.update(on_max_reclaims_reached="continue")
        assert (info.max_reclaims, info.reclaim_timeout) == (5, 2.0)
        assert info.on_max_reclaims_reached == "continue"
        assert proc.update(reclaim_timeout=None).reclaim_timeout is None
        assert proc.update() == proc.inspect()

    def test_lag_in_records_and_seconds(self, hr: Any, clock: FakeClock) -> None:
        proc = hr.proc("p", topic="t")
        assert (proc.lag().records, proc.lag().seconds) == (0, 0.0)
        fill(hr, 2)
        clock.advance(5)
        fill(hr, 3)
        clock.advance(1)
        assert (proc.lag().records, proc.lag().seconds) == (5, 6.0)
        claim = proc.claim(count=2)
        assert proc.lag().records == 5
        claim.ack()
        assert (proc.lag().records, proc.lag().seconds) == (3, 1.0)
        proc.claim(count=9).ack()
        assert (proc.lag().records, proc.lag().seconds) == (0, 0.0)

    def test_lag_is_never_negative_in_time(self, hr: Any, clock: FakeClock) -> None:
        fill(hr, 1)
        proc = hr.proc("p", topic="t")
        clock.advance(-60)
        assert (proc.lag().records, proc.lag().seconds) == (1, 0.0)

    def test_waiting_for_procs_that_are_done_returns(self, hr: Any) -> None:
        hr.wait_for_procs(timeout=0.5)
        fill(hr, 3)
        hr.proc("late", topic="t", offset="$>")
        hr.proc("early", topic="nothing-yet")
        done = hr.proc("done", topic="t")
        done.claim(count=3).ack()
        hr.wait_for_procs(timeout=0.5)
        hr.wait_for_procs("done", timeout=0.5)
        hr.wait_for_procs(["late", done], timeout=0.5)
        hr.wait_for_procs(done, timeout=0.5)

    def test_waiting_names_those_that_are_behind(self, hr: Any) -> None:
        fill(hr, 3)
        hr.proc("idle", topic="t")
        hr.proc("busy", topic="t").claim(count=3)
        hr.proc("done", topic="t", offset="$>")
        with pytest.raises(WaitTimeout) as caught:
            hr.wait_for_procs(timeout=0.02)
        assert caught.value.procs == ["busy", "idle"]
        with pytest.raises(WaitTimeout):
            hr.wait_for_procs(["busy", "done"], timeout=0)

    @pytest.mark.parametrize("timeout", [-1, "soon", True], ids=repr)
    def test_a_timeout_is_seconds(self, hr: Any, timeout: Any) -> None:
        with pytest.raises(InvalidOption):
            hr.wait_for_procs(timeout=timeout)

    def test_a_disabled_proc_is_not_waited_for(self, hr: Any) -> None:
        fill(hr, 3)
        hr.proc("p", topic="t").disable()
        hr.wait_for_procs(timeout=0.5)

    def test_waiting_for_an_unknown_proc_is_an_error(self, hr: Any) -> None:
        """A misspelt name must not pass for 'done'."""
        with pytest.raises(UnknownProc):
            hr.wait_for_procs(["nobody"], timeout=0.5)
