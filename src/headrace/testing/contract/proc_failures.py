"""Reclaims, and what happens when there are too many."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.errors import (
    ClaimLost,
    InvalidOption,
    NothingToReclaim,
    ProcDisabled,
    UnknownProc,
    UnknownTopic,
)
from headrace.model.record import Record
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Connect, Contract, bodies, fill, seqs


class FailureContract(Contract):
    """``reclaim``, ``max_reclaims`` and the three strategies."""

    def test_reclaimed_records_come_again(self, hr: Any) -> None:
        fill(hr, 5)
        proc = hr.proc("p", topic="t")
        claim = proc.claim(count=2)
        assert claim.reclaim() == ""
        assert seqs(proc.claim(count=3)) == [0, 1, 2]

    def test_reclaim_returns_the_range_it_falls_back_to(self, hr: Any) -> None:
        fill(hr, 5)
        proc = hr.proc("p", topic="t")
        acked = proc.claim(count=2).ack()
        claim = proc.claim(count=2)
        assert claim.reclaim() == acked
        info = proc.inspect()
        assert info.last_claimed_range == info.last_acked_range == acked
        assert (info.reclaims, info.claimed) == (1, None)

    def test_a_reclaimed_claim_is_over(self, hr: Any) -> None:
        fill(hr, 2)
        proc = hr.proc("p", topic="t")
        claim = proc.claim()
        claim.reclaim()
        for attempt in (claim.ack, claim.reclaim, claim.extend):
            with pytest.raises(ClaimLost):
                attempt()

    def test_anybody_can_take_a_claim_away_without_its_token(
        self, hr: Any, connect: Connect
    ) -> None:
        fill(hr, 2)
        proc = hr.proc("p", topic="t")
        claim = proc.claim()
        connect().proc("p").reclaim()
        with pytest.raises(ClaimLost):
            claim.ack()

    def test_nothing_to_reclaim(self, hr: Any) -> None:
        fill(hr, 2)
        proc = hr.proc("p", topic="t")
        for _ in range(2):
            with pytest.raises(NothingToReclaim) as caught:
                proc.reclaim()
            assert caught.value.code == "nothing_to_reclaim"
            proc.claim().ack()
        assert proc.inspect().reclaims == 0

    def test_errors_come_in_order(self, hr: Any) -> None:
        fill(hr, 1)
        proc = hr.proc("p", topic="t")
        proc.disable()
        with pytest.raises(ProcDisabled):
            proc.reclaim()
        proc.destroy()
        with pytest.raises(UnknownProc):
            proc.reclaim()

    def test_the_last_error_is_kept_until_an_ack(self, hr: Any) -> None:
        fill(hr, 1)
        proc = hr.proc("p", topic="t")
        proc.claim().reclaim(error="boom")
        assert proc.inspect().last_error == "boom"
        proc.claim().ack()
        assert proc.inspect().last_error is None

    def test_the_nth_failure_in_a_row_disables(self, hr: Any) -> None:
        """It succeeds as a reclaim, and disables."""
        fill(hr, 1)
        proc = hr.proc("p", topic="t", max_reclaims=3)
        for count in (1, 2, 3):
            assert proc.inspect().status == "active"
            proc.claim().reclaim(error=f"failure {count}")
            assert proc.inspect().reclaims == count
        assert proc.inspect().status == "disabled"
        with pytest.raises(ProcDisabled, match="failure 3") as caught:
            proc.claim()
        assert caught.value.code == "proc_is_disabled"

    def test_running_out_of_time_counts_too(self, hr: Any, clock: FakeClock) -> None:
        """The claim that finds the limit reached says so, and the disabling stays."""
        fill(hr, 1)
        proc = hr.proc("p", topic="t", max_reclaims=2)
        proc.claim()
        clock.advance(10)
        proc.claim()
        clock.advance(10)
        for _ in range(2):
            with pytest.raises(ProcDisabled):
                proc.claim()
        info = proc.inspect()
        assert (info.status, info.reclaims, info.claimed) == ("disabled", 2, None)

    def test_an_ack_forgives(self, hr: Any) -> None:
        fill(hr, 3)
        proc = hr.proc("p", topic="t", max_reclaims=2)
        for _ in range(3):
            proc.claim().reclaim()
            proc.claim().ack()
        assert proc.inspect().reclaims == 0
        assert proc.inspect().status == "active"

    def test_ack_commit_and_resume_forgive_as_well(self, hr: Any) -> None:
        fill(hr, 3)
        proc = hr.proc("p", topic="t", max_reclaims=2)
        proc.claim().reclaim()
        proc.claim().ack_commit([("out", {})])
        assert proc.inspect().reclaims == 0
        proc.claim().reclaim()
        proc.disable()
        assert proc.resume().reclaims == 0

    def test_continue_goes_on_for_ever(self, hr: Any) -> None:
        fill(hr, 1)
        proc = hr.proc("p", topic="t", max_reclaims=1, on_max_reclaims_reached="continue")
        for count in range(1, 6):
            assert seqs(proc.claim()) == [0]
            proc.reclaim()
            assert proc.inspect().reclaims == count
        assert proc.inspect().status == "active"

    def test_no_limit_never_disables(self, hr: Any) -> None:
        fill(hr, 1)
        proc = hr.proc("p", topic="t", max_reclaims=-1)
        for _ in range(20):
            proc.claim().reclaim()
        assert proc.inspect().status == "active"

    def test_a_changed_limit_counts_at_once(self, hr: Any) -> None:
        fill(hr, 1)
        proc = hr.proc("p", topic="t")
        proc.claim().reclaim()
        proc.update(max_reclaims=2)
        proc.claim().reclaim()
        assert proc.inspect().status == "disabled"

    def _dead_lettering(self, hr: Any, count: int = 5, **settings: Any) -> Any:
        hr.commit_many("t", [{"n": n} for n in range(count)], headers={"h": "x"})
        return hr.proc(
            "p", topic="t", on_max_reclaims_reached="dead_letter", **{"max_reclaims": 2, **settings}
        )

    def test_a_named_culprit_becomes_a_dead_letter_alone(self, hr: Any) -> None:
        """Its neighbours come again, it does not, and its letter tells the story."""
        proc = self._dead_lettering(hr)
        for _ in range(2):
            claim = proc.claim(count=5)
            assert seqs(claim) == [0, 1, 2, 3, 4]
            claim.reclaim(failed=claim[2], error="bad n")
        [letter] = hr.range("p-dead")
        assert letter.body == {
            "proc": "p",
            "topic": "t",
            "id": claim[2].id,
            "body": {"n": 2},
            "headers": {"h": "x"},
            "error": "bad n",
            "reclaims": 2,
        }
        claim = proc.claim(count=10)
        assert seqs(claim) == [0, 1, 3, 4]
        claim.ack()
        assert proc.lag().records == 0
        assert proc.inspect().status == "active"

    def test_a_count_is_of_records_handed_out(self, hr: Any) -> None:
        """Dead letters inside a claim do not count."""
        proc = self._dead_lettering(hr, max_reclaims=1)
        claim = proc.claim(count=5)
        claim.reclaim(failed=claim[1])
        claim = proc.claim(count=3)
        assert seqs(claim) == [0, 2, 3]
        claim.ack()
        assert seqs(proc.claim(count=3)) == [4]

    def test_a_dead_first_record_is_passed(self, hr: Any) -> None:
        proc = self._dead_lettering(hr, max_reclaims=1)
        claim = proc.claim(count=2)
        claim.reclaim(failed=claim[0])
        assert proc.inspect().position == 1
        assert seqs(proc.claim(count=2)) == [1, 2]

    def test_several_dead_letters_one_after_the_other(self, hr: Any) -> None:
        proc = self._dead_lettering(hr, max_reclaims=1)
        for dead in (3, 1, 0, 4, 2):
            claim = proc.claim(count=5)
            [failed] = [record for record in claim if record.seq == dead]
            claim.reclaim(failed=failed)
        assert proc.claim() is None
        assert [body["body"]["n"] for body in bodies(hr.range("p-dead"))] == [3, 1, 0, 4, 2]
        assert proc.lag().records == 0
        hr.wait_for_procs("p", timeout=1)
        fill(hr, 1)
        assert seqs(proc.claim(count=5)) == [5]

    def test_lag_does_not_count_dead_letters(self, hr: Any) -> None:
        proc = self._dead_lettering(hr, max_reclaims=1)
        claim = proc.claim(count=5)
        claim.reclaim(failed=claim[3])
        assert proc.lag().records == 4

    def test_a_single_record_is_its_own_culprit(self, hr: Any, clock: FakeClock) -> None:
        """Also when the worker just vanishes."""
        proc = self._dead_lettering(hr)
        proc.claim()
        clock.advance(10)
        proc.claim()
        clock.advance(10)
        assert seqs(proc.claim()) == [1]
        [letter] = hr.range("p-dead")
        assert letter.body["body"] == {"n": 0}
        assert "time" in letter.body["error"]

    def test_among_several_suspects_only_the_culprit_dies(self, hr: Any) -> None:
        """Without a name the suspects come one by one until the culprit is found."""
        proc = self._dead_lettering(hr, count=6)
        handled = []
        for _ in range(30):
            claim = proc.claim(count=4)
            if claim is None:
                break
            if any(record.body["n"] == 2 for record in claim):
                claim.reclaim(error="poison")
            else:
                handled += seqs(claim)
                claim.ack()
        assert handled == [0, 1, 3, 4, 5]
        assert [body["body"]["n"] for body in bodies(hr.range("p-dead"))] == [2]

    @pytest.mark.parametrize("seq", [0, 3, 4, 99])
    def test_a_culprit_must_be_in_the_claim(self, hr: Any, seq: int) -> None:
        """Not acked before, not ahead, not beyond, not dead already; nothing changes."""
        proc = self._dead_lettering(hr, max_reclaims=1)
        proc.claim().ack()
        claim = proc.claim(count=3)
        claim.reclaim(failed=claim[2])
        claim = proc.claim(count=2)
        before = proc.inspect()
        with pytest.raises(InvalidOption, match=f":{seq} is not in this claim"):
            claim.reclaim(failed=Record("t", seq, 0, {}, {}))
        assert proc.inspect() == before
        claim.ack()

    @pytest.mark.parametrize("failed", [Record("u", 0, 0, {}, {}), "x", 0], ids=repr)
    def test_a_culprit_is_a_record_of_the_topic(self, hr: Any, failed: Any) -> None:
        proc = self._dead_lettering(hr, max_reclaims=1)
        claim = proc.claim()
        with pytest.raises(InvalidOption) as caught:
            claim.reclaim(failed=failed)
        assert caught.value.option == "failed"
        claim.ack()

    def test_the_longest_name_has_room_for_dead_letters(self, hr: Any) -> None:
        fill(hr, 1)
        name = "x" * 195
        proc = hr.proc(name, topic="t", max_reclaims=1, on_max_reclaims_reached="dead_letter")
        proc.claim().reclaim()
        assert hr.length(f"{name}-dead") == 1

    @pytest.mark.parametrize("text", ["nul \0 inside", "\ud800 lone", "", "x" * 10_000])
    def test_any_text_may_be_an_error(self, hr: Any, text: str) -> None:
        """Errors quote file names and worse."""
        proc = self._dead_lettering(hr, max_reclaims=1)
        proc.claim().reclaim(error=text)
        kept = hr.range("p-dead")[0].body["error"]
        assert len(kept) == len(text)
        assert proc.inspect().last_error == kept

    def test_a_proc_may_read_its_own_dead_letters(self, hr: Any, clock: FakeClock) -> None:
        hr.commit("p-dead", {"n": 0})
        proc = hr.proc("p", topic="p-dead", max_reclaims=1, on_max_reclaims_reached="dead_letter")
        proc.claim()
        clock.advance(10)
        assert seqs(proc.claim()) == [1]

    def test_below_the_limit_nothing_dies(self, hr: Any) -> None:
        proc = self._dead_lettering(hr)
        claim = proc.claim(count=2)
        claim.reclaim(failed=claim[0])
        with pytest.raises(UnknownTopic):
            hr.range("p-dead")
        assert seqs(proc.claim()) == [0]

    def test_dead_letters_can_be_read_by_a_proc(self, hr: Any) -> None:
        proc = self._dead_lettering(hr, max_reclaims=1)
        proc.claim().reclaim(error="first")
        rescue = hr.proc("rescue", topic="p-dead")
        assert bodies(rescue.claim())[0]["error"] == "first"
