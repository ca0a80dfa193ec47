"""Channels as users meet them, through a client."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.contract.items import Deleted
from headrace.core.channels import ChannelInfo
from headrace.core.documents import Doc
from headrace.core.where import where
from headrace.errors import InvalidKeyValues, InvalidOption, ItemGone, ItemLost
from headrace.model.keyvalues import KeyValues
from headrace.model.queries import Query
from headrace.testing.contract.base import Connect, Contract
from headrace.testing.contract.queue_clients import soon

LINUX = {"repo": "willow", "branch": "main", "os": "linux"}
MAC = {"repo": "willow", "branch": "main", "os": "mac"}


class ChannelClientContract(Contract):
    """Channels through queue references, blocking and async."""

    @pytest.fixture
    def q(self, hr: Any) -> Any:
        return hr.queue("commits")

    def test_a_selection_is_registered(self, q: Any) -> None:
        """By hand; claims get the same. Only queries are taken."""
        q.push_many([1, 2], channel={"os": "linux"})
        q.push(3, channel={"os": "mac"})
        q.register_selection(where(os="linux"))
        assert q.selections() == [where(os="linux")]
        assert [item.payload for item in q.claim(9, select=where(os="linux"))] == [1, 2]
        assert q.forget_selection(where(os="linux"))
        assert (q.selections(), q.forget_selection(where(os="linux"))) == ([], False)
        with pytest.raises(InvalidOption, match="use where"):
            q.register_selection({"os": "linux"})

    def test_a_channel_is_named_by_key_values(self, hr: Any, q: Any) -> None:
        """Plain values, or typed ones; the item tells them."""
        hr.push("commits", 1, channel=LINUX)
        q.push_many([2, 3], channel=KeyValues.of(MAC))
        q.push_many([Doc(4, channel=LINUX), Doc.from_dict({"payload": 5, "channel": MAC})])
        q.push(6)
        found = {item.payload: item.channel for item in q.claim(10)}
        linux, mac = KeyValues.of(LINUX), KeyValues.of(MAC)
        assert found == {1: linux, 2: mac, 3: mac, 4: linux, 5: mac, 6: None}

    def test_a_claim_selects(self, q: Any) -> None:
        """By a query over the key-values."""
        q.push_many([1, 2], channel=LINUX)
        q.push_many([3, 4], channel=MAC)
        [first] = q.claim(select=where(os="linux"))
        assert first.payload == 1
        assert [item.payload for item in q.claim(9, select=where(branch="main"))] == [3, 4, 2]
        assert q.claim(9, select=Query()) == []

    def test_orders_of_a_claim(self, q: Any) -> None:
        """In turn with a quantum, or as they stand in line."""
        q.push_many([1, 2, 3], channel=LINUX)
        q.push_many([4, 5], channel=MAC)
        assert [i.payload for i in q.claim(2, select=Query(), quantum=1)] == [1, 4]
        assert [i.payload for i in q.claim(9, select=Query(), order="line")] == [2, 3, 5]

    @pytest.mark.parametrize(
        "options",
        [{"select": {"os": "linux"}}, {"select": "os"}, {"order": "oldest"}, {"quantum": 0}],
        ids=str,
    )
    def test_a_wrong_choice_is_refused(self, q: Any, options: Any) -> None:
        """It names what is wrong, and never selects everything."""
        q.push(1, channel=LINUX)
        with pytest.raises(InvalidOption) as caught:
            q.claim(**{"select": Query(), **options})
        assert caught.value.option in options

    @pytest.mark.parametrize(
        "channel", [{}, {"_os": 1}, {"os": None}, {"os": float("nan")}, "linux", {"k": "x" * 2000}]
    )
    def test_wrong_key_values_are_refused(self, hr: Any, channel: Any) -> None:
        """Nothing is pushed."""
        with pytest.raises(InvalidKeyValues) as caught:
            hr.push("commits", 1, channel=channel)
        assert caught.value.path.startswith("channel")
        assert hr.queues() == []

    def test_a_claim_that_waits_sees_a_new_channel(self, q: Any, connect: Connect) -> None:
        """One that it selects; others do not end its wait."""
        other = connect()

        def push() -> None:
            other.push("commits", "mac", channel=MAC)
            other.push("commits", "linux", channel=LINUX)

        with soon(push):
            [item] = q.claim(select=where(os="linux"), wait=20)
        assert item.payload == "linux"

    def test_channels_are_listed(self, q: Any) -> None:
        """All, or by query, or one."""
        q.push_many([1, 2], channel=LINUX)
        q.push(3, channel=MAC)
        q.claim(select=where(os="mac"))
        linux = ChannelInfo(key_values=KeyValues.of(LINUX), waiting=2)
        mac = ChannelInfo(key_values=KeyValues.of(MAC), active=1)
        assert q.channels() == [linux, mac]
        assert q.channels(where(os="mac")) == [mac]
        assert q.channels(limit=1) == [linux]
        assert q.channels(after=linux.key_values) == [mac]
        assert q.channel(LINUX) == linux
        assert q.channel({"os": "linux"}) == ChannelInfo(key_values=KeyValues.of({"os": "linux"}))

    def test_deleted_channels(self, q: Any) -> None:
        """However many; whoever holds an item of one is told."""
        q.push_many([Doc(n, channel={"n": n}) for n in range(205)])
        q.push(1, channel=LINUX)
        [one, two] = q.claim(2, select=where(n__lt=2), quantum=1)
        assert q.delete_channels(where(n__gte=0)) == Deleted(205, 205)
        assert len(q.channels()) == 1
        with pytest.raises(ItemGone) as caught:
            one.complete()
        assert isinstance(caught.value, ItemLost)
        assert (caught.value.queue, caught.value.item) == ("commits", one.id)
        with pytest.raises(ItemGone):
            two.extend()
        [settled] = q.settle([two.outcome("complete")])
        assert (settled.state, settled.is_lost) == ("gone", True)

    def test_what_to_delete_must_be_said(self, q: Any) -> None:
        """Nothing is deleted by mistake."""
        q.push(1, channel=LINUX)
        with pytest.raises(InvalidOption):
            q.delete_channels(None)
        with pytest.raises(InvalidOption):
            q.delete_channels(LINUX)
        assert q.channel(LINUX).waiting == 1

    def test_strict_channels(self, hr: Any) -> None:
        """A setting of the queue."""
        q = hr.queue("strict", serial=True)
        q.push_many([1, 2], channel=LINUX)
        [item] = q.claim(5)
        assert q.claim(5) == []
        item.complete()
        assert [item.payload for item in q.claim(5)] == [2]

    def test_channels_in_a_transaction(self, hr: Any, q: Any) -> None:
        """Nothing is there before its end, and nothing if it fails."""
        with hr.transaction() as tx:
            tx.push("commits", 1, channel=LINUX)
        with pytest.raises(ZeroDivisionError), hr.transaction() as tx:
            tx.push("commits", 2, channel=MAC)
            tx.push("commits", 3, channel={"x": 1 / 0})
        assert [info.waiting for info in q.channels()] == [1]
        assert [item.payload for item in q.claim(9, select=Query())] == [1]
