"""Pipelines in SQL: a name and a definition beside each of their procs."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import msgspec

from headrace.contract.op import Op, Steps
from headrace.contract.values import ProcSpec
from headrace.drivers.sql_common.procs import proc_of
from headrace.drivers.sql_common.statements import Row
from headrace.model import error_messages
from headrace.model import pipelines as rules
from headrace.model.pipelines import Defined, Definition, PipelineInfo, PipelineProc
from headrace.model.topics.procs import ProcChanges, Status, switched
from headrace.model.topics.procs import changed as with_changes

if TYPE_CHECKING:
    from headrace.drivers.sql_common.context import SqlContext


class SqlPipelines:
    """The pipeline operations over a dialect's statements."""

    def __init__(self, context: SqlContext) -> None:
        self._context = context
        self.sql = context.sql
        self.clock = context.clock

    def define(
        self, name: str, specs: Sequence[ProcSpec], definition: Definition, changes: ProcChanges
    ) -> Op[PipelineInfo]:
        return Op(
            "pipelines.define",
            lambda: self._define(name, specs, definition, changes),
            repeatable=True,
        )

    def _define(
        self, name: str, specs: Sequence[ProcSpec], definition: Definition, changes: ProcChanges
    ) -> Steps[PipelineInfo]:
        wanted = {spec.name: spec for spec in specs}
        yield from self._add_missing(wanted, changes)
        owned = yield self.sql.definitions(names=[name, *wanted])
        for row in owned:
            if row["pipeline"] != name:
                raise error_messages.other_pipeline(row["name"], row["pipeline"])
            if row["name"] not in wanted:
                raise error_messages.source_left_out(name, row["name"], row["topic"])
        text = msgspec.json.encode(definition).decode()
        for proc in sorted(wanted):
            yield self.sql.define_proc(proc=proc, pipeline=name, definition=text)
        return (yield from self._pipeline(name))

    def _add_missing(self, wanted: dict[str, ProcSpec], changes: ProcChanges) -> Steps[None]:
        """Make the missing procs, and change the others.

        Procs are locked by name before heads, and all heads in one statement, so that two
        definitions cannot deadlock.
        """
        missing = []
        for name in sorted(wanted):
            found = yield from self._context.procs.find_state(name)
            if found is None:
                missing.append(name)
        if missing:
            yield from self._context.topics.lock_heads(
                sorted({wanted[name].topic for name in missing})
            )
        for name in missing:
            yield from self._context.procs.add(wanted[name], changes)
        for name in sorted(wanted):
            proc = yield from self._context.procs.lock(name)
            if proc.state.topic != wanted[name].topic:
                raise error_messages.name_taken(name, proc.state.topic, wanted[name].topic)
            state = with_changes(proc.state, changes)
            if state != proc.state:
                yield self._context.procs.save(proc.id, state)

    def definition(self, pipeline: str) -> Op[Defined]:
        def steps() -> Steps[Defined]:
            rows = yield self.sql.definition(pipeline=pipeline)
            if not rows:
                raise error_messages.unknown_pipeline(pipeline)
            procs = [PipelineProc(r["name"], r["topic"], r["lease"]) for r in rows]
            return Defined(pipeline, _definition(rows[0]), tuple(procs))

        return Op("pipelines.definition", steps, writes=False)

    def info(self, pipeline: str) -> Op[PipelineInfo]:
        return Op("pipelines.info", lambda: self._pipeline(pipeline), writes=False)

    def list(self) -> Op[builtins.list[PipelineInfo]]:
        def steps() -> Steps[list[PipelineInfo]]:
            owned = yield self.sql.definitions(names=None)
            owned = sorted(owned, key=lambda row: (row["pipeline"], row["name"]))
            found = []
            for name, rows in groupby(owned, key=lambda row: row["pipeline"]):
                info = yield from self._composed(name, list(rows))
                found.append(info)
            return found

        return Op("pipelines.list", steps, writes=False)

    def switch(self, pipeline: str, status: Status) -> Op[PipelineInfo]:
        def steps() -> Steps[PipelineInfo]:
            is_changed = False
            for name in (yield from self._procs_of(pipeline)):
                proc = yield from self._context.procs.lock(name)
                if proc.state.status != status:
                    yield self._context.procs.save(proc.id, switched(proc.state, status))
                    is_changed = True
            if not is_changed:
                raise error_messages.already(pipeline, status)
            return (yield from self._pipeline(pipeline))

        return Op("pipelines.switch", steps)

    def seek(self, pipeline: str, offset: str) -> Op[PipelineInfo]:
        def steps() -> Steps[PipelineInfo]:
            for name in (yield from self._procs_of(pipeline)):
                yield from self._context.procs.seek(name, offset)
            return (yield from self._pipeline(pipeline))

        return Op("pipelines.seek", steps)

    def delete(self, pipeline: str) -> Op[PipelineInfo]:
        def steps() -> Steps[PipelineInfo]:
            names = yield from self._procs_of(pipeline)
            for name in names:
                yield from self._context.procs.lock(name)
            last = yield from self._pipeline(pipeline)
            for name in names:
                yield from self._context.procs.delete(name)
            return last

        return Op("pipelines.delete", steps)

    def _procs_of(self, pipeline: str) -> Steps[builtins.list[str]]:
        rows = yield self.sql.definition(pipeline=pipeline)
        if not rows:
            raise error_messages.unknown_pipeline(pipeline)
        return [row["name"] for row in rows]

    def _pipeline(self, name: str) -> Steps[PipelineInfo]:
        rows = yield self.sql.definition(pipeline=name)
        if not rows:
            raise error_messages.unknown_pipeline(name)
        return (yield from self._composed(name, rows))

    def _composed(self, name: str, owned: Sequence[Row]) -> Steps[PipelineInfo]:
        names = [row["name"] for row in owned]
        rows = yield self.sql.load_procs(topic=None, names=names, now=self.clock())
        procs = []
        for row in rows:
            proc = yield from self._context.procs.info_of(proc_of(row))
            procs.append(proc)
        return rules.info(name, _definition(owned[0]), procs)


def _definition(row: Row) -> Definition:
    return msgspec.json.decode(row["definition"], type=Definition)
