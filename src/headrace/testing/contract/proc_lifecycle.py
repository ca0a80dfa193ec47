"""Info, disable, resume, delete, seek, lag, waiting."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
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
from headrace.testing.sync_facade import claim_of


class ProcLifecycleContract(Contract):
    """The life of a proc outside of claims."""

    def test_the_fields_of_a_new_proc(self, hr: Any, clock: FakeClock) -> None:
        info = hr.procs.create("p", "t", offset=">").info()
        assert (info.name, info.topic, info.offset, info.status) == ("p", "t", ">", "active")
        assert info.created_at == datetime.fromtimestamp(clock.now / 1000, UTC)
        assert (info.last_claimed_at, info.last_acked_at) == (None, None)
        ranges = (info.last_claimed_range, info.last_acked_range, info.previous_claimed_range)
        assert ranges == ("", "", "")
        assert (info.attempts, info.last_error, info.claimed) == (0, None, None)

    def test_times_of_claim_and_ack_are_stored(self, hr: Any, clock: FakeClock) -> None:
        fill(hr, 1)
        proc = hr.procs.create("p", "t")
        clock.advance(1)
        claim = proc.claim()
        claimed_at = clock.now
        clock.advance(1)
        claim.ack()
        info = proc.info()
        assert info.last_claimed_at == datetime.fromtimestamp(claimed_at / 1000, UTC)
        assert info.last_acked_at == datetime.fromtimestamp(clock.now / 1000, UTC)

    @pytest.mark.parametrize(
        "use",
        ["info", "disable", "resume", "delete", "lag", "claim", "nack", "update"],
    )
    def test_an_unknown_proc_is_an_error(self, hr: Any, use: str) -> None:
        proc = hr.procs.create("p", "t")
        proc.delete()
        with pytest.raises(UnknownProc) as caught:
            getattr(proc, use)()
        assert (caught.value.code, caught.value.proc) == ("invalid_proc", "p")
        for other in (
            lambda: proc.seek(">"),
            lambda: claim_of(hr, "p", "token").ack(),
            lambda: claim_of(hr, "p", "token").extend(),
            lambda: claim_of(hr, "p", "token").ack_commit([("out", {})]),
        ):
            with pytest.raises(UnknownProc):
                other()
        assert hr.topics.list() == []

    def test_a_disabled_proc_cannot_be_claimed(self, hr: Any) -> None:
        fill(hr, 1)
        proc = hr.procs.create("p", "t")
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
        """It can be acked and extended, and still exists after a resume."""
        fill(hr, 3)
        proc = hr.procs.create("p", "t")
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

    def test_delete_returns_the_state_and_affects_no_other_proc(self, hr: Any) -> None:
        """Procs whose names sort before or after it keep their state."""
        fill(hr, 3)
        for name in ("a", "b", "c"):
            hr.procs.create(name, "t").claim(count=2)
        before = {info.name: info for info in hr.procs.list()}
        assert hr.proc("a").delete() == before["a"]
        assert {info.name: info for info in hr.procs.list()} == {k: before[k] for k in ("b", "c")}

    def test_a_proc_created_again_starts_from_its_offset(self, hr: Any) -> None:
        fill(hr, 3)
        proc = hr.procs.create("p", "t", max_attempts=3)
        claim = proc.claim(count=2)
        proc.delete()
        again = hr.procs.create("p", "t")
        assert again.info().max_attempts == 10
        assert seqs(again.claim(count=9)) == [0, 1, 2]
        with pytest.raises(ClaimLost):
            claim.ack()

    def test_procs_are_listed_by_name(self, hr: Any) -> None:
        for name, topic in (("b", "t"), ("a", "u"), ("c", "t")):
            hr.procs.create(name, topic)
        assert [info.name for info in hr.procs.list()] == ["a", "b", "c"]
        assert [info.name for info in hr.procs.list(topic="t")] == ["b", "c"]
        assert hr.procs.list(topic="none") == []

    def test_state_outlives_the_client(self, connect: Connect) -> None:
        """A claim in flight is kept, too; its token can still ack."""
        one = connect()
        keep = connect()
        fill(one, 5)
        proc = one.procs.create("p", "t", max_attempts=4)
        proc.claim(count=2).ack()
        claim = proc.claim(count=2)
        before = proc.info()
        one.close()
        two = connect()
        assert two.proc("p").info() == before
        assert two.proc("p").claim() is None
        claim_of(two, "p", claim.token).ack()
        assert keep.proc("p").info().position == 4

    @pytest.mark.parametrize(
        ("offset", "expected"),
        [(">", [0, 1]), ("$>", None), (":0", [1, 2]), (":3", [4]), (":4", None)],
    )
    def test_seek_accepts_the_offsets_of_a_new_proc(
        self, hr: Any, offset: str, expected: list[int] | None
    ) -> None:
        fill(hr, 5)
        proc = hr.procs.create("p", "t")
        proc.claim(count=3).ack()
        info = proc.seek(offset)
        assert info.offset == offset
        claim = proc.claim(count=2)
        assert (claim and seqs(claim)) == expected

    def test_seek_to_a_time(self, hr: Any, clock: FakeClock) -> None:
        fill(hr, 3)
        clock.advance(60)
        fill(hr, 3)
        proc = hr.procs.create("p", "t", offset="$>")
        proc.seek(str(clock.now - 30_000))
        assert seqs(proc.claim()) == [3]

    def test_seek_drops_the_claim_and_the_failures(self, hr: Any) -> None:
        fill(hr, 5)
        proc = hr.procs.create("p", "t", max_attempts=1, on_exhausted="dead_letter")
        claim = proc.claim(count=3)
        claim.nack(failed=claim[1])
        held = proc.claim(count=2)
        info = proc.seek(">")
        assert (info.claimed, info.attempts, info.position) == (None, 0, 0)
        with pytest.raises(ClaimLost):
            held.ack()
        assert seqs(proc.claim(count=3)) == [0, 1, 2]

    def test_a_bad_seek_changes_nothing(self, hr: Any) -> None:
        fill(hr, 2)
        proc = hr.procs.create("p", "t")
        claim = proc.claim()
        before = proc.info()
        with pytest.raises(UnknownSeq):
            proc.seek(":2")
        with pytest.raises(InvalidPosition):
            proc.seek("later")
        assert proc.info() == before
        claim.ack()

    def test_seek_works_while_disabled(self, hr: Any) -> None:
        fill(hr, 2)
        proc = hr.procs.create("p", "t")
        proc.disable()
        assert proc.seek(":0").status == "disabled"
        proc.resume()
        assert seqs(proc.claim()) == [1]

    @pytest.mark.parametrize("lease", [120, "2m", timedelta(minutes=2)], ids=str)
    def test_a_lease_is_a_duration(self, hr: Any, lease: Any) -> None:
        assert hr.procs.create("p", "t", lease=lease).info().lease == 120.0

    def test_update_changes_only_what_is_given(self, hr: Any) -> None:
        proc = hr.procs.create("p", "t", max_attempts=5, lease=2)
        info = proc.update(on_exhausted="continue")
        assert (info.max_attempts, info.lease) == (5, 2.0)
        assert info.on_exhausted == "continue"
        assert proc.update(lease=None).lease is None
        assert proc.update() == proc.info()

    def test_lag_in_records_and_seconds(self, hr: Any, clock: FakeClock) -> None:
        proc = hr.procs.create("p", "t")
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
        proc = hr.procs.create("p", "t")
        clock.advance(-60)
        assert (proc.lag().records, proc.lag().seconds) == (1, 0.0)

    def test_waiting_for_procs_that_are_done_returns(self, hr: Any) -> None:
        hr.procs.wait_idle(timeout=0.5)
        fill(hr, 3)
        hr.procs.create("late", "t", offset="$>")
        hr.procs.create("early", "nothing-yet")
        done = hr.procs.create("done", "t")
        done.claim(count=3).ack()
        hr.procs.wait_idle(timeout=0.5)
        hr.procs.wait_idle("done", timeout=0.5)
        hr.procs.wait_idle(["late", done], timeout=0.5)
        hr.procs.wait_idle(done, timeout=0.5)

    def test_waiting_names_those_that_are_behind(self, hr: Any) -> None:
        fill(hr, 3)
        hr.procs.create("idle", "t")
        hr.procs.create("busy", "t").claim(count=3)
        hr.procs.create("done", "t", offset="$>")
        with pytest.raises(WaitTimeout) as caught:
            hr.procs.wait_idle(timeout=0.02)
        assert caught.value.procs == ["busy", "idle"]
        with pytest.raises(WaitTimeout):
            hr.procs.wait_idle(["busy", "done"], timeout=0)

    @pytest.mark.parametrize("timeout", [-1, "soon", True], ids=repr)
    def test_a_timeout_is_given_in_seconds(self, hr: Any, timeout: Any) -> None:
        with pytest.raises(InvalidOption):
            hr.procs.wait_idle(timeout=timeout)

    def test_a_disabled_proc_is_not_waited_for(self, hr: Any) -> None:
        fill(hr, 3)
        hr.procs.create("p", "t").disable()
        hr.procs.wait_idle(timeout=0.5)

    def test_waiting_for_an_unknown_proc_is_an_error(self, hr: Any) -> None:
        """A misspelt name must not pass for a proc that is done."""
        with pytest.raises(UnknownProc):
            hr.procs.wait_idle(["nobody"], timeout=0.5)
