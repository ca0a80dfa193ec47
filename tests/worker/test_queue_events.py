"""A queue reference emits the events of its client's worker."""

import asyncio
import threading

import headrace


def test_listeners_of_a_queue_get_the_events_of_its_worker() -> None:
    """Whether they were added before or after the worker started, until they are removed."""
    with headrace.connect("memory://") as hr:
        q = hr.queue("q")
        heard: list[str] = []
        both = threading.Semaphore(0)

        def hear(name: str) -> object:
            def callback(done: object) -> None:
                heard.append(name)
                both.release()

            return callback

        end = q.on("data", hear("early"))
        worker = q.start_worker(lambda item: None)
        q.on("data", hear("late"))
        q.push(1)
        assert both.acquire(timeout=10)
        assert both.acquire(timeout=10)
        assert sorted(heard) == ["early", "late"]
        end()
        q.push(2)
        assert both.acquire(timeout=10)
        worker.stop()
        assert heard[2:] == ["late"]


def test_the_same_in_async_code() -> None:
    async def scenario() -> None:
        async with await headrace.aconnect("memory://") as hr:
            q = hr.queue("q")
            heard = asyncio.Event()

            async def handle(item: object) -> None: ...

            await q.on("data", lambda done: heard.set())
            await q.start_worker(handle)
            await q.push(1)
            await asyncio.wait_for(heard.wait(), 10)

    asyncio.run(scenario())
