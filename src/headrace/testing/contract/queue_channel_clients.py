"""Channels through the public client."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.contract.items import Deleted
from headrace.core.channels import ChannelInfo
from headrace.core.documents import Doc
from headrace.core.where import where
from headrace.errors import InvalidKeyValues, InvalidOption, ItemGone, ItemLost
from headrace.model.query.key_values import KeyValues
from headrace.model.query.queries import Query
from headrace.testing.contract.base import Connect, Contract, needs
from headrace.testing.contract.queue_clients import soon

LINUX = {"repo": "willow", "branch": "main", "os": "linux"}
MAC = {"repo": "willow", "branch": "main", "os": "mac"}


class ChannelClientContract(Contract):
    """Channels through queue references, blocking and async."""

    @pytest.fixture
    def q(self, hr: Any) -> Any:
        return hr.queues.create("commits")

    @needs("channels")
    def test_a_selection_is_registered(self, q: Any) -> None:
        """A claim returns the same with and without registration. Only queries are accepted."""
        q.push_many([1, 2], channel={"os": "linux"})
        q.push(3, channel={"os": "mac"})
        q.selections.register(where(os="linux"))
        assert q.selections.list() == [where(os="linux")]
        assert [item.payload for item in q.claim(9, select=where(os="linux"))] == [1, 2]
        assert q.selections.forget(where(os="linux"))
        assert (q.selections.list(), q.selections.forget(where(os="linux"))) == ([], False)
        with pytest.raises(InvalidOption, match="use where"):
            q.selections.register({"os": "linux"})

    def test_a_channel_is_named_by_key_values(self, hr: Any, q: Any) -> None:
        """The values may be plain or typed. The item shows them."""
        hr.push("commits", 1, channel=LINUX)
        q.push_many([2, 3], channel=KeyValues.of(MAC))
        q.push_many([Doc(4, channel=LINUX), Doc(5, channel=MAC)])
        q.push(6)
        found = {item.payload: item.channel for item in q.claim(10)}
        linux, mac = KeyValues.of(LINUX), KeyValues.of(MAC)
        assert found == {1: linux, 2: mac, 3: mac, 4: linux, 5: mac, 6: None}

    def test_a_claim_selects_channels(self, q: Any) -> None:
        """By a query over the key-values."""
        q.push_many([1, 2], channel=LINUX)
        q.push_many([3, 4], channel=MAC)
        [first] = q.claim(select=where(os="linux"))
        assert first.payload == 1
        assert [item.payload for item in q.claim(9, select=where(branch="main"))] == [3, 4, 2]
        assert q.claim(9, select=Query()) == []

    def test_orders_of_a_claim(self, q: Any) -> None:
        """Fair, with a quantum, or in the order of the line."""
        q.push_many([1, 2, 3], channel=LINUX)
        q.push_many([4, 5], channel=MAC)
        assert [i.payload for i in q.claim(2, select=Query(), quantum=1)] == [1, 4]
        assert [i.payload for i in q.claim(9, select=Query(), order="line")] == [2, 3, 5]

    @pytest.mark.parametrize(
        "options",
        [{"select": {"os": "linux"}}, {"select": "os"}, {"order": "oldest"}, {"quantum": 0}],
        ids=str,
    )
    def test_an_invalid_selection_is_refused(self, q: Any, options: Any) -> None:
        """The error names what is wrong. An invalid selection never selects everything."""
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
        assert hr.queues.list() == []

    def test_a_waiting_claim_sees_a_new_channel(self, q: Any, connect: Connect) -> None:
        """Only a channel that it selects ends the wait."""
        other = connect()

        def push() -> None:
            other.push("commits", "mac", channel=MAC)
            other.push("commits", "linux", channel=LINUX)

        with soon(push):
            [item] = q.claim(select=where(os="linux"), wait=20)
        assert item.payload == "linux"

    @needs("channels")
    def test_channels_are_listed(self, q: Any) -> None:
        """All, by query, or one."""
        q.push_many([1, 2], channel=LINUX)
        q.push(3, channel=MAC)
        q.claim(select=where(os="mac"))
        linux = ChannelInfo(key_values=KeyValues.of(LINUX), waiting=2)
        mac = ChannelInfo(key_values=KeyValues.of(MAC), active=1)
        assert q.channels.list() == [linux, mac]
        assert q.channels.list(where(os="mac")) == [mac]
        assert q.channels.list(limit=1) == [linux]
        assert q.channels.list(after=linux.key_values) == [mac]
        assert q.channels.get(LINUX) == linux
        assert q.channels.get({"os": "linux"}) == ChannelInfo(
            key_values=KeyValues.of({"os": "linux"})
        )

    @needs("channels")
    def test_the_worker_of_a_deleted_item_is_notified(self, q: Any) -> None:
        """Any number of channels can be deleted. The holder of a claimed item learns that it was
        deleted."""
        q.push_many([Doc(n, channel={"n": n}) for n in range(205)])
        q.push(1, channel=LINUX)
        [one, two] = q.claim(2, select=where(n__lt=2), quantum=1)
        assert q.channels.delete(where(n__gte=0)) == Deleted(205, 205)
        assert len(q.channels.list()) == 1
        with pytest.raises(ItemGone) as caught:
            one.complete()
        assert isinstance(caught.value, ItemLost)
        assert (caught.value.queue, caught.value.item) == ("commits", one.id)
        with pytest.raises(ItemGone):
            two.extend()
        [settled] = q.settle([two.outcome("complete")])
        assert (settled.state, settled.is_lost) == ("gone", True)

    @needs("channels")
    def test_deleting_channels_needs_a_selection(self, q: Any) -> None:
        """Nothing is deleted by mistake."""
        q.push(1, channel=LINUX)
        with pytest.raises(InvalidOption):
            q.channels.delete(None)
        with pytest.raises(InvalidOption):
            q.channels.delete(LINUX)
        assert q.channels.get(LINUX).waiting == 1

    def test_strict_channels(self, hr: Any) -> None:
        """A setting of the queue."""
        q = hr.queues.create("strict", serial=True, exist_ok=True)
        q.push_many([1, 2], channel=LINUX)
        [item] = q.claim(5)
        assert q.claim(5) == []
        item.complete()
        assert [item.payload for item in q.claim(5)] == [2]

    @needs("channels", "transactions")
    def test_channels_in_a_transaction(self, hr: Any, q: Any) -> None:
        """A channel appears when the transaction commits, and not at all if it fails."""
        with hr.transaction() as tx:
            tx.push("commits", 1, channel=LINUX)
        with pytest.raises(ZeroDivisionError), hr.transaction() as tx:
            tx.push("commits", 2, channel=MAC)
            tx.push("commits", 3, channel={"x": 1 / 0})
        assert [info.waiting for info in q.channels.list()] == [1]
        assert [item.payload for item in q.claim(9, select=Query())] == [1]
