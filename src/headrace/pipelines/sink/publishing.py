"""What the driver does when all tasks are done: publish, once, or give up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from headrace.contract.sinks import Fence, Publication, Published, Staged
from headrace.contract.store import Store
from headrace.errors import StageLost
from headrace.pipelines.sink.options import SinkOptions


class Message(msgspec.Struct, frozen=True):
    """What a task tells the driver: what it staged, and for which query."""

    staged: Staged
    query: str = ""


def publish_job(
    store: Store, options: SinkOptions, messages: Sequence[Message | None], job: str
) -> Published:
    """Publish what the tasks of a batch job have staged; the same job again does nothing."""
    publication = Publication(stages=_stages(messages), key=job, mode=options.mode)
    return _publish(store, publication)


def publish_batch(
    store: Store, options: SinkOptions, messages: Sequence[Message | None], batch: int
) -> Published | None:
    """Publish a batch of a stream, once; None if it had no tasks at all."""
    stages = _stages(messages)
    queries = {message.query for message in messages if message is not None}
    if not queries:
        return None
    [query] = queries
    fence = Fence(sink=options.sink, query=query, batch=batch, on_replay=options.on_replay)
    return _publish(store, Publication(stages=stages, fence=fence, mode=options.mode))


def discard(store: Store, messages: Iterable[Message | None]) -> None:
    """Remove what tasks have staged, as far as they came to say so; the rest is collected."""
    tokens = [message.staged.token for message in messages if message is not None]
    if tokens:
        store.run(store.discard(tokens))


def _publish(store: Store, publication: Publication) -> Published:
    published = store.run(store.publish(publication))
    # What is left of it: files, or all that a replay has staged again.
    store.run(store.discard([stage.token for stage in publication.stages]))
    return published


def _stages(messages: Sequence[Message | None]) -> tuple[Staged, ...]:
    """What was staged, in the order of the partitions."""
    if None in messages:
        raise StageLost(
            f"task {messages.index(None)} did not say what it staged: nothing was published; "
            "run the job again."
        )
    return tuple(message.staged for message in messages if message is not None)
