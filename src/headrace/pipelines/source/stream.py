"""A stream: where it stands in each topic, and how far its next batch goes.

Spark's checkpoint decides what is read. The stream's procs follow it: each stands where the
last finished batch ended, so that collection leaves what a replay would read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.contract.store import Store
from headrace.contract.values import ProcSpec, RangeQuery
from headrace.errors import InvalidOption, UnknownSeq
from headrace.model.position import FROM_NOW, FROM_START, parse_end
from headrace.model.procs import ProcChanges
from headrace.model.record import TopicInfo
from headrace.pipelines.source.options import SourceOptions
from headrace.pipelines.source.pages import collected
from headrace.pipelines.source.ranges import SeqRange, share, split

Offset = Mapping[str, int]


class StreamRead:
    """The driver's side of a stream. An offset is, by topic, the seq that is read next."""

    def __init__(self, store: Store, options: SourceOptions) -> None:
        self._store = store
        self._options = options
        self._standing: dict[str, int] = {}
        self._final: dict[str, int] | None = None

    def initial(self) -> dict[str, int]:
        """Where a stream without a checkpoint begins: at ``start``, or else at its procs."""
        return {topic: self._begin(topic) for topic in self._options.topics}

    def latest(self, start: Offset, most: int | None = None) -> dict[str, int]:
        """How far a batch from ``start`` goes, with at the most so many records.

        Spark asks when all before ``start`` is done; of a stream's last batch it says so in
        no other way.
        """
        self._check_topics(start)
        ends = {topic: self._end(topic, start[topic]) for topic in self._options.topics}
        self.commit(start)
        if most is None:
            return ends
        waiting = {topic: ends[topic] - start[topic] for topic in ends}
        allowed = share(waiting, most)
        return {topic: start[topic] + allowed[topic] for topic in ends}

    def newest(self) -> dict[str, int]:
        """Where the topics end now: how far the stream could go."""
        return {topic: self._info(topic).next_seq for topic in self._options.topics}

    def end_at_present(self) -> None:
        """Read what there is now, and then nothing more."""
        self._final = self.newest()

    def ranges(self, start: Offset, end: Offset) -> list[SeqRange]:
        """The stretches between two offsets, one per task; always the same records."""
        self._check_topics(end)
        return split(
            [SeqRange(topic, start.get(topic, 0), end[topic] - 1) for topic in end],
            self._options.partitions,
        )

    def commit(self, end: Offset) -> None:
        """All before ``end`` was processed and will not be asked for again."""
        for topic in self._options.topics:
            if end[topic] > self._standing.get(topic, -1):
                self._stand(topic, end[topic])
                self._standing[topic] = end[topic]

    def _begin(self, topic: str) -> int:
        info = self._info(topic)
        name = self._options.proc_of(topic)
        if not self._options.start:
            spec = ProcSpec(name=name, topic=topic, offset=FROM_START)
            proc = self._store.run(self._store.create_proc(spec, ProcChanges()))
            seq = info.next_seq if proc.position is None else proc.position
            self._check_there(info, seq)
            return seq
        seq = self._seq_of_start(info)
        self._take_place(info, seq)
        return seq

    def _seq_of_start(self, info: TopicInfo) -> int:
        start = self._options.start
        if start == FROM_START:
            return info.first_seq
        if start == FROM_NOW:
            return info.next_seq
        place = parse_end(start)
        if place.is_seq and place.seq == info.next_seq:
            return info.next_seq  # right after what was read last: a new checkpoint for an old one
        query = RangeQuery(topic=info.name, start=place, limit=1, max_bytes=1)
        return self._store.run(self._store.read(query)).low

    def _take_place(self, info: TopicInfo, seq: int) -> None:
        """Make the proc, or move it if it stands behind: records from ``seq`` on are wanted."""
        spec = ProcSpec(
            name=self._options.proc_of(info.name), topic=info.name, offset=_before(info, seq)
        )
        proc = self._store.run(self._store.create_proc(spec, ProcChanges()))
        if proc.position is None or proc.position != seq:
            self._store.run(self._store.seek(proc.name, spec.offset))
        self._standing[info.name] = seq

    def _stand(self, topic: str, seq: int) -> None:
        proc = self._store.run(self._store.inspect(self._options.proc_of(topic)))
        if proc.position is None or proc.position < seq:
            self._store.run(self._store.seek(proc.name, f":{seq - 1}"))

    def _end(self, topic: str, start: int) -> int:
        info = self._info(topic)
        self._check_there(info, start)
        if topic not in self._standing:
            # After a restart: the checkpoint was kept, and so must be what it names.
            self._take_place(info, start)
        if self._final is None:
            return info.next_seq
        return max(start, min(info.next_seq, self._final[topic]))

    def _check_there(self, info: TopicInfo, start: int) -> None:
        if start < info.first_seq:
            gone = SeqRange(info.name, start, info.first_seq - 1)
            raise collected(gone, self._options.proc_of(info.name))
        if start > info.next_seq:
            raise UnknownSeq(
                f"the checkpoint goes on at record :{start} of topic {info.name!r}, which ends "
                f"before :{info.next_seq}: it was made with another database, or this one was "
                "restored from a backup. Start with a new checkpoint.",
                topic=info.name,
                seq=start,
            )

    def _check_topics(self, offset: Offset) -> None:
        if set(offset) != set(self._options.topics):
            raise InvalidOption(
                f"the checkpoint is of {_listed(offset)}, and the option topic says "
                f"{_listed(self._options.topics)}: start the changed stream with a new checkpoint.",
                option="topic",
            )

    def _info(self, topic: str) -> TopicInfo:
        return self._store.run(self._store.topic_info(topic))


def _before(info: TopicInfo, seq: int) -> str:
    """The offset of a proc that hands out ``seq`` next."""
    return FROM_START if seq <= info.first_seq else f":{seq - 1}"


def _listed(topics: Iterable[str]) -> str:
    return ", ".join(sorted(topics))
