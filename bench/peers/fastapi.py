"""A push with FastAPI: ``python -m bench.peers.fastapi URL SOCKET``.

Headrace's async client on the same store, under uvicorn with httptools and uvloop, as the node.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

import headrace


class Item(BaseModel):
    """What is pushed."""

    payload: dict[str, Any]


class Pushed(BaseModel):
    """What became of it."""

    id: int | None


def application(url: str) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with await headrace.aconnect(url) as client:
            app.state.client = client
            print("ready", flush=True)
            yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/queues/{queue}/items")
    async def push(queue: str, item: Item) -> Pushed:
        result = await app.state.client.push(queue, item.payload)
        return Pushed(id=result.id)

    return app


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
        proxy_headers=False,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
