"""One record a call: one caller, many callers, and what the machine itself can do."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
import time
from collections.abc import Iterator

from bench import ours
from bench.bodies import slices
from bench.context import Contender, Facts, Lab, PeerMissing
from bench.measure import rate
from bench.peers.pipeproc import PipeProc
from bench.peers.redis_streams import RedisServer

import headrace

CALLERS = 64
PAGE = b"x" * 4096


def contenders(lab: Lab) -> Iterator[Contender]:
    yield from lab.offer("one postgres", _postgres, "postgres")
    yield from lab.offer("one postgres async", _postgres_async, "postgres", callers=1)
    yield from lab.offer("64 postgres async", _postgres_async, "postgres", callers=CALLERS)
    yield from lab.offer("64 postgres threads", _postgres_threads, "postgres")
    yield from lab.offer("one sqlite safe", _sqlite)
    yield from lab.offer("one redis aof", _redis, "redis-aof")
    yield from lab.offer("one pipeproc", _pipeproc, "pipeproc")
    yield from lab.offer("limit pgbench", _pgbench, "postgres")
    yield from lab.offer("limit fdatasync", _fdatasync)


def _postgres(lab: Lab, key: str, server: ours.Postgres) -> Contender:
    title = "PostgreSQL, one caller"
    return _one_caller(lab, key, title, server.at("one"), server.facts)


def _sqlite(lab: Lab, key: str) -> Contender:
    url = ours.sqlite_url(lab, "one")
    return _one_caller(lab, key, "SQLite safe, one caller", url, ours.sqlite_facts("safe"))


def _one_caller(lab: Lab, key: str, title: str, url: str, facts: Facts) -> Contender:
    hr = headrace.connect(url)
    lab.phase.callback(hr.close)
    singles = slices(lab.bodies, 1)

    def sample(turn: int) -> dict[str, float]:
        def commit() -> int:
            hr.commit(f"orders-{turn}", next(singles)[0])
            return 1

        return {"rate": rate(commit, lab.settings.seconds)}

    return Contender(key, title, "records/s", facts, sample)


def _postgres_async(lab: Lab, key: str, server: ours.Postgres, *, callers: int) -> Contender:
    def sample(turn: int) -> dict[str, float]:
        work = commit_from_tasks(lab, server.at("one"), f"async-{callers}-{turn}", callers)
        return {"rate": asyncio.run(work)}

    who = "one asyncio caller" if callers == 1 else f"{callers} asyncio callers"
    return Contender(key, f"PostgreSQL, {who}", "records/s", server.facts, sample)


async def commit_from_tasks(lab: Lab, url: str, topic: str, callers: int) -> float:
    """Records a second that tasks of one client commit, one at a time each."""
    async with await headrace.aconnect(url) as hr:
        singles = slices(lab.bodies, 1)

        async def caller(end: float) -> int:
            done = 0
            while time.perf_counter() < end:
                await hr.commit(topic, next(singles)[0])
                done += 1
            return done

        async def all_callers(seconds: float) -> float:
            start = time.perf_counter()
            done = await asyncio.gather(*(caller(start + seconds) for _ in range(callers)))
            return sum(done) / (time.perf_counter() - start)

        # Connections are opened and statements prepared before time counts.
        await all_callers(lab.settings.seconds / 5)
        return await all_callers(lab.settings.seconds)


def _postgres_threads(lab: Lab, key: str, server: ours.Postgres) -> Contender:
    hr = headrace.connect(server.at("one"))
    lab.phase.callback(hr.close)

    def sample(turn: int) -> dict[str, float]:
        _commit_from_threads(hr, lab, f"threads-{turn}", lab.settings.seconds / 5)
        return {"rate": _commit_from_threads(hr, lab, f"threads-{turn}", lab.settings.seconds)}

    title = f"PostgreSQL, {CALLERS} threads"
    return Contender(key, title, "records/s", server.facts, sample)


def _commit_from_threads(hr: headrace.Headrace, lab: Lab, topic: str, seconds: float) -> float:
    gate = threading.Barrier(CALLERS + 1)
    done = [0] * CALLERS
    failures: list[BaseException] = []

    def caller(number: int) -> None:
        gate.wait()
        end = time.perf_counter() + seconds
        place = number
        try:
            while time.perf_counter() < end:
                hr.commit(topic, lab.bodies[place % len(lab.bodies)])
                place += CALLERS
                done[number] += 1
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=caller, args=(number,)) for number in range(CALLERS)]
    for thread in threads:
        thread.start()
    gate.wait()
    start = time.perf_counter()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return sum(done) / (time.perf_counter() - start)


def _redis(lab: Lab, key: str, server: RedisServer) -> Contender:
    singles = slices(lab.bodies, 1)

    def sample(turn: int) -> dict[str, float]:
        stream = server.stream(f"one-{turn}")
        try:
            return {"rate": rate(lambda: stream.append_one(next(singles)[0]), lab.settings.seconds)}
        finally:
            stream.drop()

    return Contender(key, "Redis, one caller", "records/s", server.facts(), sample)


def _pipeproc(lab: Lab, key: str, peer: PipeProc) -> Contender:
    def sample(turn: int) -> dict[str, float]:
        return {"rate": peer.rate("commit", f"one-{turn}", 1, lab.settings.seconds)}

    return Contender(key, "PipeProc, one caller", "records/s", peer.facts, sample)


def _pgbench(lab: Lab, key: str, server: ours.Postgres) -> Contender:
    pgbench = server.binaries / "pgbench"
    if not pgbench.exists():
        raise PeerMissing("pgbench is not beside PostgreSQL's programs")
    script = lab.folder / "insert.sql"
    script.write_text(f"insert into bare_insert (body) values ('{'x' * 200}');\n")
    server.execute(
        "create table bare_insert (id bigint generated always as identity primary key,"
        " body text not null)"
    )
    seconds = max(1, round(lab.settings.seconds))
    command = [
        *(str(pgbench), "-h", "127.0.0.1", "-p", str(server.port), "-U", "headrace"),
        *("-n", "-c", "1", "-M", "prepared", "-T", str(seconds), "-f", str(script), "postgres"),
    ]

    def sample(turn: int) -> dict[str, float]:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        line = next(line for line in done.stdout.splitlines() if line.startswith("tps"))
        return {"rate": float(line.split()[2])}

    facts = Facts("fsync at commit", "pgbench, prepared", server.version)
    return Contender(key, "limit: bare INSERT, one client", "inserts/s", facts, sample)


def _fdatasync(lab: Lab, key: str) -> Contender:
    def sample(turn: int) -> dict[str, float]:
        path = lab.folder / "fdatasync"
        file = os.open(path, os.O_RDWR | os.O_CREAT)
        try:
            os.pwrite(file, PAGE * 256, 0)

            def write() -> int:
                os.pwrite(file, PAGE, 0)
                os.fdatasync(file)
                return 1

            return {"rate": rate(write, lab.settings.seconds)}
        finally:
            os.close(file)
            path.unlink()

    facts = Facts("4 KiB, fdatasync", "os.pwrite", "the disk")
    return Contender(key, "limit: fdatasync, one file", "syncs/s", facts, sample)
