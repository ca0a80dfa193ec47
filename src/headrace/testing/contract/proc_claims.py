"""Claim, ack, ack_commit, extend."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from headrace.client import calls
from headrace.errors import (
    BodyTooLarge,
    ClaimLost,
    InvalidBody,
    InvalidOption,
    InvalidTopicName,
    ProcDisabled,
    UnknownProc,
    UnknownTopic,
)
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Connect, Contract, bodies, fill, seqs


class ClaimContract(Contract):
    """A proc hands out records in order, one claim at a time, and moves by ack alone."""

    @pytest.fixture
    def proc(self, hr: Any) -> Any:
        """A proc on ten records."""
        fill(hr, 10)
        return hr.proc("p", topic="t")

    def test_a_claim_is_a_sequence_of_records(self, hr: Any, proc: Any) -> None:
        claim = proc.claim(count=3)
        assert list(claim) == hr.range("t", limit=3)
        assert len(claim) == 3
        assert claim[0].id == hr.range("t")[0].id
        assert bodies(claim[1:]) == [{"n": 1}, {"n": 2}]

    def test_one_record_is_a_list_of_one(self, proc: Any) -> None:
        assert seqs(proc.claim()) == [0]

    def test_nothing_to_claim_is_none(self, hr: Any, proc: Any) -> None:
        assert seqs(proc.claim(count=1000)) == list(range(10))
        assert hr.proc("empty", topic="none").claim() is None
        proc.reclaim()
        proc.claim(count=10).ack()
        assert proc.claim() is None

    def test_records_come_in_order_none_skipped_none_twice(self, hr: Any, proc: Any) -> None:
        seen = []
        for count in (1, 3, 2, 9):
            claim = proc.claim(count=count)
            seen += seqs(claim)
            claim.ack()
            fill(hr, 1)
        assert seen == list(range(len(seen)))

    def test_a_claim_crosses_commits(self, hr: Any, clock: FakeClock) -> None:
        for _ in range(3):
            fill(hr, 2)
            clock.advance(1)
        proc = hr.proc("p", topic="t")
        claim = proc.claim(count=5)
        assert seqs(claim) == [0, 1, 2, 3, 4]
        assert claim.ack() == f"{claim[0].id}..{claim[-1].id}"

    def test_while_a_claim_is_out_there_is_nothing(self, connect: Connect, proc: Any) -> None:
        proc.claim()
        assert proc.claim() is None
        assert connect().proc("p").claim() is None

    def test_ack_returns_both_ends_also_for_one_record(self, proc: Any) -> None:
        claim = proc.claim()
        assert claim.ack() == f"{claim[0].id}..{claim[0].id}"
        claim = proc.claim(count=2)
        assert claim.ack() == f"{claim[0].id}..{claim[1].id}"

    def test_the_same_ack_again_gets_the_same_answer(self, proc: Any) -> None:
        """A caller that lost the answer may repeat the question."""
        claim = proc.claim(count=2)
        assert claim.ack() == claim.ack()
        assert seqs(proc.claim()) == [2]

    def test_a_stale_claim_cannot_ack(self, hr: Any, proc: Any, clock: FakeClock) -> None:
        """In PipeProc a late ack acknowledged somebody else's claim."""
        late = proc.claim(count=2)
        clock.advance(10)
        fresh = proc.claim(count=5)
        assert seqs(fresh) == [0, 1, 2, 3, 4]
        for attempt in (
            late.ack,
            late.extend,
            late.reclaim,
            lambda: late.ack_commit([("out", {})]),
        ):
            with pytest.raises(ClaimLost) as caught:
                attempt()
            assert caught.value.code == "claim_lost"
            assert caught.value.proc == "p"
        with pytest.raises(UnknownTopic):
            hr.length("out")
        assert fresh.ack() == f"{fresh[0].id}..{fresh[-1].id}"

    def test_an_old_ack_is_stale_after_the_next_one(self, proc: Any) -> None:
        first = proc.claim()
        first.ack()
        proc.claim().ack()
        with pytest.raises(ClaimLost):
            first.ack()

    def test_an_ack_without_a_claim_is_refused(self, proc: Any) -> None:
        with pytest.raises(ClaimLost):
            proc.ack("0" * 32)
        for token in ("", None, 5):
            with pytest.raises(InvalidOption):
                proc.ack(token)

    def test_a_claim_can_be_acked_by_its_token_from_elsewhere(
        self, connect: Connect, proc: Any
    ) -> None:
        claim = proc.claim(count=3)
        connect().proc("p").ack(claim.token)
        assert seqs(proc.claim()) == [3]

    def test_a_claim_past_its_time_still_stands_until_taken(
        self, proc: Any, clock: FakeClock
    ) -> None:
        claim = proc.claim()
        clock.advance(3600)
        assert claim.ack() == f"{claim[0].id}..{claim[0].id}"

    def test_a_claim_out_of_time_is_handed_out_again(self, proc: Any, clock: FakeClock) -> None:
        """Perhaps with another count; it counts as a reclaim."""
        proc.claim(count=2)
        clock.advance(9.999)
        assert proc.claim() is None
        clock.advance(0.001)
        assert seqs(proc.claim(count=4)) == [0, 1, 2, 3]
        assert proc.inspect().reclaims == 1

    def test_extending_gives_the_full_time_again(self, proc: Any, clock: FakeClock) -> None:
        claim = proc.claim()
        before = claim.deadline
        clock.advance(9)
        assert claim.extend() == claim.deadline == before + timedelta(seconds=9)
        clock.advance(9)
        assert proc.claim() is None
        clock.advance(1)
        assert proc.claim() is not None

    def test_no_timeout_never_takes_a_claim_away(self, hr: Any, clock: FakeClock) -> None:
        fill(hr, 1)
        proc = hr.proc("p", topic="t", reclaim_timeout=None)
        claim = proc.claim()
        assert claim.deadline is None
        clock.advance(10**6)
        assert proc.claim() is None
        assert claim.extend() is None
        claim.ack()

    def test_the_timeout_is_a_setting(self, hr: Any, clock: FakeClock) -> None:
        fill(hr, 1)
        proc = hr.proc("p", topic="t", reclaim_timeout=timedelta(milliseconds=5))
        proc.claim()
        clock.advance(0.005)
        assert proc.claim() is not None

    def test_ack_commit_does_both(self, hr: Any, proc: Any, clock: FakeClock) -> None:
        claim = proc.claim(count=2)
        done = claim.ack_commit(
            [("out", {"n": record.body["n"] + 1}, {"from": record.id}) for record in claim]
            + [("audit", {})]
        )
        assert done.range == f"{claim[0].id}..{claim[1].id}"
        assert done.ids == [f"{clock.now}-0", f"{clock.now}-1", f"{clock.now}-0"]
        assert bodies(hr.range("out")) == [{"n": 1}, {"n": 2}]
        assert hr.range("out")[0].headers == {"from": claim[0].id}
        assert seqs(proc.claim()) == [2]

    def test_ack_commit_of_one_gives_a_list_of_one(self, proc: Any) -> None:
        assert len(proc.claim().ack_commit([("out", {})]).ids) == 1

    def test_ack_commit_of_nothing_is_an_ack(self, proc: Any) -> None:
        """A filter that lets nothing pass still moves on."""
        claim = proc.claim(count=2)
        assert claim.ack_commit([]).ids == []
        assert seqs(proc.claim()) == [2]

    def test_ack_commit_again_commits_nothing_more(self, hr: Any, proc: Any) -> None:
        claim = proc.claim()
        first = claim.ack_commit([("out", {"n": 1})])
        assert claim.ack_commit([("out", {"n": 1})]) == first
        assert hr.length("out") == 1

    def test_ack_commit_again_with_other_records_is_refused(self, hr: Any, proc: Any) -> None:
        claim = proc.claim()
        claim.ack_commit([("out", {"n": 1})])
        with pytest.raises(ClaimLost):
            claim.ack_commit([("out", {"n": 2})])
        with pytest.raises(ClaimLost):
            claim.ack()
        assert hr.length("out") == 1
        plain = proc.claim()
        plain.ack()
        with pytest.raises(ClaimLost):
            plain.ack_commit([("out", {"n": 3})])
        assert hr.length("out") == 1

    def test_ack_commit_to_the_topic_it_reads(self, hr: Any, proc: Any) -> None:
        proc.claim(count=10).ack_commit([("t", {"again": True})])
        assert bodies(proc.claim(count=10)) == [{"again": True}]

    @pytest.mark.parametrize(
        ("entries", "error"),
        [
            ([("no good", {})], InvalidTopicName),
            ([("out", {}), ("out", 1)], InvalidBody),
            ([("out", {"x": "y" * 2_000_000})], BodyTooLarge),
            (("out", {}), InvalidBody),
            ({"out": {}}, InvalidBody),
        ],
        ids=["name", "body", "size", "tuple", "dict"],
    )
    def test_a_refused_ack_commit_changes_nothing(
        self, hr: Any, proc: Any, entries: Any, error: type[Exception]
    ) -> None:
        claim = proc.claim()
        before = proc.inspect()
        with pytest.raises(error):
            claim.ack_commit(entries)
        assert proc.inspect() == before
        assert [info.name for info in hr.topics()] == ["t"]
        claim.ack()

    @pytest.mark.parametrize("count", [0, -1, 1.5, "2", None, True], ids=repr)
    def test_a_count_is_a_whole_number_from_one_on(self, hr: Any, proc: Any, count: Any) -> None:
        for claim in (lambda: proc.claim(count=count), lambda: hr.available_proc([proc], count)):
            with pytest.raises(InvalidOption) as caught:
                claim()
            assert caught.value.option == "count"
        assert proc.inspect().claimed is None

    def test_a_claim_is_bounded_in_bytes(
        self, hr: Any, proc: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It shrinks to whole batches, at least one."""
        monkeypatch.setattr(calls, "CLAIM_BYTES", 1)
        fill(hr, 5)
        seen = []
        while claim := proc.claim(count=100):
            seen.append(seqs(claim))
            claim.ack()
        assert seen == [list(range(10)), [10, 11, 12, 13, 14]]

    def test_the_state_of_a_claim_is_seen_by_all(
        self, connect: Connect, proc: Any, clock: FakeClock
    ) -> None:
        claim = proc.claim(count=2)
        info = connect().proc("p").inspect()
        text = f"{claim[0].id}..{claim[1].id}"
        assert info.claimed == info.last_claimed_range == text
        assert info.claimed_until == claim.deadline
        assert (info.last_acked_range, info.last_acked_at) == ("", None)
        claim.ack()
        info = proc.inspect()
        assert (info.claimed, info.claimed_until) == (None, None)
        assert (info.last_acked_range, info.position) == (text, 2)

    def test_ranges_follow_the_claims(self, proc: Any) -> None:
        texts = []
        for _ in range(3):
            claim = proc.claim(count=2)
            texts.append(claim.ack())
        info = proc.inspect()
        assert info.last_claimed_range == info.last_acked_range == texts[2]
        assert info.previous_claimed_range == texts[1]

    def test_available_proc_takes_turns(self, hr: Any, clock: FakeClock) -> None:
        """Whoever claimed longest ago comes first, so that nobody starves."""
        procs = []
        for name in ("a", "b", "c"):
            fill(hr, 5, f"t-{name}")
            procs.append(hr.proc(name, topic=f"t-{name}"))
        turns = []
        for _ in range(6):
            claim = hr.available_proc(procs, count=2)
            turns.append((claim.proc.name, seqs(claim)))
            clock.advance(1)
            claim.ack()
        assert turns == [
            *[(name, [0, 1]) for name in "abc"],
            *[(name, [2, 3]) for name in "abc"],
        ]

    def test_available_proc_passes_over_those_that_cannot(self, hr: Any) -> None:
        """PipeProc answered 'nothing' when it picked a proc whose claim was out."""
        for name in ("held", "disabled", "empty", "ready"):
            if name != "empty":
                fill(hr, 1, f"t-{name}")
            hr.proc(name, topic=f"t-{name}")
        hr.proc("held").claim()
        hr.proc("disabled").disable()
        names = ["held", "disabled", "empty", "ready"]
        assert hr.available_proc(names).proc.name == "ready"
        assert hr.available_proc(names) is None
        assert hr.available_proc("ready") is None
        assert hr.available_proc([]) is None
        with pytest.raises(UnknownProc):
            hr.available_proc(["ready", "nobody"])

    def test_available_proc_sees_the_dead_letter_it_causes(self, hr: Any, clock: FakeClock) -> None:
        fill(hr, 1)
        hr.proc("p", topic="t", max_reclaims=1, on_max_reclaims_reached="dead_letter").claim()
        rescue = hr.proc("rescue", topic="p-dead")
        clock.advance(10)
        assert hr.available_proc(["p", rescue]).proc.name == "rescue"

    def test_available_proc_takes_over_an_expired_claim(self, hr: Any, clock: FakeClock) -> None:
        fill(hr, 1)
        proc = hr.proc("p", topic="t", max_reclaims=2)
        proc.claim()
        clock.advance(10)
        assert seqs(hr.available_proc([proc])) == [0]
        clock.advance(10)
        assert hr.available_proc([proc]) is None
        assert proc.inspect().status == "disabled"
        with pytest.raises(ProcDisabled):
            proc.claim()
