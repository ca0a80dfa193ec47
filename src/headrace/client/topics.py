"""References to topics: what can be done with one, in short."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.client import moving
from headrace.client.following import AsyncFollower, AsyncReplay, Follower, Replay
from headrace.core.commits import Headers
from headrace.core.following import Payload, Subject, follow, replay_name
from headrace.errors import InvalidOption
from headrace.model.names import check_topic
from headrace.model.position import FROM_START, check_offset
from headrace.model.record import TopicInfo

if TYPE_CHECKING:
    from headrace.client.clients import AsyncClient, Client


class Topic:
    """A topic by name. It need not exist yet."""

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self.name = check_topic(name)

    def commit(self, body: Any, *, headers: Headers | None = None, key: str | None = None) -> str:
        """The client's ``commit``, to this topic."""
        return self._client.commit(self.name, body, headers=headers, key=key)

    def info(self) -> TopicInfo:
        """The client's ``topic_info`` of this topic."""
        return self._client.topic_info(self.name)

    def to_queue(
        self,
        queue: str,
        *,
        subject: Subject = None,
        payload: Payload = None,
        priority: int = 0,
        name: str | None = None,
        offset: str = FROM_START,
    ) -> Follower:
        """Follow the topic into a queue, each record exactly once.

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
            max_body=self._client._calls.max_body,
        )
        return Follower(self._client, spec, check_offset(offset))

    def replay(
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
    ) -> Replay:
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
            max_body=self._client._calls.max_body,
        )
        title = name or replay_name(self.name, queue, (start, end))
        plan = moving.begin_replay(self._client._store, spec, title, start, end)
        begun, first, last = self._client._follow(plan)
        return Replay(self._client, begun, first, last, rate)


class AsyncTopic:
    """``Topic`` for async code."""

    def __init__(self, client: AsyncClient, name: str) -> None:
        self._client = client
        self.name = check_topic(name)

    async def commit(
        self, body: Any, *, headers: Headers | None = None, key: str | None = None
    ) -> str:
        return await self._client.commit(self.name, body, headers=headers, key=key)

    async def info(self) -> TopicInfo:
        return await self._client.topic_info(self.name)

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
        spec = follow(
            self.name,
            queue,
            name=name,
            subject=subject,
            payload=payload,
            priority=priority,
            max_body=self._client._calls.max_body,
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
        _check_rate(rate)
        spec = follow(
            self.name,
            queue,
            name=None,
            subject=subject,
            payload=payload,
            priority=priority,
            max_body=self._client._calls.max_body,
        )
        title = name or replay_name(self.name, queue, (start, end))
        plan = moving.begin_replay(self._client._store, spec, title, start, end)
        begun, first, last = await self._client._follow(plan)
        return AsyncReplay(self._client, begun, first, last, rate)


def _check_rate(rate: object) -> None:
    if rate is None or (isinstance(rate, (int, float)) and rate > 0):
        return
    raise InvalidOption(f"rate is {rate!r}: use records a second, above zero.", option="rate")
