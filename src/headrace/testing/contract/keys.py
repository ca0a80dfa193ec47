"""Idempotency keys of commits."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.errors import InvalidOption, KeyReused
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Connect, Contract

DAY = 24 * 3600


class KeyContract(Contract):
    """A commit with a key counts once."""

    def test_the_same_key_and_content_returns_the_first_ids(
        self, hr: Any, clock: FakeClock
    ) -> None:
        first = hr.commit("t", {"n": 1}, key="k")
        clock.advance(5)
        assert hr.commit("t", {"n": 1}, key="k") == first
        assert hr.length("t") == 1

    def test_it_holds_for_lists_and_for_other_clients(self, connect: Connect) -> None:
        entries = [("a", {"n": 1}), ("b", {"n": 2}), ("a", {"n": 3})]
        ids = connect().commit(entries, key="k")
        other = connect()
        assert other.commit(entries, key="k") == ids
        assert (other.length("a"), other.length("b")) == (2, 1)

    def test_other_content_is_refused_and_writes_nothing(self, hr: Any) -> None:
        hr.commit("t", {"n": 1}, key="k")
        for commit in (
            lambda: hr.commit("t", {"n": 2}, key="k"),
            lambda: hr.commit("u", {"n": 1}, key="k"),
            lambda: hr.commit("t", {"n": 1}, key="k", headers={"a": "b"}),
            lambda: hr.commit_many("t", [{"n": 1}, {"n": 1}], key="k"),
        ):
            with pytest.raises(KeyReused) as caught:
                commit()
            assert caught.value.key == "k"
        assert [info.name for info in hr.topics()] == ["t"]
        assert hr.length("t") == 1

    def test_different_keys_are_different_commits(self, hr: Any) -> None:
        assert hr.commit("t", {}, key="a") != hr.commit("t", {}, key="b")

    def test_a_key_is_forgotten_after_a_day(self, hr: Any, clock: FakeClock) -> None:
        hr.commit("t", {"n": 1}, key="k")
        clock.advance(DAY - 0.001)
        hr.commit("t", {"n": 1}, key="k")
        assert hr.length("t") == 1
        clock.advance(0.001)
        hr.commit("t", {"n": 2}, key="k")
        assert hr.length("t") == 2

    def test_a_refused_commit_does_not_take_its_key(self, hr: Any) -> None:
        with pytest.raises(Exception, match="body"):
            hr.commit("t", None, key="k")
        hr.commit("t", {"n": 1}, key="k")
        assert hr.length("t") == 1

    @pytest.mark.parametrize(
        "key", ["", 5, "x" * 501, "a\0b", "\ud800"], ids=lambda key: repr(key)[:10]
    )
    def test_a_key_is_text_of_some_length(self, hr: Any, key: Any) -> None:
        with pytest.raises(InvalidOption) as caught:
            hr.commit("t", {}, key=key)
        assert caught.value.option == "key"
        assert hr.topics() == []
