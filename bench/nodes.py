"""Nodes for the cases: each in a process of its own, behind a Unix socket."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from bench import ours
from bench.context import Facts, Lab, PeerMissing
from bench.lines import LineReader

STORES = {"postgres": "PostgreSQL", "sqlite": "SQLite"}
START_SECONDS = 60.0
STOP_SECONDS = 30.0


class Served(NamedTuple):
    """A server that runs: its process, its socket, and its URL if it is a node."""

    pid: int
    socket: Path
    url: str


def needs(store: str) -> tuple[str, ...]:
    """The servers that a store needs."""
    return ("postgres",) if store == "postgres" else ()


def place_of(lab: Lab, store: str, name: str) -> tuple[str, Facts]:
    """The URL of a store of its own, and what its figures stand on."""
    word = name.replace("-", "_").replace(" ", "_")
    if store == "memory":
        return "memory://", Facts("none", "", "memory")
    if store == "sqlite":
        return ours.sqlite_url(lab, word), ours.sqlite_facts("safe")
    server: ours.Postgres = lab.peer("postgres")
    return server.new_database(word), server.facts


def node_facts(facts: Facts) -> Facts:
    """What the figures of a node stand on, given those of its store."""
    client = f"headrace {version('headrace')}, msgpack"
    return Facts(facts.durability, client, f"node, uvicorn {version('uvicorn')}, {facts.server}")


def node(lab: Lab, name: str, url: str, *, is_grouped: bool = True) -> Served:
    """A node for a store, until the phase is over."""
    word = name.replace(" ", "-")
    arguments = [word] if is_grouped else [word, "ungrouped"]
    return lab.phase.enter_context(_running(lab, word, "bench.node_server", url, arguments))


def fastapi(lab: Lab, name: str, url: str) -> Served:
    """A FastAPI application for a store, until the phase is over."""
    word = name.replace(" ", "-")
    return lab.phase.enter_context(_running(lab, word, "bench.peers.fastapi", url, []))


def starlette(lab: Lab, name: str, url: str) -> Served:
    """A Starlette application with streams of events, until the phase is over."""
    word = name.replace(" ", "-")
    return lab.phase.enter_context(_running(lab, word, "bench.peers.starlette_sse", url, []))


@contextmanager
def _running(lab: Lab, name: str, module: str, url: str, arguments: list[str]) -> Iterator[Served]:
    socket = lab.folder / f"{name}.sock"
    log = lab.folder / f"{name}.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", module, url, str(socket), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=output,
            # Nodes of the user stay undisturbed.
            env={**os.environ, "HEADRACE_RUNTIME_DIR": str(lab.folder / "nodes")},
            start_new_session=True,
        )
    try:
        try:
            LineReader(process).next(START_SECONDS)
        except (RuntimeError, TimeoutError) as error:
            raise PeerMissing(f"{error}: {log.read_text(errors='replace')[-300:]}") from error
        _wait_for(socket)
        yield Served(process.pid, socket, f"unix://{socket}")
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(socket: Path) -> None:
    give_up = time.monotonic() + START_SECONDS
    while not socket.exists():
        if time.monotonic() > give_up:
            raise PeerMissing(f"{socket} did not appear")
        time.sleep(0.01)
