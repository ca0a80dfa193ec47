"""Claim, ack, ack_commit, extend."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from headrace.core.requests import procs as proc_requests
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
from headrace.testing.contract.queue_base import StoreOps
from headrace.testing.sync_facade import claim_of


class ProcClaimContract(Contract):
    """A proc delivers records in order, one claim at a time. Only an ack moves it."""

    @pytest.fixture
    def proc(self, hr: Any) -> Any:
        """A proc on ten records."""
        fill(hr, 10)
        return hr.procs.create("p", "t")

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
        assert hr.procs.create("empty", "none").claim() is None
        proc.nack()
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
        proc = hr.procs.create("p", "t")
        claim = proc.claim(count=5)
        assert seqs(claim) == [0, 1, 2, 3, 4]
        assert claim.ack() == f"{claim[0].id}..{claim[-1].id}"

    def test_a_proc_has_one_claim_at_a_time(self, connect: Connect, proc: Any) -> None:
        proc.claim()
        assert proc.claim() is None
        assert connect().proc("p").claim() is None

    @pytest.mark.parametrize("operation", ["claim", "claim_span"])
    def test_a_token_gets_its_claim_again(self, hr: Any, proc: Any, operation: str) -> None:
        """A client that lost the answer to a claim gets it again, and nothing else is claimed."""
        claim = getattr(StoreOps(hr).procs, operation)
        limits = {} if operation == "claim_span" else {"max_bytes": 2**20}
        first = claim(proc="p", token="mine", count=3, **limits)
        assert (first.first_seq, first.last_seq) == (0, 2)
        assert claim(proc="p", token="mine", count=3, **limits) == first
        assert claim(proc="p", token="of another", count=3, **limits).state == "busy"

    def test_ack_returns_the_first_and_the_last_id(self, proc: Any) -> None:
        claim = proc.claim()
        assert claim.ack() == f"{claim[0].id}..{claim[0].id}"
        claim = proc.claim(count=2)
        assert claim.ack() == f"{claim[0].id}..{claim[1].id}"

    def test_a_repeated_ack_gets_the_same_answer(self, proc: Any) -> None:
        """A caller that lost the answer may repeat the call."""
        claim = proc.claim(count=2)
        assert claim.ack() == claim.ack()
        assert seqs(proc.claim()) == [2]

    def test_a_stale_claim_cannot_ack(self, hr: Any, proc: Any, clock: FakeClock) -> None:
        """A late ack must not acknowledge the claim that replaced its own."""
        late = proc.claim(count=2)
        clock.advance(10)
        fresh = proc.claim(count=5)
        assert seqs(fresh) == [0, 1, 2, 3, 4]
        for attempt in (
            late.ack,
            late.extend,
            late.nack,
            lambda: late.ack_commit([("out", {})]),
        ):
            with pytest.raises(ClaimLost) as caught:
                attempt()
            assert caught.value.code == "claim_lost"
            assert caught.value.proc == "p"
        with pytest.raises(UnknownTopic):
            hr.topic("out").length()
        assert fresh.ack() == f"{fresh[0].id}..{fresh[-1].id}"

    def test_an_old_ack_is_stale_after_the_next_one(self, proc: Any) -> None:
        first = proc.claim()
        first.ack()
        proc.claim().ack()
        with pytest.raises(ClaimLost):
            first.ack()

    def test_an_ack_without_a_claim_is_refused(self, hr: Any, proc: Any) -> None:
        with pytest.raises(ClaimLost):
            claim_of(hr, "p", "0" * 32).ack()

    def test_a_claim_can_be_acked_by_another_client(self, connect: Connect, proc: Any) -> None:
        claim = proc.claim(count=3)
        claim_of(connect(), "p", claim.token, list(claim)).ack()
        assert seqs(proc.claim()) == [3]

    def test_an_expired_claim_is_valid_until_it_is_claimed_again(
        self, proc: Any, clock: FakeClock
    ) -> None:
        claim = proc.claim()
        clock.advance(3600)
        assert claim.ack() == f"{claim[0].id}..{claim[0].id}"

    def test_an_expired_claim_is_claimed_again(self, proc: Any, clock: FakeClock) -> None:
        """The new claim may have another count. It counts as an attempt."""
        proc.claim(count=2)
        clock.advance(9.999)
        assert proc.claim() is None
        clock.advance(0.001)
        assert seqs(proc.claim(count=4)) == [0, 1, 2, 3]
        assert proc.info().attempts == 1

    def test_extend_restores_the_full_lease(self, proc: Any, clock: FakeClock) -> None:
        claim = proc.claim()
        before = claim.deadline
        clock.advance(9)
        assert claim.extend() == claim.deadline == before + timedelta(seconds=9)
        clock.advance(9)
        assert proc.claim() is None
        clock.advance(1)
        assert proc.claim() is not None

    def test_without_a_timeout_a_claim_never_expires(self, hr: Any, clock: FakeClock) -> None:
        fill(hr, 1)
        proc = hr.procs.create("p", "t", lease=None)
        claim = proc.claim()
        assert claim.deadline is None
        clock.advance(10**6)
        assert proc.claim() is None
        assert claim.extend() is None
        claim.ack()

    def test_the_timeout_is_a_setting(self, hr: Any, clock: FakeClock) -> None:
        fill(hr, 1)
        proc = hr.procs.create("p", "t", lease=timedelta(milliseconds=5))
        proc.claim()
        clock.advance(0.005)
        assert proc.claim() is not None

    def test_ack_commit_acks_and_commits(self, hr: Any, proc: Any, clock: FakeClock) -> None:
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
        """A filter that drops every record still moves the proc."""
        claim = proc.claim(count=2)
        assert claim.ack_commit([]).ids == []
        assert seqs(proc.claim()) == [2]

    def test_a_repeated_ack_commit_commits_nothing_more(self, hr: Any, proc: Any) -> None:
        claim = proc.claim()
        first = claim.ack_commit([("out", {"n": 1})])
        assert claim.ack_commit([("out", {"n": 1})]) == first
        assert hr.topic("out").length() == 1

    def test_a_repeated_ack_commit_with_other_records_is_refused(self, hr: Any, proc: Any) -> None:
        claim = proc.claim()
        claim.ack_commit([("out", {"n": 1})])
        with pytest.raises(ClaimLost):
            claim.ack_commit([("out", {"n": 2})])
        with pytest.raises(ClaimLost):
            claim.ack()
        assert hr.topic("out").length() == 1
        plain = proc.claim()
        plain.ack()
        with pytest.raises(ClaimLost):
            plain.ack_commit([("out", {"n": 3})])
        assert hr.topic("out").length() == 1

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
        before = proc.info()
        with pytest.raises(error):
            claim.ack_commit(entries)
        assert proc.info() == before
        assert [info.name for info in hr.topics.list()] == ["t"]
        claim.ack()

    @pytest.mark.parametrize("count", [0, -1, 1.5, "2", None, True], ids=repr)
    def test_a_count_is_a_whole_number_from_one_on(self, hr: Any, proc: Any, count: Any) -> None:
        for claim in (lambda: proc.claim(count=count), lambda: hr.procs.claim_any([proc], count)):
            with pytest.raises(InvalidOption) as caught:
                claim()
            assert caught.value.option == "count"
        assert proc.info().claimed is None

    def test_a_claim_is_bounded_in_bytes(
        self, hr: Any, proc: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It shrinks to whole batches, and has at least one."""
        monkeypatch.setattr(proc_requests, "CLAIM_BYTES", 1)
        fill(hr, 5)
        seen = []
        while claim := proc.claim(count=100):
            seen.append(seqs(claim))
            claim.ack()
        assert seen == [list(range(10)), [10, 11, 12, 13, 14]]

    def test_other_clients_see_the_state_of_a_claim(
        self, connect: Connect, proc: Any, clock: FakeClock
    ) -> None:
        claim = proc.claim(count=2)
        info = connect().proc("p").info()
        text = f"{claim[0].id}..{claim[1].id}"
        assert info.claimed == info.last_claimed_range == text
        assert info.claimed_until == claim.deadline
        assert (info.last_acked_range, info.last_acked_at) == ("", None)
        claim.ack()
        info = proc.info()
        assert (info.claimed, info.claimed_until) == (None, None)
        assert (info.last_acked_range, info.position) == (text, 2)

    def test_ranges_follow_the_claims(self, proc: Any) -> None:
        texts = []
        for _ in range(3):
            claim = proc.claim(count=2)
            texts.append(claim.ack())
        info = proc.info()
        assert info.last_claimed_range == info.last_acked_range == texts[2]
        assert info.previous_claimed_range == texts[1]

    def test_claim_any_takes_turns(self, hr: Any, clock: FakeClock) -> None:
        """The proc whose last claim is the oldest comes first, so that no proc starves."""
        procs = []
        for name in ("a", "b", "c"):
            fill(hr, 5, f"t-{name}")
            procs.append(hr.procs.create(name, f"t-{name}"))
        turns = []
        for _ in range(6):
            claim = hr.procs.claim_any(procs, count=2)
            turns.append((claim.proc.name, seqs(claim)))
            clock.advance(1)
            claim.ack()
        assert turns == [
            *[(name, [0, 1]) for name in "abc"],
            *[(name, [2, 3]) for name in "abc"],
        ]

    def test_claim_any_takes_turns_within_a_millisecond(self, hr: Any, connect: Connect) -> None:
        """The clock stands still. Each proc still gets its share, whichever client asks. This
        includes a proc that was claimed directly meanwhile."""
        procs = []
        for name in ("a", "b", "c"):
            fill(hr, 9, f"t-{name}")
            procs.append(hr.procs.create(name, f"t-{name}"))
        clients = [hr, connect()]
        turns = []
        for turn in range(12):
            claim = clients[turn % 2].procs.claim_any(["c", "b", "a"], count=1)
            turns.append(claim.proc.name)
            claim.ack()
            if turn == 5:
                procs[1].claim().ack()
        assert turns == list("abc") * 4

    def test_claim_any_skips_procs_that_cannot_be_claimed(self, hr: Any) -> None:
        """None means that no proc has work, never that a proc with a claim in flight was picked."""
        for name in ("held", "disabled", "empty", "ready"):
            if name != "empty":
                fill(hr, 1, f"t-{name}")
            hr.procs.create(name, f"t-{name}")
        hr.proc("held").claim()
        hr.proc("disabled").disable()
        names = ["held", "disabled", "empty", "ready"]
        assert hr.procs.claim_any(names).proc.name == "ready"
        assert hr.procs.claim_any(names) is None
        assert hr.procs.claim_any("ready") is None
        assert hr.procs.claim_any([]) is None
        with pytest.raises(UnknownProc):
            hr.procs.claim_any(["ready", "nobody"])

    def test_claim_any_sees_the_dead_letter_it_causes(self, hr: Any, clock: FakeClock) -> None:
        fill(hr, 1)
        hr.procs.create("p", "t", max_attempts=1, on_exhausted="dead_letter").claim()
        rescue = hr.procs.create("rescue", "p-dead")
        clock.advance(10)
        assert hr.procs.claim_any(["p", rescue]).proc.name == "rescue"

    def test_claim_any_replaces_an_expired_claim(self, hr: Any, clock: FakeClock) -> None:
        fill(hr, 1)
        proc = hr.procs.create("p", "t", max_attempts=2)
        proc.claim()
        clock.advance(10)
        assert seqs(hr.procs.claim_any([proc])) == [0]
        clock.advance(10)
        assert hr.procs.claim_any([proc]) is None
        assert proc.info().status == "disabled"
        with pytest.raises(ProcDisabled):
            proc.claim()
