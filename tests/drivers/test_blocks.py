"""``with`` blocks of transactions, locks and slots end with the exception raised in them."""

from contextlib import AbstractContextManager, ExitStack
from typing import Any

import pytest

import headrace


@pytest.mark.parametrize("error", [StopIteration, StopAsyncIteration, KeyError, GeneratorExit])
@pytest.mark.parametrize("title", ["transaction", "lock", "slots"])
def test_a_block_raises_its_own_exception(
    store_url: str, title: str, error: type[BaseException]
) -> None:
    """The very exception, through an ``ExitStack`` too. What the block held is free."""
    raised = error("of the block")

    with headrace.connect(store_url) as hr:

        def begin() -> AbstractContextManager[Any]:
            if title == "transaction":
                return hr.transaction()
            if title == "lock":
                return hr.lock({"site": "shop"}, lease="1h", wait=0)
            return hr.slots({"site": "shop"}, 1, lease="1h", wait=0).acquire()

        def plainly() -> None:
            with begin() as held:
                if title == "transaction":
                    held.push("q", 1)
                raise raised

        def by_a_stack() -> None:
            with ExitStack() as stack:
                stack.enter_context(begin())
                raise raised

        for act in (plainly, by_a_stack):
            with pytest.raises(error) as caught:
                act()
            assert caught.value is raised
        assert not hr.locks.list()
        assert "q" not in [queue.name for queue in hr.queues.list()]
        with begin():
            pass
