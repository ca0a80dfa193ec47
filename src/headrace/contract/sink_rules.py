"""Rules of sinks that every driver follows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

import msgspec

from headrace.contract.sinks import QUEUE, Publication, Published, SinkInfo, Staged
from headrace.errors import SinkRewound, SinkTaken, StageLost, UnknownSink

_decode_published = msgspec.json.Decoder(Published).decode


def records_of(stages: Iterable[Staged]) -> dict[str, int]:
    """How many records the stages have for each target, by name."""
    total: dict[str, int] = {}
    for stage in stages:
        for count in stage.counts:
            total[count.target] = total.get(count.target, 0) + count.records
    return dict(sorted(total.items()))


def topics_of(records: Mapping[str, int]) -> list[str]:
    """The targets that are topics."""
    return [target for target in records if not target.startswith(QUEUE)]


def queues_of(records: Mapping[str, int]) -> list[str]:
    """The targets that are queues, by the queues' names."""
    return [target.removeprefix(QUEUE) for target in records if target.startswith(QUEUE)]


def replayed(sink: SinkInfo | None, publication: Publication) -> Published | None:
    """The first answer, if the sink has this batch already; None if it is to be written."""
    fence = publication.fence
    if sink is None or fence is None:
        return None
    if sink.query != fence.query:
        raise SinkTaken(
            f"sink {sink.name!r} belongs to query {sink.query}, which has written up to batch "
            f"{sink.batch}; this is query {fence.query}: its checkpoint is new, so nothing was "
            "written. Use the old checkpoint or, if it is lost, let the new query begin after "
            f"what was written and run: headrace sink reset {sink.name}",
            sink=sink.name,
            query=sink.query,
            batch=sink.batch,
        )
    if fence.batch > sink.batch:
        return None
    if fence.batch < sink.batch:
        raise SinkRewound(
            f"sink {sink.name!r} has written up to batch {sink.batch}, and this is batch "
            f"{fence.batch} of the same query: its checkpoint is older than what was written, "
            "as after a restore, so nothing was written. Start a query with a new checkpoint "
            f"after what was written and run: headrace sink reset {sink.name}",
            sink=sink.name,
            batch=sink.batch,
        )
    found = records_of(publication.stages)
    if found != sink.published.records and fence.on_replay == "check":
        raise SinkRewound(
            f"batch {fence.batch} of sink {sink.name!r} was written with "
            f"{_counted(sink.published.records)}, and its replay has {_counted(found)}: nothing "
            "was written. If the query gives other results each time, and the first ones stand, "
            "set the option on_replay to skip; if the checkpoint was put back, start a query "
            f"with a new one and run: headrace sink reset {sink.name}",
            sink=sink.name,
            batch=sink.batch,
        )
    return as_replay(sink.published)


def as_replay(published: Published) -> Published:
    """The first answer, given again."""
    return msgspec.structs.replace(published, is_replay=True)


def check_stage(stage: Staged, found: Mapping[str, tuple[int, int]]) -> None:
    """Raise ``StageLost`` unless the rows and records found are exactly those of the stage."""
    said = {count.target: (count.rows, count.records) for count in stage.counts}
    if said == found:
        return
    for target in sorted({*said, *found}):
        rows, records = said.get(target, (0, 0))
        rows_found, records_found = found.get(target, (0, 0))
        if (rows, records) != (rows_found, records_found):
            raise StageLost(
                f"{records} records in {rows} rows were staged for {target!r} under "
                f"{stage.token}, and {records_found} in {rows_found} are there: nothing was "
                "published; run the job again.",
                token=stage.token,
                target=target,
            )


def digest_of(publication: Publication) -> str:
    """A digest that distinguishes one publication from another."""
    return hashlib.blake2b(msgspec.json.encode(publication), digest_size=16).hexdigest()


def unknown_sink(name: str) -> UnknownSink:
    """The error for a sink that has never been written to, or was reset."""
    return UnknownSink(
        f"there is no sink {name!r}: it is made by the first batch that is written to it.",
        sink=name,
    )


def encode_published(published: Published) -> str:
    """Encode an answer for storage."""
    return msgspec.json.encode(published).decode()


def decode_published(text: str) -> Published:
    """Decode a stored answer."""
    return _decode_published(text)


def _counted(records: Mapping[str, int]) -> str:
    return ", ".join(f"{count} for {target!r}" for target, count in records.items()) or "nothing"
