"""Several operations as one: ``transaction``."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest

from headrace.errors import (
    ClaimLost,
    InvalidBody,
    InvalidTopicName,
    KeyReused,
    NotConnected,
    StoreBusy,
    UnknownTopic,
)
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Connect, Contract, bodies, fill, seqs


class Undo(Exception):
    """Raised by tests to leave a block."""


class TransactionContract(Contract):
    """All or none, whatever the operations are, if the store ``supports_transactions``."""

    needed_parts = frozenset({"transactions"})

    def test_a_block_is_applied_when_it_ends(
        self, hr: Any, connect: Connect, clock: FakeClock
    ) -> None:
        with hr.transaction() as tx:
            tx.commit("a", {"n": 1})
            tx.commit([("b", {"n": 2}), ("a", {"n": 3})])
            tx.commit_many("c", [{"n": 4}, {"n": 5}])
        other = connect()
        assert bodies(other.range("a")) == [{"n": 1}, {"n": 3}]
        assert bodies(other.range("b")) == [{"n": 2}]
        assert bodies(other.range("c")) == [{"n": 4}, {"n": 5}]
        assert {record.ts for record in other.range("a")} == {clock.now}

    def test_an_exit_stack_ends_a_transaction(self, hr: Any) -> None:
        """``ExitStack`` looks the methods up on the class."""
        with ExitStack() as stack:
            stack.enter_context(hr.transaction()).commit("a", {})
        with pytest.raises(Undo), ExitStack() as stack:
            stack.enter_context(hr.transaction()).commit("a", {})
            raise Undo
        assert hr.topic("a").length() == 1

    def test_an_exception_rolls_everything_back(self, hr: Any) -> None:
        """Numbers as well: the next record gets the next number."""
        fill(hr, 2, "a")
        with pytest.raises(Undo), hr.transaction() as tx:
            tx.commit("a", {"lost": 1})
            tx.commit("new", {"lost": 2})
            tx.procs.create("p", "a")
            raise Undo
        assert [info.name for info in hr.topics.list()] == ["a"]
        assert hr.procs.list() == []
        assert hr.commit("a", {}).endswith("-2")

    def test_a_receipt_gets_the_ids_afterwards(self, hr: Any, clock: FakeClock) -> None:
        fill(hr, 2, "a")
        clock.advance(1)
        with hr.transaction() as tx:
            one = tx.commit("a", {"n": 0})
            several = tx.commit([("b", {}), ("a", {"n": 1}), ("b", {})])
            many = tx.commit_many("a", [{"n": 2}, {"n": 3}])
            nothing = tx.commit_many("a", [])
        now = clock.now
        assert hr.resolve(one) == [f"{now}-2"]
        assert hr.resolve(several) == [f"{now}-0", f"{now}-3", f"{now}-1"]
        assert hr.resolve(many) == [f"{now}-4", f"{now}-5"]
        assert hr.resolve(nothing) == []
        assert [record.id for record in hr.range("a", ":2")] == [
            *hr.resolve(one),
            hr.resolve(several)[1],
            *hr.resolve(many),
        ]

    def test_a_receipt_is_valid_after_more_commits(self, hr: Any, connect: Connect) -> None:
        """Also of another client."""
        with hr.transaction() as tx:
            receipt = tx.commit("a", {})
        for _ in range(5):
            fill(hr, 3, "a")
        assert connect().resolve(receipt) == [hr.range("a")[0].id]

    def test_large_commits_in_a_transaction(self, hr: Any) -> None:
        """They are split into rows and still numbered in order."""
        given = [{"n": n, "fill": "x" * 300} for n in range(1500)]
        with hr.transaction() as tx:
            first = tx.commit_many("a", given)
            second = tx.commit_many("a", given)
        records = hr.range("a")
        assert bodies(records) == given + given
        assert [record.id for record in records] == [*hr.resolve(first), *hr.resolve(second)]

    def test_headers_and_times_are_as_outside(self, hr: Any, clock: FakeClock) -> None:
        clock.advance(60)
        hr.commit("ahead", {})
        clock.advance(-60)
        with hr.transaction() as tx:
            tx.commit("ahead", {}, headers={"h": "1"})
            tx.commit("other", {})
        assert hr.range("ahead")[-1].headers == {"h": "1"}
        assert hr.range("ahead")[-1].ts == clock.now + 60_000

    def test_claim_ack_and_commit_in_one(self, hr: Any) -> None:
        fill(hr, 4, "in")
        hr.procs.create("p", "in")
        with hr.transaction() as tx:
            claim = tx.proc("p").claim(count=2)
            tx.commit("out", {"sum": sum(record.body["n"] for record in claim)})
            assert claim.ack() == f"{claim[0].id}..{claim[-1].id}"
        assert bodies(hr.range("out")) == [{"sum": 1}]
        assert seqs(hr.proc("p").claim(count=9)) == [2, 3]

    def test_a_rolled_back_ack_did_not_happen(self, hr: Any) -> None:
        fill(hr, 2, "in")
        claim = hr.procs.create("p", "in").claim()
        with pytest.raises(Undo), hr.transaction() as tx:
            claim.using(tx).ack()
            tx.commit("out", {})
            raise Undo
        assert hr.proc("p").info().claimed is not None
        with pytest.raises(UnknownTopic):
            hr.topic("out").length()
        claim.ack()

    def test_ack_commit_inside(self, hr: Any, clock: FakeClock) -> None:
        fill(hr, 2, "in")
        claim = hr.procs.create("p", "in").claim()
        with hr.transaction() as tx:
            done = claim.using(tx).ack_commit([("out", {"n": 1})])
            tx.commit("out", {"n": 2})
        ids = done.ids if done.ids is not None else hr.resolve(done.receipt)
        assert ids == [f"{clock.now}-0"]
        assert bodies(hr.range("out")) == [{"n": 1}, {"n": 2}]
        again = claim.ack_commit([("out", {"n": 1})])
        assert (again.ids or hr.resolve(again.receipt)) == ids
        assert hr.topic("out").length() == 2

    def test_a_refused_operation_leaves_no_trace(self, hr: Any) -> None:
        fill(hr, 2, "in")
        hr.commit("a", {"n": 0}, key="k")
        stale = hr.procs.create("p", "in").claim()
        hr.proc("p").nack()
        with hr.transaction() as tx:
            tx.commit("a", {"n": 1})
            with pytest.raises(ClaimLost):
                stale.using(tx).ack_commit([("lost", {})])
            with pytest.raises(KeyReused):
                tx.commit("lost", {}, key="k")
            with pytest.raises(InvalidTopicName):
                tx.commit("no good", {})
            with pytest.raises(InvalidBody):
                tx.commit("a", 1)
            with pytest.raises(UnknownTopic):
                tx.range("lost")
            tx.commit("a", {"n": 2})
        assert bodies(hr.range("a")) == [{"n": 0}, {"n": 1}, {"n": 2}]
        assert [info.name for info in hr.topics.list()] == ["a", "in"]

    def test_keys_are_applied_once_across_and_within(self, hr: Any) -> None:
        with hr.transaction() as tx:
            first = tx.commit("a", {"n": 1}, key="k")
            again = tx.commit("a", {"n": 1}, key="k")
        assert hr.resolve(first) == hr.resolve(again) == [hr.commit("a", {"n": 1}, key="k")]
        with hr.transaction() as tx:
            assert hr.resolve(first) == self._ids(hr, tx.commit("a", {"n": 1}, key="k"))
        assert hr.topic("a").length() == 1

    def test_a_rolled_back_key_is_free(self, hr: Any) -> None:
        with pytest.raises(Undo), hr.transaction() as tx:
            tx.commit("a", {"n": 1}, key="k")
            raise Undo
        hr.commit("a", {"n": 2}, key="k")
        assert bodies(hr.range("a")) == [{"n": 2}]

    def test_an_empty_block_is_fine(self, hr: Any) -> None:
        with hr.transaction():
            pass
        assert hr.topics.list() == []

    def test_reads_inside_see_stored_records(self, hr: Any) -> None:
        fill(hr, 3, "a")
        with hr.transaction() as tx:
            assert seqs(tx.range("a")) == [0, 1, 2]
            assert tx.topic("a").length() == 3
            tx.commit("a", {})
            expected = 3 if hr.capabilities.numbers_at_commit else 4
            assert tx.topic("a").length() == expected
        assert hr.topic("a").length() == 4

    def test_a_finished_transaction_refuses_operations(self, hr: Any) -> None:
        with hr.transaction() as tx:
            proc = tx.procs.create("p", "a")
        for use in (lambda: tx.commit("a", {}), tx.topics.list, proc.claim):
            with pytest.raises(NotConnected, match="transaction is over"):
                use()

    def test_a_plain_operation_inside_never_hangs(self, hr: Any) -> None:
        """It is refused if it would wait for its own transaction. Otherwise it works
        immediately."""
        with hr.transaction() as tx:
            tx.commit("a", {})
            try:
                hr.commit("b", {})
            except StoreBusy as error:
                assert "transaction open" in str(error)
            else:
                assert hr.topic("b").length() == 1
        assert hr.topic("a").length() == 1

    def test_two_transactions_one_after_the_other(self, hr: Any, connect: Connect) -> None:
        for client in (hr, connect()):
            for n in range(3):
                with client.transaction() as tx:
                    tx.commit("a", {"n": n})
        assert bodies(hr.range("a")) == [{"n": n} for n in (0, 1, 2, 0, 1, 2)]

    @staticmethod
    def _ids(hr: Any, receipt: Any) -> Any:
        return receipt.ids if receipt.ids is not None else hr.resolve(receipt)
