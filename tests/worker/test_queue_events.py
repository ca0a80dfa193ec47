"""A queue reference hears the worker of its client."""

import asyncio
import threading

import headrace


def test_who_listens_to_the_queue_hears_its_worker() -> None:
    """Whether they came before or after the worker, until they have had enough."""
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
        worker = q.register_worker(lambda item: None)
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
            q = await hr.queue("q")
            heard = asyncio.Event()

            async def handle(item: object) -> None: ...

            q.on("data", lambda done: heard.set())
            q.register_worker(handle)
            await q.push(1)
            await asyncio.wait_for(heard.wait(), 10)

    asyncio.run(scenario())
