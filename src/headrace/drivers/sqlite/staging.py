"""Rows staged in files beside the database, one per token, and copied when they are published.

Those who stage need no connection: a process that reads the database through another copy of
SQLite, as Spark's executors may, must not open it here. Nor need they wait for the disk: what
a crash took away is missed by the count.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from headrace.contract.op import Op, Steps
from headrace.contract.sink_rules import check_stage, records_of, topics_of
from headrace.contract.sinks import QUEUE, Publication, Published, Staged
from headrace.contract.values import Part
from headrace.drivers.relational.sinks import MOST_STAGES, Sinks, outcome_of
from headrace.drivers.relational.topics import Head
from headrace.errors import StoreUnavailable
from headrace.model.tokens import batch_id

LENGTH: Final = 8

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Part).decode


class StageFiles:
    """The files of a database: ``<database>-stage/<token>``, each a run of framed rows."""

    def __init__(self, database: Path, clock: Callable[[], int | None]) -> None:
        self.folder = database.with_name(f"{database.name}-stage")
        self._clock = clock

    def add(self, token: str, parts: Sequence[Part]) -> None:
        """Put rows behind those that are there."""
        try:
            self.folder.mkdir(exist_ok=True)
            with self._file(token).open("ab") as file:
                for part in parts:
                    frame = _encode(part)
                    file.write(len(frame).to_bytes(LENGTH, "big"))
                    file.write(frame)
        except OSError as error:
            raise StoreUnavailable(
                f"cannot stage in {self.folder}: {error.strerror}. Every process that writes "
                "must see the database's folder and be allowed to write there; if Spark's "
                "executors run on other machines, use PostgreSQL.",
                path=str(self.folder),
            ) from error
        self._touch(token)

    def _touch(self, token: str) -> None:
        """Date the file by the clock of tests, if there is one."""
        now = self._clock()
        if now is not None:
            os.utime(self._file(token), (now / 1000, now / 1000))

    def rows(self, token: str) -> Iterator[Part]:
        """The rows of a token, as far as they are there."""
        try:
            with self._file(token).open("rb") as file:
                while len(head := file.read(LENGTH)) == LENGTH:
                    length = int.from_bytes(head, "big")
                    frame = file.read(length)
                    if len(frame) < length:
                        return
                    yield _decode(frame)
        except FileNotFoundError:
            return

    def discard(self, tokens: Sequence[str]) -> None:
        """Remove the files of tokens."""
        for token in tokens:
            self._file(token).unlink(missing_ok=True)

    def old(self, age_ms: int) -> list[str]:
        """Tokens under which nothing was staged for so long."""
        now = self._clock()
        latest = (time.time() * 1000 if now is None else now) - age_ms
        found = []
        for file in self.folder.glob("*"):
            try:
                if file.stat().st_mtime * 1000 <= latest:
                    found.append(file.name)
            except FileNotFoundError:
                continue
        return sorted(found)[:MOST_STAGES]

    def _file(self, token: str) -> Path:
        assert token.isalnum(), "a token names a file"
        return self.folder / token


class Staging(Sinks):
    """Staging and publishing on SQLite."""

    stages: StageFiles

    def stage(self, token: str, parts: Sequence[Part]) -> Op[None]:
        def steps() -> Steps[None]:
            yield from ()
            self.stages.add(token, parts)

        return Op("stage", steps, writes=False)

    def published(self, publication: Publication) -> Steps[Published]:
        heads, ts = yield from self.heads_of(topics_of(records_of(publication.stages)))
        upcoming = {name: head.next_seq for name, head in heads.items()}
        skipped = 0
        for stage in publication.stages:
            skipped += yield from self._copy(stage, publication, heads, upcoming, ts)
        for name, head in heads.items():
            yield self.sql.move_head(topic=head.id, next_seq=upcoming[name], ts=ts)
        return outcome_of(publication, heads, ts, skipped)

    def _copy(
        self,
        stage: Staged,
        publication: Publication,
        heads: dict[str, Head],
        upcoming: dict[str, int],
        ts: int,
    ) -> Steps[int]:
        """Copy the rows of a stage, one at a time; how many documents were skipped."""
        said = {count.target for count in stage.counts}
        found: dict[str, tuple[int, int]] = {}
        skipped = 0
        for part in self.stages.rows(stage.token):
            rows, records = found.get(part.topic, (0, 0))
            found[part.topic] = (rows + 1, records + part.count)
            if part.topic not in said:
                break
            if part.topic.startswith(QUEUE):
                queue = part.topic.removeprefix(QUEUE)
                skipped += yield from self.push_staged(queue, part.body, publication)
                continue
            yield self.sql.add_batch(
                id=batch_id(),
                topic=heads[part.topic].id,
                base_seq=upcoming[part.topic],
                count=part.count,
                ts=ts,
                body=part.body,
                headers=part.headers,
            )
            upcoming[part.topic] += part.count
        # Here, at the end: raising leaves nothing of the transaction.
        check_stage(stage, found)
        return skipped

    def discard(self, tokens: Sequence[str]) -> Op[None]:
        def steps() -> Steps[None]:
            yield from ()
            self.stages.discard(tokens)

        return Op("discard", steps, writes=False)

    def collect_stages(self, age_ms: int) -> Op[int]:
        def steps() -> Steps[int]:
            yield from ()
            tokens = self.stages.old(age_ms)
            self.stages.discard(tokens)
            return len(tokens)

        return Op("collect_stages", steps, writes=False)
