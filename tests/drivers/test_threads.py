"""Blocking work for async code: what becomes of a caller that is cancelled."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.contract.threads import in_pool


@pytest.mark.parametrize("fails", [False, True])
def test_a_cancellation_is_raised_whatever_the_work_ends_with(fails: bool) -> None:
    """Its error would let the caller continue, as if it had not been cancelled."""
    has_begun, may_end = threading.Event(), threading.Event()

    def work() -> None:
        has_begun.set()
        assert may_end.wait(30)
        if fails:
            raise LookupError

    async def run(pool: ThreadPoolExecutor) -> None:
        task = asyncio.ensure_future(in_pool(pool, work))
        await asyncio.to_thread(has_begun.wait, 30)
        task.cancel()
        await asyncio.sleep(0)
        may_end.set()
        await asyncio.wait([task], timeout=30)
        assert task.cancelled()

    with ThreadPoolExecutor(1) as pool:
        asyncio.run(run(pool))
