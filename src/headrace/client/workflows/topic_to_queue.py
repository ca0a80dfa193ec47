"""Plans that move records of a topic into a queue, each record once."""

from __future__ import annotations

import time
from contextlib import suppress

from headrace.client.workflows import Plan
from headrace.contract.store import Store
from headrace.contract.values import ProcSpec, RangeQuery
from headrace.core.requests.procs import CLAIM_BYTES, batch_of
from headrace.core.topic_to_queue import FailedRecord, Follow, replay_proc, replay_range
from headrace.errors import ClaimLost, ProcNameTaken, QueueFull
from headrace.model.failures import failure_of
from headrace.model.fields import shown
from headrace.model.tokens import claim_token
from headrace.model.topics import procs as rules
from headrace.model.topics.positions import FROM_START, parse_end
from headrace.model.topics.procs import ProcInfo

BATCH = 500
PAUSE = 0.1
REPLAY_TTL_MS = 7 * 24 * 3600 * 1000
# A claim that was left, or for which a queue had no capacity, is no fault of its records: they come
# again without a limit. Only a record that cannot be pushed becomes a dead letter, immediately.
SETTINGS = rules.changes(max_attempts=rules.NO_LIMIT, on_exhausted="dead_letter")


def begin(store: Store, follow: Follow, offset: str) -> Plan[ProcInfo]:
    """Find the proc that follows the topic, or make it."""
    spec = ProcSpec(name=follow.name, topic=follow.topic, offset=offset)
    info: ProcInfo = yield store.procs.create(spec, SETTINGS)
    return (yield from _without_limit(store, info))


def _without_limit(store: Store, info: ProcInfo) -> Plan[ProcInfo]:
    """Bring a proc that was made earlier, with a limit of attempts, up to date."""
    if info.max_attempts != rules.NO_LIMIT:
        info = yield store.procs.update(info.name, SETTINGS)
    return info


def move(store: Store, follow: Follow, count: int, high: int | None = None) -> Plan[int | None]:
    """Move up to ``count`` records; how many, or None if there is nothing to move.

    None of them is behind ``high``. Dead letters and other processes of the same name can bring a
    claim there; it is given back then.
    """
    token = claim_token()
    result = yield store.procs.claim(follow.name, token, count, CLAIM_BYTES)
    batch = batch_of(result, token)
    if batch is None:
        return None
    if high is not None and batch.records[-1].seq > high:
        fitting = sum(record.seq <= high for record in batch.records)
        with suppress(ClaimLost):
            yield store.procs.nack(follow.name, token, None, None)
        return (yield from move(store, follow, fitting, high)) if fitting else 0
    try:
        call = follow.call(batch.records)
    except FailedRecord as failed:
        problem = failure_of(failed.error)
        text = f"{problem.type}: {problem.message}"
        with suppress(ClaimLost):
            yield store.procs.nack(follow.name, token, failed.record.seq, text, is_final=True)
        return 0
    try:
        yield store.procs.ack_push(follow.name, token, [call])
    except ClaimLost:
        # Its time was over: another process has the records, and nothing was pushed here.
        return 0
    except QueueFull as error:
        with suppress(ClaimLost):
            yield store.procs.nack(follow.name, token, None, str(error))
        raise
    return len(batch.records)


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
    for info in (yield store.procs.list(follow.topic)):
        known = replay_range(info.name, name)
        if known is not None:
            yield from _without_limit(store, info)
            return _with_name(follow, info.name), *known
    for info in (yield store.procs.list(None)):
        if replay_range(info.name, name) is not None:
            raise ProcNameTaken(
                f"replay {shown(name)} is one of topic {shown(info.topic)}, not {shown(follow.topic)}: choose "
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
    page = yield store.topics.read(query)
    proc = replay_proc(name, page.low, max(page.high, page.low))
    offset = FROM_START if page.low <= page.topic.first_seq else f":{page.low - 1}"
    if page.high < page.low:
        return _with_name(follow, proc), page.low, page.high
    spec = ProcSpec(name=proc, topic=follow.topic, offset=offset, ttl_ms=REPLAY_TTL_MS)
    yield store.procs.create(spec, SETTINGS)
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
    info: ProcInfo = yield store.procs.info(follow.name)
    position = info.position or 0
    left = high - position + 1
    if left <= 0:
        return None
    while not (count := min(pace.allowed(), left)):
        yield pace.wait()
    moved = yield from move(store, follow, count, high)
    if moved is None:
        yield PAUSE  # another process that runs it has claimed them
    pace.went(moved or 0)
    return position + (moved or 0) - 1
