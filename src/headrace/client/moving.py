"""Plans that move records of a topic into a queue, each record once."""

from __future__ import annotations

import time

from headrace.client.calls import CLAIM_BYTES, taken_of
from headrace.client.plans import Plan
from headrace.contract.store import Store
from headrace.contract.values import ProcSpec, RangeQuery
from headrace.core.following import FailedRecord, Follow, replay_proc, replay_range
from headrace.errors import ProcNameTaken
from headrace.model import procs as rules
from headrace.model.failures import failure_of
from headrace.model.position import FROM_START, parse_end
from headrace.model.procs import ProcInfo
from headrace.model.tokens import claim_token

BATCH = 500
REPLAY_TTL_MS = 7 * 24 * 3600 * 1000


def begin(store: Store, follow: Follow, offset: str) -> Plan[ProcInfo]:
    """Find the proc that follows the topic, or make it."""
    spec = ProcSpec(name=follow.name, topic=follow.topic, offset=offset)
    # One record that cannot be pushed must not keep back those behind it.
    settings = rules.changes(max_reclaims=1, on_max_reclaims_reached="dead_letter")
    info: ProcInfo = yield store.create_proc(spec, settings)
    return info


def move(store: Store, follow: Follow, count: int) -> Plan[int | None]:
    """Move up to ``count`` records; how many, or None if there is nothing to move."""
    token = claim_token()
    result = yield store.claim(follow.name, token, count, CLAIM_BYTES)
    taken = taken_of(result, token)
    if taken is None:
        return None
    try:
        call = follow.call(taken.records)
    except FailedRecord as failed:
        problem = failure_of(failed.error)
        text = f"{problem.type}: {problem.message}"
        yield store.reclaim(follow.name, token, failed.record.seq, text)
        return 0
    yield store.ack_push(follow.name, token, [call])
    return len(taken.records)


def move_all(store: Store, follow: Follow) -> Plan[int]:
    """Move all that is there."""
    total = 0
    while (moved := (yield from move(store, follow, BATCH))) is not None:
        total += moved
    return total


def begin_replay(
    store: Store, follow: Follow, name: str, start: str | None, end: str | None
) -> Plan[tuple[Follow, int, int]]:
    """Find a replay that has begun, or begin it: its proc, its first and its last record."""
    for info in (yield store.procs(follow.topic)):
        known = replay_range(info.name, name)
        if known is not None:
            return _with_name(follow, info.name), *known
    for info in (yield store.procs(None)):
        if replay_range(info.name, name) is not None:
            raise ProcNameTaken(
                f"replay {name!r} is one of topic {info.topic!r}, not {follow.topic!r}: choose "
                "another name.",
                proc=info.name,
                topic=info.topic,
            )
    query = RangeQuery(
        topic=follow.topic,
        start=parse_end(start or ""),
        end=parse_end(end or ""),
        limit=1,
        max_bytes=1,
    )
    page = yield store.read(query)
    proc = replay_proc(name, page.low, max(page.high, page.low))
    offset = FROM_START if page.low <= page.topic.first_seq else f":{page.low - 1}"
    if page.high < page.low:
        return _with_name(follow, proc), page.low, page.high
    spec = ProcSpec(name=proc, topic=follow.topic, offset=offset, ttl_ms=REPLAY_TTL_MS)
    yield store.create_proc(
        spec, rules.changes(max_reclaims=1, on_max_reclaims_reached="dead_letter")
    )
    return _with_name(follow, proc), page.low, page.high


def _with_name(follow: Follow, name: str) -> Follow:
    return Follow(
        name=name,
        topic=follow.topic,
        queue=follow.queue,
        subject=follow.subject,
        payload=follow.payload,
        priority=follow.priority,
        max_body=follow.max_body,
    )


class Pace:
    """How many records may go now, so that there are no more than ``rate`` a second."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._began = time.monotonic()
        self._gone = 0

    def allowed(self) -> int:
        """How many may go now; at least one once its time has come, else 0."""
        if self._rate is None:
            return BATCH
        # A tenth of a second's worth at a time keeps the flow even.
        ahead = (time.monotonic() - self._began + 0.1) * self._rate - self._gone
        return min(BATCH, max(int(ahead), 0))

    def wait(self) -> float:
        """Seconds until one may go."""
        assert self._rate is not None
        return max((self._gone + 1) / self._rate - 0.1 - (time.monotonic() - self._began), 0.001)

    def went(self, count: int) -> None:
        self._gone += count


def replay_some(store: Store, follow: Follow, high: int, pace: Pace) -> Plan[int | None]:
    """Move some more of a replay's records; the last one moved, or None at its end."""
    info: ProcInfo = yield store.inspect(follow.name)
    position = info.position or 0
    left = high - position + 1
    if left <= 0:
        return None
    while not (count := min(pace.allowed(), left)):
        yield pace.wait()
    moved = yield from move(store, follow, count)
    pace.went(moved or 0)
    return position + (moved or 0) - 1
