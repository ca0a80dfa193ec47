"""Functions that are called again and again beside a client."""

import asyncio

from headrace.client._runtime.aio import AsyncPeriodic


def test_the_end_waits_for_the_call_that_it_cancels() -> None:
    """Otherwise the call would still use the store while its client is closed."""

    async def scenario() -> list[str]:
        seen: list[str] = []
        started = asyncio.Event()

        async def call() -> float:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                seen.append("cleaned up")
            raise AssertionError("the wait has no end")

        periodic = AsyncPeriodic("test", call, 0.0)
        await started.wait()
        await periodic.end()
        return [
            *seen,
            *(task.get_name() for task in asyncio.all_tasks() - {asyncio.current_task()}),
        ]

    assert asyncio.run(scenario()) == ["cleaned up"]
