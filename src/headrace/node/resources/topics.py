"""``/topics`` and ``/commits``: records, by topic."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from headrace.contract.operations import OPERATIONS
from headrace.contract.values import Page as Batches
from headrace.core.pushes import push_call
from headrace.core.scans import Scan
from headrace.errors import InvalidInput, InvalidOption, UnknownSeq
from headrace.model.names import check_proc, check_topic
from headrace.model.times import moment_of
from headrace.model.topics.positions import Position
from headrace.model.topics.records import Record, TopicInfo
from headrace.node.resources.endpoint import ApiCall, Created, Endpoint
from headrace.node.resources.long_polls import checked_wait, while_connected
from headrace.node.resources.pages import (
    MAX_PAGE_BYTES,
    ListPage,
    PageQuery,
    page,
    wrong_cursor,
)
from headrace.node.resources.values import Seconds

COMMIT = OPERATIONS["topics.commit"]


class RecordBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A record: a JSON object or list, and text that goes with it."""

    body: Any
    headers: dict[str, str] | None = None


class NewRecords(RecordBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One record, or ``records`` for many: all are committed, or none."""

    body: Any = UNSET
    records: Sequence[RecordBody] | None = None


class CommitBody(RecordBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A record and its topic."""

    topic: str


class RetentionBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When old records are removed; null for never. What is not given stays."""

    min_age: Seconds | UnsetType | None = UNSET
    max_age: Seconds | UnsetType | None = UNSET


class ReplayBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which records are pushed to which queue, at most ``rate`` a second.

    A replay is known by its name, and else by its queue and its range: the same request goes on
    with it. ``wait`` is for how many seconds a request goes on.
    """

    queue: str
    start: str | None = None
    end: str | None = None
    rate: float | None = None
    subject: str | None = None
    priority: int = 0
    name: str | None = None
    wait: float = 10.0


class ReplayView(msgspec.Struct, frozen=True, kw_only=True):
    """How far a replay is: done when ``done`` is ``total``."""

    name: str
    done: int
    total: int


class TopicQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of a list of topics."""

    prefix: str = ""


class RecordQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which records: from ``start`` to ``end``, each an id, ``:seq`` or milliseconds."""

    start: str | None = None
    end: str | None = None
    exclusive: bool = False
    order: Literal["asc", "desc"] = "asc"


class TopicView(msgspec.Struct, frozen=True, kw_only=True):
    """A topic: the records it has now, and the number of the next one."""

    name: str
    first_seq: int
    next_seq: int
    last_at: datetime
    min_age: float | None
    max_age: float | None


class RecordView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A record of a topic."""

    id: str
    body: Any
    headers: dict[str, str]


class Ids(msgspec.Struct, frozen=True, kw_only=True):
    """The ids of committed records, in order."""

    ids: list[str]


class TopicPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some topics, by name."""

    topics: list[TopicView]
    next: str | None


class RecordPage(msgspec.Struct, frozen=True, kw_only=True):
    """Records of a range, in order."""

    records: list[RecordView]
    next: str | None


def topic_view(info: TopicInfo) -> TopicView:
    """A topic as the API shows it."""
    return TopicView(
        name=info.name,
        first_seq=info.first_seq,
        next_seq=info.next_seq,
        last_at=moment_of(info.last_ts),
        min_age=info.min_age,
        max_age=info.max_age,
    )


def record_view(record: Record) -> RecordView:
    """A record as the API shows it."""
    return RecordView(id=record.id, body=record.body, headers=record.headers)


async def list_topics(call: ApiCall[None, TopicQuery]) -> ListPage:
    query, limit = call.query, call.query.checked_limit
    after = query.after("topics", "")
    found = await call.hr.topics.list(prefix=query.prefix, after=after, limit=limit)
    return page("topics", found, limit, lambda info: info.name, topic_view)


async def get_topic(call: ApiCall[None, None]) -> TopicView:
    return topic_view(await call.hr.topic(call["topic"]).info())


async def update_topic(call: ApiCall[RetentionBody, None]) -> TopicView:
    topic, body = call.hr.topic(call["topic"]), call.body
    info = await topic.info()
    min_age = info.min_age if body.min_age is UNSET else body.min_age
    max_age = info.max_age if body.max_age is UNSET else body.max_age
    return topic_view(await topic.set_retention(min_age=min_age, max_age=max_age))


async def commit_records(call: ApiCall[NewRecords, None]) -> Any:
    body, topic = call.body, call["topic"]
    if (body.body is UNSET) == (body.records is None):
        raise InvalidOption("give body for one record, or records for many.", option="body")
    if body.records is None:
        ids = await _commit(call, "$", [(topic, body.body, body.headers)])
        return Created(Ids(ids=ids), call.below(ids[0]))
    if body.headers is not None:
        raise InvalidOption("with records, headers are in each of these.", option="headers")
    entries = [(topic, one.body, one.headers) for one in body.records]
    return Ids(ids=await _commit(call, "$.records[{}]", entries))


async def commit_to_topics(call: ApiCall[Sequence[CommitBody], None]) -> Ids:
    entries = [(one.topic, one.body, one.headers) for one in call.body]
    return Ids(ids=await _commit(call, "$[{}]", entries))


async def _commit(call: ApiCall[Any, Any], place: str, entries: list[Any]) -> list[str]:
    with records_at(place):
        commitment = call.requests.topics.commit_entries(entries, None, call.key)
        [outcome] = await call.store.run_call(COMMIT, COMMIT.arguments(calls=[commitment.call]))
        return commitment.finish(outcome)


@contextmanager
def records_at(place: str) -> Iterator[None]:
    """Errors about one of several records name its place in the request: ``$.commit[{}]``."""
    try:
        yield
    except InvalidInput as error:
        row, path = error.details.pop("row", None), error.details.get("path")
        if row is not None and path is not None:
            inner = str(path).removeprefix(f"$[{row}]")
            error.details["path"] = f"{place.format(row)}.body{inner}"
        raise


async def list_records(call: ApiCall[None, RecordQuery]) -> ListPage:
    query, limit = call.query, call.query.checked_limit
    scan = Scan(
        check_topic(call["topic"]),
        start=query.start,
        end=query.end,
        exclusive=query.exclusive,
        limit=limit,
        descending=query.order == "desc",
    )
    assert scan.query is not None
    wanted = msgspec.structs.replace(scan.query, max_bytes=MAX_PAGE_BYTES)
    name = f"records {query.order}"
    if rest := query.after(name, ""):
        low, _, high = rest.partition("-")
        if not (low.isdecimal() and high.isdecimal()):
            raise wrong_cursor()
        ends = {"start": Position(seq=int(low)), "end": Position(seq=int(high))}
        wanted = msgspec.structs.replace(wanted, **ends, exclusive=False)
    found: Batches = await call.store.arun(call.store.topics.read(wanted))
    records = [record_view(record) for record in scan.add(found)]
    return ListPage("records", records, _rest(found, query.order) if records else None, name)


def _rest(found: Batches, order: str) -> str | None:
    """What is left of a range behind a page of it. Its ends stay where they were."""
    low, high = (found.low, found.first - 1) if order == "desc" else (found.last + 1, found.high)
    return f"{low}-{high}" if low <= high else None


async def get_record(call: ApiCall[None, None]) -> RecordView:
    id = call["record"]
    found = await call.hr.topic(call["topic"]).range(id, id, limit=1)
    if not found:
        raise UnknownSeq(f"topic {call['topic']!r} has no record {id!r}.", topic=call["topic"])
    return record_view(found[0])


async def replay_topic(call: ApiCall[ReplayBody, None]) -> ReplayView:
    """Go on with a replay until it is done, or the wait is over."""
    body = call.body
    wait = checked_wait(body.wait)
    if body.name is not None:
        check_proc(body.name)
    # Before there is a proc, with records that it has claimed.
    pushes = [push_call(body.queue, ())]
    call.store.authorize(call.store.procs.ack_push(body.name or "replay", "", pushes))
    replay = await call.hr.topic(call["topic"]).replay(
        body.queue,
        body.start,
        body.end,
        rate=body.rate,
        subject=body.subject,
        priority=body.priority,
        name=body.name,
    )
    if replay.total and wait:
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await while_connected(call, replay.run())
    return ReplayView(name=replay.name, done=await replay.done(), total=replay.total)


_TOPIC = "/topics/{topic}"
_RECORD = {"body": {"order": 17}, "headers": {"source": "shop"}}

ENDPOINTS = [
    Endpoint(
        method="GET",
        path="/topics",
        summary="List topics",
        handle=list_topics,
        query=TopicQuery,
        answer=TopicPage,
    ),
    Endpoint(method="GET", path=_TOPIC, summary="Read a topic", handle=get_topic, answer=TopicView),
    Endpoint(
        method="PATCH",
        path=_TOPIC,
        summary="Say when old records are removed",
        handle=update_topic,
        body=RetentionBody,
        answer=TopicView,
        example={"min_age": "1d"},
    ),
    Endpoint(
        method="POST",
        path=f"{_TOPIC}/records",
        summary="Commit records to a topic",
        handle=commit_records,
        body=NewRecords,
        answer=Ids,
        status=201,
        takes_key=True,
        example=_RECORD,
    ),
    Endpoint(
        method="GET",
        path=f"{_TOPIC}/records",
        summary="Read records of a topic",
        handle=list_records,
        query=RecordQuery,
        answer=RecordPage,
    ),
    Endpoint(
        method="GET",
        path=f"{_TOPIC}/records/{{record}}",
        summary="Read one record",
        handle=get_record,
        answer=RecordView,
    ),
    Endpoint(
        method="POST",
        path=f"{_TOPIC}/replay",
        summary="Push records of a topic to a queue again",
        handle=replay_topic,
        body=ReplayBody,
        answer=ReplayView,
        example={"queue": "again", "start": ":0", "wait": 5},
    ),
    Endpoint(
        method="POST",
        path="/commits",
        summary="Commit records to several topics, all or none",
        handle=commit_to_topics,
        body=Sequence[CommitBody],
        answer=Ids,
        status=201,
        takes_key=True,
        example=[{"topic": "orders", **_RECORD}],
    ),
]
