"""Rows staged in files beside the database, one per token, and copied when they are published.

Staging needs no connection: a process that reads the database through another copy of SQLite, as
Spark's executors may, must not open it here. Nor does staging wait for a flush: if a crash lost
rows, their count no longer matches.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from headrace.contract.op import Op, Steps
from headrace.contract.sink_rules import check_stage, records_of, topics_of
from headrace.contract.sinks import QUEUE, Publication, Published, Staged
from headrace.contract.values import CommitPart
from headrace.drivers.sql_common.sinks import MAX_STAGES, SqlSinks, outcome_of
from headrace.drivers.sql_common.topics import Head
from headrace.drivers.sqlite.file_permissions import file_mode, make_file, make_folder
from headrace.errors import InvalidOption, StoreUnavailable
from headrace.model.tokens import batch_id

if TYPE_CHECKING:
    from headrace.drivers.sql_common.context import SqlContext

LENGTH: Final = 8
MAX_TOKEN_LENGTH: Final = 64

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(CommitPart).decode


class StageFiles:
    """The files of a database: ``<database>-stage/<token>``, each a sequence of framed rows."""

    def __init__(self, database: Path, clock: Callable[[], int | None]) -> None:
        self._database = database
        self.folder = database.with_name(f"{database.name}-stage")
        self._clock = clock

    def add(self, token: str, parts: Sequence[CommitPart]) -> None:
        """Append rows to the file of a token."""
        try:
            mode = file_mode(self._database)
            make_folder(self.folder, mode)
            make_file(self._file(token), mode)
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

    def rows(self, token: str) -> Iterator[CommitPart]:
        """The complete rows of a token."""
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
        """Tokens under which nothing was staged for this long."""
        now = self._clock()
        latest = (time.time() * 1000 if now is None else now) - age_ms
        found = []
        for file in self.folder.glob("*"):
            try:
                if file.stat().st_mtime * 1000 <= latest:
                    found.append(file.name)
            except FileNotFoundError:
                continue
        return sorted(found)[:MAX_STAGES]

    def _file(self, token: str) -> Path:
        # The token names a file, and must not lead elsewhere.
        if not (token.isascii() and token.isalnum() and len(token) <= MAX_TOKEN_LENGTH):
            raise InvalidOption(
                f"a token of a stage has letters and digits only, {MAX_TOKEN_LENGTH} at most.",
                option="token",
            )
        return self.folder / token


class SqliteSinks(SqlSinks):
    """Staging and publishing on SQLite."""

    def __init__(self, context: SqlContext, stages: StageFiles) -> None:
        super().__init__(context)
        self._stages = stages

    def stage(self, token: str, parts: Sequence[CommitPart]) -> Op[None]:
        def steps() -> Steps[None]:
            yield from ()
            self._stages.add(token, parts)

        return Op("sinks.stage", steps, writes=False)

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
        """Copy the rows of a stage, one at a time; returns how many documents were skipped."""
        said = {count.target for count in stage.counts}
        found: dict[str, tuple[int, int]] = {}
        skipped = 0
        for part in self._stages.rows(stage.token):
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
        # Checked at the end: raising rolls the transaction back.
        check_stage(stage, found)
        return skipped

    def discard(self, tokens: Sequence[str]) -> Op[None]:
        def steps() -> Steps[None]:
            yield from ()
            self._stages.discard(tokens)

        return Op("sinks.discard", steps, writes=False)

    def prune_stages(self, age_ms: int) -> Op[int]:
        def steps() -> Steps[int]:
            yield from ()
            tokens = self._stages.old(age_ms)
            self._stages.discard(tokens)
            return len(tokens)

        return Op("sinks.prune_stages", steps, writes=False)
