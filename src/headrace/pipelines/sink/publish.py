"""What the driver does when all tasks have ended: publish the stages once, or discard them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from headrace.contract.sinks import Fence, Publication, Published, Staged
from headrace.contract.store import Store
from headrace.errors import StageLost
from headrace.pipelines.sink.options import SinkOptions


class PublishMessage(msgspec.Struct, frozen=True):
    """The message of a task to the driver: what it staged, and for which query."""

    staged: Staged
    query: str = ""


def publish_job(
    store: Store, options: SinkOptions, messages: Sequence[PublishMessage | None], job: str
) -> Published:
    """Publish the stages of a batch job; publishing the same job again does nothing."""
    publication = Publication(stages=_stages(messages), key=job, mode=options.mode)
    return _publish(store, publication)


def publish_batch(
    store: Store, options: SinkOptions, messages: Sequence[PublishMessage | None], batch: int
) -> Published | None:
    """Publish a batch of a stream, once; None if it had no tasks."""
    stages = _stages(messages)
    queries = {message.query for message in messages if message is not None}
    if not queries:
        return None
    [query] = queries
    fence = Fence(sink=options.sink, query=query, batch=batch, on_replay=options.on_replay)
    return _publish(store, Publication(stages=stages, fence=fence, mode=options.mode))


def discard(store: Store, messages: Iterable[PublishMessage | None]) -> None:
    """Remove the stages that tasks have reported; maintenance removes the others."""
    tokens = [message.staged.token for message in messages if message is not None]
    if tokens:
        store.run(store.sinks.discard(tokens))


def _publish(store: Store, publication: Publication) -> Published:
    published = store.run(store.sinks.publish(publication))
    # Removes what is left of the stages: files, or rows that a replay has staged again.
    store.run(store.sinks.discard([stage.token for stage in publication.stages]))
    return published


def _stages(messages: Sequence[PublishMessage | None]) -> tuple[Staged, ...]:
    """The stages, in the order of the partitions."""
    if None in messages:
        raise StageLost(
            f"task {messages.index(None)} did not report what it staged: nothing was published; "
            "run the job again."
        )
    return tuple(message.staged for message in messages if message is not None)
