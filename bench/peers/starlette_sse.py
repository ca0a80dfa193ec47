"""Server-Sent Events with Starlette and sse-starlette: ``python -m bench.peers.starlette_sse URL SOCKET``.

Each stream has a queue, and each record is encoded once and put into all of them. The records go to
the same store, through Headrace's async client, under uvicorn with httptools and uvloop, as the node.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import headrace


def application(url: str) -> Starlette:
    streams: set[asyncio.Queue[ServerSentEvent]] = set()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with await headrace.aconnect(url) as client:
            app.state.client = client
            print("ready", flush=True)
            yield

    async def commit(request: Request) -> Response:
        body = (await request.json())["body"]
        id = await request.app.state.client.commit(request.path_params["topic"], body)
        record = {"id": id, "body": body, "headers": {}}
        event = ServerSentEvent(json.dumps(record, separators=(",", ":")), id=id)
        for queue in streams:
            queue.put_nowait(event)
        return JSONResponse({"ids": [id]}, status_code=201)

    async def stream(request: Request) -> Response:
        queue: asyncio.Queue[ServerSentEvent] = asyncio.Queue()
        streams.add(queue)

        async def events() -> AsyncIterator[ServerSentEvent]:
            try:
                while True:
                    yield await queue.get()
            finally:
                streams.discard(queue)

        return EventSourceResponse(events())

    routes = [
        Route("/api/v1/topics/{topic}/records", commit, methods=["POST"]),
        Route("/api/v1/topics/{topic}/stream", stream),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


def main(url: str, socket: str) -> None:
    uvicorn.run(
        application(url),
        uds=socket,
        http="httptools",
        loop="uvloop",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=1,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
