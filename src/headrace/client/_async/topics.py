"""Topics: references to one, and the topics of a store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Any

from headrace.client._async.follower import AsyncFollower
from headrace.client._async.replay import AsyncReplay
from headrace.client.workflows import topic_to_queue
from headrace.client.workflows.maintenance import (
    DEFAULT_MIN_AGE,
    INTERVAL,
    keep_all_op,
    keep_op,
)
from headrace.client.workflows.redrive import FASTEST
from headrace.core.commits import Headers
from headrace.core.requests.request import Request
from headrace.core.requests.topics import MAX_TOPICS, Receipt
from headrace.core.topic_to_queue import Payload, Subject, follow, replay_name
from headrace.errors import InvalidOption
from headrace.model.fields import shown
from headrace.model.names import check_topic
from headrace.model.times import Duration
from headrace.model.topics.positions import FROM_START, check_offset
from headrace.model.topics.records import Record, TopicInfo
from headrace.model.topics.retention import Retention

if TYPE_CHECKING:
    from headrace.client._async.client import AsyncClient
    from headrace.client._async.operations import AsyncOperations
    from headrace.client._async.transactions import AsyncTransaction


Infos = list[TopicInfo]
Records = list[Record]
Ids = list[str]


class AsyncTopicReader:
    """A topic by name, to be read. It need not exist yet."""

    def __init__(self, client: AsyncOperations, name: str) -> None:
        self._client = client
        self.name = check_topic(name)

    async def range(
        self,
        start: str | None = None,
        end: str | None = None,
        *,
        exclusive: bool = False,
        limit: int | None = None,
        reverse: bool = False,
    ) -> Records:
        """The client's ``range``, of this topic."""
        return await self._client.range(
            self.name, start, end, exclusive=exclusive, limit=limit, reverse=reverse
        )

    def iterate(
        self,
        start: str | None = None,
        end: str | None = None,
        *,
        exclusive: bool = False,
        limit: int | None = None,
        reverse: bool = False,
    ) -> AsyncIterator[Record]:
        """The client's ``iterate``, of this topic."""
        return self._client.iterate(
            self.name, start, end, exclusive=exclusive, limit=limit, reverse=reverse
        )

    async def length(self) -> int:
        """How many records the topic has now."""
        return await self._client._run(self._client._requests.topics.length(self.name))

    async def info(self) -> TopicInfo:
        """The topic's head: first and next sequence number, last timestamp."""
        return await self._client._run(self._client._requests.topics.info(self.name))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {shown(self.name)}>"


class AsyncTransactionTopic(AsyncTopicReader):
    """A topic by name, in a transaction."""

    _client: AsyncTransaction

    async def commit(
        self, body: Any, *, headers: Headers | None = None, key: str | None = None
    ) -> Receipt:
        """The transaction's ``commit``, to this topic."""
        return await self._client.commit(self.name, body, headers=headers, key=key)

    async def commit_many(
        self, bodies: Iterable[Any], *, headers: Headers | None = None, key: str | None = None
    ) -> Receipt:
        """The transaction's ``commit_many``, to this topic."""
        return await self._client.commit_many(self.name, bodies, headers=headers, key=key)


class AsyncTopic(AsyncTopicReader):
    """A topic by name. It need not exist yet.

    >>> orders = hr.topic("orders")
    >>> await orders.commit({"order": 7})
    """

    _client: AsyncClient

    async def commit(
        self, body: Any, *, headers: Headers | None = None, key: str | None = None
    ) -> str:
        """The client's ``commit``, to this topic."""
        return await self._client.commit(self.name, body, headers=headers, key=key)

    async def commit_many(
        self, bodies: Iterable[Any], *, headers: Headers | None = None, key: str | None = None
    ) -> Ids:
        """The client's ``commit_many``, to this topic."""
        return await self._client.commit_many(self.name, bodies, headers=headers, key=key)

    async def set_retention(
        self, *, min_age: Duration | None = DEFAULT_MIN_AGE, max_age: Duration | None = None
    ) -> TopicInfo:
        """Let old records be collected, which by default they never are.

        Those older than ``min_age`` go once every proc has passed them, disabled ones
        included, and is two claims further. Those older than ``max_age`` go in any case, and
        a proc that had not passed them gets ``ProcOvertaken`` until it is sought. None for
        both ends collection. Maintenance does the work.
        """
        op = keep_op(self._client._open_store, self.name, min_age, max_age)
        info: TopicInfo = await self._client._run(Request(op))
        return info

    def to_queue(
        self,
        queue: str,
        *,
        subject: Subject = None,
        payload: Payload = None,
        priority: int = 0,
        name: str | None = None,
        offset: str = FROM_START,
    ) -> AsyncFollower:
        """Follow the topic into a queue, each record exactly once. Creates nothing before it runs.

        ``subject`` names a field of the body or is a function of the record, and makes items
        unique; ``payload`` is a function of the record, and the body without one. ``name`` is
        that of the proc behind it (``<topic>-to-<queue>``), ``offset`` where a new one begins.
        """
        spec = follow(
            self.name,
            queue,
            name=name,
            subject=subject,
            payload=payload,
            priority=priority,
            max_body=self._client._requests.max_body,
        )
        return AsyncFollower(self._client, spec, check_offset(offset))

    async def replay(
        self,
        queue: str,
        start: str | None = None,
        end: str | None = None,
        *,
        rate: float | None = None,
        subject: Subject = None,
        payload: Payload = None,
        priority: int = 0,
        name: str | None = None,
    ) -> AsyncReplay:
        """Push a range of records to a queue, at most ``rate`` a second.

        The ends are as in ``range``, and are fixed when the replay is first made: one of the
        same name goes on with that. See ``Replay``.
        """
        _check_rate(rate)
        spec = follow(
            self.name,
            queue,
            name=None,
            subject=subject,
            payload=payload,
            priority=priority,
            max_body=self._client._requests.max_body,
        )
        title = name or replay_name(self.name, queue, (start, end))
        plan = topic_to_queue.begin_replay(self._client._store, spec, title, start, end)
        begun, first, last = await self._client._follow(plan)
        return AsyncReplay(self._client, begun, first, last, rate)


def _check_rate(rate: object) -> None:
    if rate is None or (isinstance(rate, (int, float)) and 0 < rate <= FASTEST):
        return
    raise InvalidOption(f"rate is {shown(rate)}: use records a second, above zero.", option="rate")


class AsyncTopics:
    """The topics of a store, for async code."""

    def __init__(self, client: AsyncOperations) -> None:
        self._client = client

    async def list(self, *, prefix: str = "", after: str = "", limit: int = MAX_TOPICS) -> Infos:
        """Topics by name; go on with ``after`` the last one."""
        return await self._client._run(self._client._requests.topics.listing(prefix, after, limit))


class AsyncClientTopics(AsyncTopics):
    """The topics of a store, outside a transaction."""

    _client: AsyncClient

    async def set_retention(
        self,
        *,
        min_age: Duration | None = DEFAULT_MIN_AGE,
        max_age: Duration | None = None,
        interval: Duration = INTERVAL,
    ) -> Retention:
        """Let old records of all topics be collected, later topics included.

        A topic with ages of its own (``topic.set_retention``) keeps those.

        ``interval`` is how often maintenance is done by clients that run workers, live procs or
        pipelines. None for both ages ends collection.
        """
        op = keep_all_op(self._client._open_store, min_age, max_age, interval)
        retention: Retention = await self._client._run(Request(op))
        return retention
