"""Failed attempts, and what happens at their limit."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.errors import (
    ClaimLost,
    InvalidOption,
    NothingClaimed,
    ProcDisabled,
    UnknownProc,
    UnknownTopic,
)
from headrace.model.topics.records import Record
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Connect, Contract, bodies, fill, seqs
from headrace.testing.contract.queue_base import StoreOps


class ProcFailureContract(Contract):
    """``nack``, ``max_attempts`` and the three strategies."""

    def test_nacked_records_are_delivered_again(self, hr: Any) -> None:
        fill(hr, 5)
        proc = hr.procs.create("p", "t")
        claim = proc.claim(count=2)
        assert claim.nack() == ""
        assert seqs(proc.claim(count=3)) == [0, 1, 2]

    def test_a_nack_returns_the_range_it_falls_back_to(self, hr: Any) -> None:
        fill(hr, 5)
        proc = hr.procs.create("p", "t")
        acked = proc.claim(count=2).ack()
        claim = proc.claim(count=2)
        assert claim.nack() == acked
        info = proc.info()
        assert info.last_claimed_range == info.last_acked_range == acked
        assert (info.attempts, info.claimed) == (1, None)

    def test_a_nacked_claim_is_over(self, hr: Any) -> None:
        fill(hr, 2)
        proc = hr.procs.create("p", "t")
        claim = proc.claim()
        claim.nack()
        for attempt in (claim.ack, claim.nack, claim.extend):
            with pytest.raises(ClaimLost):
                attempt()

    def test_a_nack_needs_no_token(self, hr: Any, connect: Connect) -> None:
        fill(hr, 2)
        proc = hr.procs.create("p", "t")
        claim = proc.claim()
        connect().proc("p").nack()
        with pytest.raises(ClaimLost):
            claim.ack()

    def test_nothing_claimed(self, hr: Any) -> None:
        fill(hr, 2)
        proc = hr.procs.create("p", "t")
        for _ in range(2):
            with pytest.raises(NothingClaimed) as caught:
                proc.nack()
            assert caught.value.code == "nothing_claimed"
            proc.claim().ack()
        assert proc.info().attempts == 0

    def test_errors_come_in_order(self, hr: Any) -> None:
        fill(hr, 1)
        proc = hr.procs.create("p", "t")
        proc.disable()
        with pytest.raises(ProcDisabled):
            proc.nack()
        proc.delete()
        with pytest.raises(UnknownProc):
            proc.nack()

    def test_the_last_error_is_kept_until_an_ack(self, hr: Any) -> None:
        fill(hr, 1)
        proc = hr.procs.create("p", "t")
        proc.claim().nack(error="boom")
        assert proc.info().last_error == "boom"
        proc.claim().ack()
        assert proc.info().last_error is None

    def test_the_nth_failure_in_a_row_disables(self, hr: Any) -> None:
        """The nack itself succeeds, and disables the proc."""
        fill(hr, 1)
        proc = hr.procs.create("p", "t", max_attempts=3)
        for count in (1, 2, 3):
            assert proc.info().status == "active"
            proc.claim().nack(error=f"failure {count}")
            assert proc.info().attempts == count
        assert proc.info().status == "disabled"
        with pytest.raises(ProcDisabled, match="failure 3") as caught:
            proc.claim()
        assert caught.value.code == "proc_is_disabled"

    def test_an_expired_claim_counts_as_an_attempt(self, hr: Any, clock: FakeClock) -> None:
        """The claim that finds the limit reached raises, and the proc stays disabled."""
        fill(hr, 1)
        proc = hr.procs.create("p", "t", max_attempts=2)
        proc.claim()
        clock.advance(10)
        proc.claim()
        clock.advance(10)
        for _ in range(2):
            with pytest.raises(ProcDisabled):
                proc.claim()
        info = proc.info()
        assert (info.status, info.attempts, info.claimed) == ("disabled", 2, None)

    def test_an_ack_resets_the_attempts(self, hr: Any) -> None:
        fill(hr, 3)
        proc = hr.procs.create("p", "t", max_attempts=2)
        for _ in range(3):
            proc.claim().nack()
            proc.claim().ack()
        assert proc.info().attempts == 0
        assert proc.info().status == "active"

    def test_ack_commit_and_resume_reset_the_attempts(self, hr: Any) -> None:
        fill(hr, 3)
        proc = hr.procs.create("p", "t", max_attempts=2)
        proc.claim().nack()
        proc.claim().ack_commit([("out", {})])
        assert proc.info().attempts == 0
        proc.claim().nack()
        proc.disable()
        assert proc.resume().attempts == 0

    def test_continue_never_disables(self, hr: Any) -> None:
        fill(hr, 1)
        proc = hr.procs.create("p", "t", max_attempts=1, on_exhausted="continue")
        for count in range(1, 6):
            assert seqs(proc.claim()) == [0]
            proc.nack()
            assert proc.info().attempts == count
        assert proc.info().status == "active"

    def test_no_limit_never_disables(self, hr: Any) -> None:
        fill(hr, 1)
        proc = hr.procs.create("p", "t", max_attempts=-1)
        for _ in range(20):
            proc.claim().nack()
        assert proc.info().status == "active"

    def test_a_changed_limit_applies_immediately(self, hr: Any) -> None:
        fill(hr, 1)
        proc = hr.procs.create("p", "t")
        proc.claim().nack()
        proc.update(max_attempts=2)
        proc.claim().nack()
        assert proc.info().status == "disabled"

    def _dead_lettering(self, hr: Any, count: int = 5, **settings: Any) -> Any:
        hr.commit_many("t", [{"n": n} for n in range(count)], headers={"h": "x"})
        return hr.procs.create(
            "p", "t", on_exhausted="dead_letter", **{"max_attempts": 2, **settings}
        )

    def test_a_named_culprit_becomes_a_dead_letter_alone(self, hr: Any) -> None:
        """The other records are delivered again. The dead letter describes the failure."""
        proc = self._dead_lettering(hr)
        for _ in range(2):
            claim = proc.claim(count=5)
            assert seqs(claim) == [0, 1, 2, 3, 4]
            claim.nack(failed=claim[2], error="bad n")
        [letter] = hr.range("p-dead")
        assert letter.body == {
            "proc": "p",
            "topic": "t",
            "id": claim[2].id,
            "body": {"n": 2},
            "headers": {"h": "x"},
            "error": "bad n",
            "attempts": 2,
        }
        claim = proc.claim(count=10)
        assert seqs(claim) == [0, 1, 3, 4]
        claim.ack()
        assert proc.lag().records == 0
        assert proc.info().status == "active"

    @pytest.mark.parametrize("strategy", ["disable", "continue", "dead_letter"])
    def test_a_final_failure_is_a_dead_letter_immediately(self, hr: Any, strategy: Any) -> None:
        """The limit and the strategy do not matter, and the settings stay as they are."""
        hr.commit_many("t", [{"n": n} for n in range(3)])
        proc = hr.procs.create("p", "t", max_attempts=-1, on_exhausted=strategy)
        proc.claim(count=3).nack()
        claim, ops = proc.claim(count=3), StoreOps(hr)
        ops.procs.nack("p", claim.token, 1, "bad", is_final=True)
        [letter] = hr.range("p-dead")
        assert (letter.body["body"], letter.body["error"]) == ({"n": 1}, "bad")
        assert letter.body["attempts"] == 2
        info = proc.info()
        assert (info.status, info.attempts, info.max_attempts) == ("active", 0, -1)
        assert info.on_exhausted == strategy
        claim = proc.claim(count=3)
        assert seqs(claim) == [0, 2]
        ops.procs.nack("p", claim.token, None, "no space", is_final=True)
        assert proc.info().attempts == 1
        assert seqs(proc.claim(count=3)) == [0, 2]

    def test_dead_letters_do_not_count_towards_a_claim(self, hr: Any) -> None:
        """A claim of n records returns n records, however many dead letters lie between them."""
        proc = self._dead_lettering(hr, max_attempts=1)
        claim = proc.claim(count=5)
        claim.nack(failed=claim[1])
        claim = proc.claim(count=3)
        assert seqs(claim) == [0, 2, 3]
        claim.ack()
        assert seqs(proc.claim(count=3)) == [4]

    def test_a_claim_skips_a_dead_first_record(self, hr: Any) -> None:
        proc = self._dead_lettering(hr, max_attempts=1)
        claim = proc.claim(count=2)
        claim.nack(failed=claim[0])
        assert proc.info().position == 1
        assert seqs(proc.claim(count=2)) == [1, 2]

    def test_several_dead_letters_one_after_the_other(self, hr: Any) -> None:
        proc = self._dead_lettering(hr, max_attempts=1)
        for dead in (3, 1, 0, 4, 2):
            claim = proc.claim(count=5)
            [failed] = [record for record in claim if record.seq == dead]
            claim.nack(failed=failed)
        assert proc.claim() is None
        assert [body["body"]["n"] for body in bodies(hr.range("p-dead"))] == [3, 1, 0, 4, 2]
        assert proc.lag().records == 0
        hr.procs.wait_idle("p", timeout=1)
        fill(hr, 1)
        assert seqs(proc.claim(count=5)) == [5]

    def test_lag_does_not_count_dead_letters(self, hr: Any) -> None:
        proc = self._dead_lettering(hr, max_attempts=1)
        claim = proc.claim(count=5)
        claim.nack(failed=claim[3])
        assert proc.lag().records == 4

    def test_a_single_record_is_its_own_culprit(self, hr: Any, clock: FakeClock) -> None:
        """This also holds if the worker just vanishes."""
        proc = self._dead_lettering(hr)
        proc.claim()
        clock.advance(10)
        proc.claim()
        clock.advance(10)
        assert seqs(proc.claim()) == [1]
        [letter] = hr.range("p-dead")
        assert letter.body["body"] == {"n": 0}
        assert "expired" in letter.body["error"]

    def test_among_several_suspects_only_the_culprit_dies(self, hr: Any) -> None:
        """If no culprit is named, the suspects are delivered one by one until it is found."""
        proc = self._dead_lettering(hr, count=6)
        handled = []
        for _ in range(30):
            claim = proc.claim(count=4)
            if claim is None:
                break
            if any(record.body["n"] == 2 for record in claim):
                claim.nack(error="poison")
            else:
                handled += seqs(claim)
                claim.ack()
        assert handled == [0, 1, 3, 4, 5]
        assert [body["body"]["n"] for body in bodies(hr.range("p-dead"))] == [2]

    @pytest.mark.parametrize("seq", [0, 3, 4, 99])
    def test_a_culprit_must_be_in_the_claim(self, hr: Any, seq: int) -> None:
        """A culprit that was acked, lies outside of the claim or is already dead changes
        nothing."""
        proc = self._dead_lettering(hr, max_attempts=1)
        proc.claim().ack()
        claim = proc.claim(count=3)
        claim.nack(failed=claim[2])
        claim = proc.claim(count=2)
        before = proc.info()
        with pytest.raises(InvalidOption, match=f":{seq} is not in this claim"):
            claim.nack(failed=Record("t", seq, 0, {}, {}))
        assert proc.info() == before
        claim.ack()

    @pytest.mark.parametrize("failed", [Record("u", 0, 0, {}, {}), "x", 0], ids=repr)
    def test_a_culprit_is_a_record_of_the_topic(self, hr: Any, failed: Any) -> None:
        proc = self._dead_lettering(hr, max_attempts=1)
        claim = proc.claim()
        with pytest.raises(InvalidOption) as caught:
            claim.nack(failed=failed)
        assert caught.value.option == "failed"
        claim.ack()

    def test_the_longest_name_can_have_dead_letters(self, hr: Any) -> None:
        fill(hr, 1)
        name = "x" * 195
        proc = hr.procs.create(name, "t", max_attempts=1, on_exhausted="dead_letter")
        proc.claim().nack()
        assert hr.topic(f"{name}-dead").length() == 1

    @pytest.mark.parametrize("text", ["nul \0 inside", "\ud800 lone", "", "x" * 10_000])
    def test_any_text_may_be_an_error(self, hr: Any, text: str) -> None:
        """Errors quote file names and worse."""
        proc = self._dead_lettering(hr, max_attempts=1)
        proc.claim().nack(error=text)
        kept = hr.range("p-dead")[0].body["error"]
        assert len(kept) == len(text)
        assert proc.info().last_error == kept

    def test_a_proc_may_read_its_own_dead_letters(self, hr: Any, clock: FakeClock) -> None:
        hr.commit("p-dead", {"n": 0})
        proc = hr.procs.create("p", "p-dead", max_attempts=1, on_exhausted="dead_letter")
        proc.claim()
        clock.advance(10)
        assert seqs(proc.claim()) == [1]

    def test_below_the_limit_nothing_dies(self, hr: Any) -> None:
        proc = self._dead_lettering(hr)
        claim = proc.claim(count=2)
        claim.nack(failed=claim[0])
        with pytest.raises(UnknownTopic):
            hr.range("p-dead")
        assert seqs(proc.claim()) == [0]

    def test_dead_letters_can_be_read_by_a_proc(self, hr: Any) -> None:
        proc = self._dead_lettering(hr, max_attempts=1)
        proc.claim().nack(error="first")
        rescue = hr.procs.create("rescue", "p-dead")
        assert bodies(rescue.claim())[0]["error"] == "first"
