"""A stream: its position in each topic, and the end of its next batch.

Spark's checkpoint decides what is read. The stream's procs follow it: each has the position where
the last finished batch ended, so that retention keeps the records that a replay would read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.contract.store import Store
from headrace.contract.values import ProcSpec, RangeQuery
from headrace.errors import InvalidOption, UnknownSeq, UnknownTopic
from headrace.model.error_messages import unknown_seq
from headrace.model.topics.positions import FROM_NOW, FROM_START, parse_end
from headrace.model.topics.procs import ProcChanges
from headrace.model.topics.records import TopicInfo
from headrace.pipelines.source.options import SourceOptions
from headrace.pipelines.source.pages import removed_error
from headrace.pipelines.source.ranges import SeqRange, share, split

Offset = Mapping[str, int]


class StreamRead:
    """The driver's side of a stream. An offset maps each topic to the seq that is read next."""

    def __init__(self, store: Store, options: SourceOptions) -> None:
        self._store = store
        self._options = options
        self._positions: dict[str, int] = {}
        self._last_ends: dict[str, int] | None = None

    def initial(self) -> dict[str, int]:
        """The offset of a stream without a checkpoint: ``start``, otherwise that of its procs."""
        return {topic: self._initial_seq(topic) for topic in self._options.topics}

    def latest(self, start: Offset, max_records: int | None = None) -> dict[str, int]:
        """The end of a batch from ``start`` with at most ``max_records`` records.

        Spark asks when all records before ``start`` are processed. For a stream's last batch
        there is no other sign of that.
        """
        self._check_topics(start)
        ends = {topic: self._end(topic, start[topic]) for topic in self._options.topics}
        self.commit(start)
        if max_records is None:
            return ends
        pending = {topic: ends[topic] - start[topic] for topic in ends}
        allowed = share(pending, max_records)
        return {topic: start[topic] + allowed[topic] for topic in ends}

    def newest(self) -> dict[str, int]:
        """The present ends of the topics."""
        return {topic: self._info(topic).next_seq for topic in self._options.topics}

    def end_at_present(self) -> None:
        """Read the records that exist now, and no later ones."""
        self._last_ends = self.newest()

    def ranges(self, start: Offset, end: Offset) -> list[SeqRange]:
        """The ranges between two offsets, one per task; always the same records."""
        self._check_topics(end)
        return split(
            [SeqRange(topic, start.get(topic, 0), end[topic] - 1) for topic in end],
            self._options.partitions,
        )

    def commit(self, end: Offset) -> None:
        """Move the procs to ``end``: all records before it are processed."""
        for topic in self._options.topics:
            if end[topic] > self._positions.get(topic, 0):
                self._advance_proc(topic, end[topic])
                self._positions[topic] = end[topic]

    def _initial_seq(self, topic: str) -> int:
        info = self._info(topic)
        name = self._options.proc_of(topic)
        if not self._options.start:
            spec = ProcSpec(name=name, topic=topic, offset=FROM_START)
            proc = self._store.run(self._store.procs.create(spec, ProcChanges()))
            seq = info.next_seq if proc.position is None else proc.position
            self._check_available(info, seq)
            return seq
        seq = self._seq_of_start(info)
        self._place_proc(info, seq)
        return seq

    def _seq_of_start(self, info: TopicInfo) -> int:
        start = self._options.start
        if start == FROM_START:
            return info.first_seq
        if start == FROM_NOW:
            return info.next_seq
        position = parse_end(start)
        if position.is_seq and position.seq == info.next_seq:
            return info.next_seq  # directly behind the last record: a new checkpoint for an old one
        if not info.next_seq:
            if position.seq is not None and position.is_seq:
                raise unknown_seq(info.name, position.seq, 0, 0)
            return 0  # all records will be later than that
        query = RangeQuery(topic=info.name, start=position, limit=1, max_bytes=1)
        return self._store.run(self._store.topics.read(query)).low

    def _place_proc(self, info: TopicInfo, seq: int) -> None:
        """Create the proc, or move it, so that its position is ``seq``."""
        spec = ProcSpec(
            name=self._options.proc_of(info.name), topic=info.name, offset=_offset_before(info, seq)
        )
        proc = self._store.run(self._store.procs.create(spec, ProcChanges()))
        if proc.position is None or proc.position != seq:
            self._store.run(self._store.procs.seek(proc.name, spec.offset))
        self._positions[info.name] = seq

    def _advance_proc(self, topic: str, seq: int) -> None:
        proc = self._store.run(self._store.procs.info(self._options.proc_of(topic)))
        if proc.position is None or proc.position < seq:
            self._store.run(self._store.procs.seek(proc.name, f":{seq - 1}"))

    def _end(self, topic: str, start: int) -> int:
        info = self._info(topic)
        self._check_available(info, start)
        if topic not in self._positions:
            # After a restart: retention must keep the records behind the checkpoint.
            self._place_proc(info, start)
        if self._last_ends is None:
            return info.next_seq
        return max(start, min(info.next_seq, self._last_ends[topic]))

    def _check_available(self, info: TopicInfo, start: int) -> None:
        if start < info.first_seq:
            missing = SeqRange(info.name, start, info.first_seq - 1)
            raise removed_error(missing, self._options.proc_of(info.name))
        if start > info.next_seq:
            raise UnknownSeq(
                f"the checkpoint continues at record :{start} of topic {info.name!r}, which ends "
                f"before :{info.next_seq}: it was made with another database, or this one was "
                "restored from a backup. Start with a new checkpoint.",
                topic=info.name,
                seq=start,
            )

    def _check_topics(self, offset: Offset) -> None:
        if set(offset) != set(self._options.topics):
            raise InvalidOption(
                f"the checkpoint is for {_listed(offset)}, and the option topic names "
                f"{_listed(self._options.topics)}: start the changed stream with a new checkpoint.",
                option="topic",
            )

    def _info(self, topic: str) -> TopicInfo:
        """The topic; an unknown topic is one whose producer has not started yet."""
        try:
            return self._store.run(self._store.topics.info(topic))
        except UnknownTopic:
            return TopicInfo(topic, first_seq=0, next_seq=0, last_ts=0)


def _offset_before(info: TopicInfo, seq: int) -> str:
    """The offset of a proc that claims ``seq`` next."""
    return FROM_START if seq <= info.first_seq else f":{seq - 1}"


def _listed(topics: Iterable[str]) -> str:
    return ", ".join(sorted(topics))
