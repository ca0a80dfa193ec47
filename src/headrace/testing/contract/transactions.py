"""Several operations as one: ``transaction``."""

from __future__ import annotations

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
    """All or none, whatever the operations; where the store ``composes``."""

    @pytest.fixture(autouse=True)
    def _composes(self, hr: Any) -> None:
        assert hr.capabilities.composes, "a store that does not compose runs no such tests"

    def test_what_the_block_did_is_there_when_it_ends(
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

    def test_an_exception_takes_everything_back(self, hr: Any) -> None:
        """Numbers too: the next record gets the next number."""
        fill(hr, 2, "a")
        with pytest.raises(Undo), hr.transaction() as tx:
            tx.commit("a", {"lost": 1})
            tx.commit("new", {"lost": 2})
            tx.proc("p", topic="a")
            raise Undo
        assert [info.name for info in hr.topics()] == ["a"]
        assert hr.procs() == []
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
        assert hr.ids(one) == [f"{now}-2"]
        assert hr.ids(several) == [f"{now}-0", f"{now}-3", f"{now}-1"]
        assert hr.ids(many) == [f"{now}-4", f"{now}-5"]
        assert hr.ids(nothing) == []
        assert [record.id for record in hr.range("a", ":2")] == [
            *hr.ids(one),
            hr.ids(several)[1],
            *hr.ids(many),
        ]

    def test_a_receipt_is_good_after_more_commits(self, hr: Any, connect: Connect) -> None:
        """Also in another client."""
        with hr.transaction() as tx:
            receipt = tx.commit("a", {})
        for _ in range(5):
            fill(hr, 3, "a")
        assert connect().ids(receipt) == [hr.range("a")[0].id]

    def test_large_commits_in_a_transaction(self, hr: Any) -> None:
        """Split into rows, numbered in order all the same."""
        given = [{"n": n, "fill": "x" * 300} for n in range(1500)]
        with hr.transaction() as tx:
            first = tx.commit_many("a", given)
            second = tx.commit_many("a", given)
        records = hr.range("a")
        assert bodies(records) == given + given
        assert [record.id for record in records] == [*hr.ids(first), *hr.ids(second)]

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
        hr.proc("p", topic="in")
        with hr.transaction() as tx:
            claim = tx.proc("p").claim(count=2)
            tx.commit("out", {"sum": sum(record.body["n"] for record in claim)})
            assert claim.ack() == f"{claim[0].id}..{claim[-1].id}"
        assert bodies(hr.range("out")) == [{"sum": 1}]
        assert seqs(hr.proc("p").claim(count=9)) == [2, 3]

    def test_a_rolled_back_ack_did_not_happen(self, hr: Any) -> None:
        fill(hr, 2, "in")
        claim = hr.proc("p", topic="in").claim()
        with pytest.raises(Undo), hr.transaction() as tx:
            tx.proc("p").ack(claim.token)
            tx.commit("out", {})
            raise Undo
        assert hr.proc("p").inspect().claimed is not None
        with pytest.raises(UnknownTopic):
            hr.length("out")
        claim.ack()

    def test_ack_commit_inside(self, hr: Any, clock: FakeClock) -> None:
        fill(hr, 2, "in")
        claim = hr.proc("p", topic="in").claim()
        with hr.transaction() as tx:
            done = tx.proc("p").ack_commit(claim.token, [("out", {"n": 1})])
            tx.commit("out", {"n": 2})
        ids = done.ids if done.ids is not None else hr.ids(done.receipt)
        assert ids == [f"{clock.now}-0"]
        assert bodies(hr.range("out")) == [{"n": 1}, {"n": 2}]
        again = hr.proc("p").ack_commit(claim.token, [("out", {"n": 1})])
        assert (again.ids or hr.ids(again.receipt)) == ids
        assert hr.length("out") == 2

    def test_a_refused_operation_leaves_no_trace_and_the_rest_goes_on(self, hr: Any) -> None:
        fill(hr, 2, "in")
        hr.commit("a", {"n": 0}, key="k")
        stale = hr.proc("p", topic="in").claim()
        hr.proc("p").reclaim()
        with hr.transaction() as tx:
            tx.commit("a", {"n": 1})
            with pytest.raises(ClaimLost):
                tx.proc("p").ack_commit(stale.token, [("lost", {})])
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
        assert [info.name for info in hr.topics()] == ["a", "in"]

    def test_keys_count_once_across_and_within(self, hr: Any) -> None:
        with hr.transaction() as tx:
            first = tx.commit("a", {"n": 1}, key="k")
            again = tx.commit("a", {"n": 1}, key="k")
        assert hr.ids(first) == hr.ids(again) == [hr.commit("a", {"n": 1}, key="k")]
        with hr.transaction() as tx:
            assert hr.ids(first) == self._ids(hr, tx.commit("a", {"n": 1}, key="k"))
        assert hr.length("a") == 1

    def test_a_rolled_back_key_is_free(self, hr: Any) -> None:
        with pytest.raises(Undo), hr.transaction() as tx:
            tx.commit("a", {"n": 1}, key="k")
            raise Undo
        hr.commit("a", {"n": 2}, key="k")
        assert bodies(hr.range("a")) == [{"n": 2}]

    def test_an_empty_block_is_fine(self, hr: Any) -> None:
        with hr.transaction():
            pass
        assert hr.topics() == []

    def test_what_is_read_inside_is_what_is_there(self, hr: Any) -> None:
        fill(hr, 3, "a")
        with hr.transaction() as tx:
            assert seqs(tx.range("a")) == [0, 1, 2]
            assert tx.length("a") == 3
            tx.commit("a", {})
            expected = 3 if hr.capabilities.numbers_at_commit else 4
            assert tx.length("a") == expected
        assert hr.length("a") == 4

    def test_a_transaction_that_is_over_refuses(self, hr: Any) -> None:
        with hr.transaction() as tx:
            proc = tx.proc("p", topic="a")
        for use in (lambda: tx.commit("a", {}), tx.topics, proc.claim):
            with pytest.raises(NotConnected, match="transaction is over"):
                use()

    def test_a_plain_operation_inside_is_refused_where_it_would_wait_for_itself(
        self, hr: Any
    ) -> None:
        """Or it works at once; it never hangs."""
        with hr.transaction() as tx:
            tx.commit("a", {})
            try:
                hr.commit("b", {})
            except StoreBusy as error:
                assert "transaction open" in str(error)
            else:
                assert hr.length("b") == 1
        assert hr.length("a") == 1

    def test_two_transactions_one_after_the_other(self, hr: Any, connect: Connect) -> None:
        for client in (hr, connect()):
            for n in range(3):
                with client.transaction() as tx:
                    tx.commit("a", {"n": n})
        assert bodies(hr.range("a")) == [{"n": n} for n in (0, 1, 2, 0, 1, 2)]

    @staticmethod
    def _ids(hr: Any, receipt: Any) -> Any:
        return receipt.ids if receipt.ids is not None else hr.ids(receipt)
