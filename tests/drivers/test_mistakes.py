"""Slips of users that Python would report in words of ours: the error says what to write."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from typing import Any

import pytest

import headrace
from headrace.errors import InvalidKeyValues, InvalidOption


def test_a_transaction_is_entered_first() -> None:
    with headrace.connect("memory://") as hr:
        transaction: Any = hr.transaction()
        with pytest.raises(AttributeError, match=r"`with hr.transaction\(...\) as it:`.*it.push"):
            transaction.push("mail", 1)
        assert copy.copy(transaction) is not None
        with transaction as tx:
            tx.push("mail", 2)
        assert len(hr.queue("mail").claim(2)) == 1


async def fail_in_transaction(hr: headrace.AsyncHeadrace) -> None:
    async with hr.transaction() as tx:
        await tx.push("mail", 3)
        raise ZeroDivisionError


def test_an_async_transaction_is_entered_first() -> None:
    async def run() -> None:
        async with headrace.aconnect("memory://") as hr:
            transaction: Any = hr.transaction()
            with pytest.raises(AttributeError, match=r"`async with hr.transaction\(...\) as it:`"):
                await transaction.push("mail", 1)
            async with transaction as tx:
                await tx.push("mail", 2)
            with pytest.raises(ZeroDivisionError):
                await fail_in_transaction(hr)
            assert [item.payload for item in await hr.queue("mail").claim(3)] == [2]

    asyncio.run(run())


def test_an_async_client_is_awaited_first() -> None:
    async def run() -> None:
        connecting: Any = headrace.aconnect("memory://")
        with pytest.raises(AttributeError, match=r"`hr = await headrace\.aconnect"):
            await connecting.push("mail", 1)
        await (await connecting).close()

    asyncio.run(run())


@pytest.mark.parametrize(
    "push",
    [
        lambda hr: hr.push("mail", 1, dely=3),
        lambda hr: hr.upsert("mail", 1, dely=3),
        lambda hr: hr.push_many("mail", [1], dely=3),
        lambda hr: hr.queue("mail").push(1, dely=3),
    ],
)
def test_an_unknown_option_of_an_item(push: Callable[[Any], object]) -> None:
    with headrace.connect("memory://") as hr:
        with pytest.raises(TypeError, match="an item has no option 'dely': did you mean 'delay'"):
            push(hr)
        assert not hr.queues.list()


def test_an_unknown_setting_of_a_queue() -> None:
    with headrace.connect("memory://") as hr:
        with pytest.raises(InvalidOption, match="no option 'leas': did you mean 'lease'"):
            hr.queues.create("mail", leas=3)  # type: ignore[call-arg]
        with pytest.raises(InvalidOption, match="no option 'zzz': use discipline, lease"):
            hr.queues.create("mail", zzz=3)  # type: ignore[call-arg]


def test_text_in_place_of_key_values() -> None:
    with (
        headrace.connect("memory://") as hr,
        pytest.raises(InvalidKeyValues, match=r"no map of keys to values, like .'customer': 7"),
    ):
        hr.limits.create("customer=*", 3)  # type: ignore[arg-type]
