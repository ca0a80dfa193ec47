"""From commit to a reader that waits in another process, one record at a time."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bench import ours
from bench.context import Contender, Facts, Lab, PeerMissing
from bench.lines import LineReader
from bench.measure import percentile
from bench.peers.pipeproc import PipeProc
from bench.peers.redis_streams import RedisServer

import headrace

TOPIC = "live"
GAP_SECONDS = (0.002, 0.006)
PATIENCE_SECONDS = 10.0
WARM_RECORDS = 10

Send = Callable[[bool], None]
"""Commits one record that carries the time, and whether it is only there to warm up."""


def contenders(lab: Lab) -> Iterator[Contender]:
    yield from lab.offer("live postgres", _postgres, "postgres")
    yield from lab.offer("live sqlite relaxed", _sqlite)
    yield from lab.offer("live redis", _redis, "redis", in_c=False)
    yield from lab.offer("live redis hiredis", _redis, "redis", in_c=True)
    yield from lab.offer("live pipeproc", _pipeproc, "pipeproc")


def _postgres(lab: Lab, key: str, server: ours.Postgres) -> Contender:
    return _headrace(lab, key, "PostgreSQL", server.at("live"), server.facts)


def _sqlite(lab: Lab, key: str) -> Contender:
    url = f"{ours.sqlite_url(lab, 'live')}?durability=relaxed"
    return _headrace(lab, key, "SQLite relaxed", url, ours.sqlite_facts("relaxed"))


def _headrace(lab: Lab, key: str, store: str, url: str, facts: Facts) -> Contender:
    if not hasattr(headrace.Headrace, "live"):
        raise PeerMissing("this version of headrace has no hr.live")
    hr = headrace.connect(url)
    lab.phase.callback(hr.close)

    def send(is_warm: bool) -> None:
        hr.commit(TOPIC, {"sent": time.monotonic_ns(), "warm": is_warm})

    return _contender(lab, key, f"{store}, live proc", facts, send, _receiver(lab, "headrace", url))


def _redis(lab: Lab, key: str, server: RedisServer, *, in_c: bool) -> Contender:
    topic = f"{TOPIC}-hiredis" if in_c else TOPIC
    stream = server.stream(topic, in_c=in_c)
    lab.phase.callback(stream.drop)

    def send(is_warm: bool) -> None:
        stream.append_one({"sent": time.monotonic_ns(), "warm": is_warm})

    receiver = _receiver(lab, "hiredis" if in_c else "redis", str(server.port), topic)
    facts = server.facts(in_c=in_c)
    return _contender(lab, key, "Redis, XREAD BLOCK", facts, send, receiver)


def _pipeproc(lab: Lab, key: str, peer: PipeProc) -> Contender:
    peer.send(TOPIC, warm=True)
    receiver = lab.phase.enter_context(peer.live(TOPIC))

    def send(is_warm: bool) -> None:
        peer.send(TOPIC, warm=is_warm)

    return _contender(lab, key, "PipeProc, liveProc", peer.facts, send, receiver.lines)


def _receiver(lab: Lab, kind: str, where: str, topic: str = TOPIC) -> LineReader:
    return lab.phase.enter_context(_receiving(kind, where, topic))


@contextmanager
def _receiving(kind: str, where: str, topic: str) -> Iterator[LineReader]:
    """A process that prints a line of JSON for each record, with the time it took."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.cases.live_receiver", kind, where, topic],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    try:
        yield LineReader(process)
    finally:
        process.kill()
        process.wait()


def _contender(
    lab: Lab, key: str, title: str, facts: Facts, send: Send, lines: LineReader
) -> Contender:
    each_round = -(-lab.settings.latencies // lab.settings.rounds)
    everything: list[float] = []

    def sample(turn: int) -> dict[str, float]:
        if turn == 0:
            _wait_for_first(send, lines)
        for _ in range(WARM_RECORDS):
            _exchange(send, lines, is_warm=True)
        found = [_exchange(send, lines, is_warm=False) for _ in range(each_round)]
        everything.extend(found)
        return {"p50": percentile(found, 50), "p95": percentile(found, 95)}

    def note() -> str:
        middle, high = percentile(everything, 50), percentile(everything, 95)
        return f"n={len(everything)}: p50 {middle:.2f}, p95 {high:.2f} ms"

    return Contender(key, title, "ms", facts, sample, note=note)


def _wait_for_first(send: Send, lines: LineReader) -> None:
    """Send until the receiver, which starts at the newest record, gets one; drop what follows."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < give_up:
        send(True)
        try:
            lines.next(0.1)
        except TimeoutError:
            continue
        break
    else:
        raise TimeoutError(f"the receiver got nothing in {PATIENCE_SECONDS:g} s")
    try:
        while True:
            lines.next(0.5)
    except TimeoutError:
        return


def _exchange(send: Send, lines: LineReader, *, is_warm: bool) -> float:
    """Milliseconds from commit to receipt. The next record waits until this one arrived."""
    time.sleep(random.uniform(*GAP_SECONDS))
    send(is_warm)
    answer: dict[str, Any] = json.loads(lines.next(PATIENCE_SECONDS))
    if bool(answer["warm"]) is not is_warm:
        raise RuntimeError("the receiver got another record than the one just sent")
    return answer["latency"] / 1e6
