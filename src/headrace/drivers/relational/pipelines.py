"""Pipelines in SQL: a name and a definition beside each of their procs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import msgspec

from headrace.contract.op import Op, Steps
from headrace.contract.values import ProcSpec
from headrace.drivers.relational.procs import Procs, proc_of
from headrace.drivers.relational.sql import Row
from headrace.model import pipelines as rules
from headrace.model import refusals
from headrace.model.pipelines import Defined, Definition, PipelineInfo, PipelineLane
from headrace.model.procs import ProcChanges, Status, switched
from headrace.model.procs import changed as with_changes


class Pipelines(Procs):
    """The pipeline operations over a dialect's statements."""

    def define_pipeline(
        self, name: str, specs: Sequence[ProcSpec], definition: Definition, changes: ProcChanges
    ) -> Op[PipelineInfo]:
        return Op(
            "define_pipeline",
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
                raise refusals.other_pipeline(row["name"], row["pipeline"])
            if row["name"] not in wanted:
                raise refusals.source_left_out(name, row["name"], row["topic"])
        text = msgspec.json.encode(definition).decode()
        for proc in sorted(wanted):
            yield self.sql.define_proc(proc=proc, pipeline=name, definition=text)
        return (yield from self._pipeline(name))

    def _add_missing(self, wanted: dict[str, ProcSpec], changes: ProcChanges) -> Steps[None]:
        """Make the procs there are not, and change the others.

        Procs are locked by name before heads, and those in one go: no order of two definitions
        makes them wait for each other.
        """
        missing = []
        for name in sorted(wanted):
            found = yield from self._find(name)
            if found is None:
                missing.append(name)
        if missing:
            yield from self.lock_heads(sorted({wanted[name].topic for name in missing}))
        for name in missing:
            yield from self._add(wanted[name], changes)
        for name in sorted(wanted):
            proc = yield from self._lock(name)
            if proc.state.topic != wanted[name].topic:
                raise refusals.name_taken(name, proc.state.topic, wanted[name].topic)
            state = with_changes(proc.state, changes)
            if state != proc.state:
                yield self._save(proc.id, state)

    def definition(self, pipeline: str) -> Op[Defined]:
        def steps() -> Steps[Defined]:
            rows = yield self.sql.definition(pipeline=pipeline)
            if not rows:
                raise refusals.unknown_pipeline(pipeline)
            lanes = [PipelineLane(r["name"], r["topic"], r["reclaim_timeout"]) for r in rows]
            return Defined(pipeline, _definition(rows[0]), tuple(lanes))

        return Op("definition", steps, writes=False)

    def pipeline(self, pipeline: str) -> Op[PipelineInfo]:
        return Op("pipeline", lambda: self._pipeline(pipeline), writes=False)

    def pipelines(self) -> Op[list[PipelineInfo]]:
        def steps() -> Steps[list[PipelineInfo]]:
            owned = yield self.sql.definitions(names=None)
            owned = sorted(owned, key=lambda row: (row["pipeline"], row["name"]))
            found = []
            for name, rows in groupby(owned, key=lambda row: row["pipeline"]):
                info = yield from self._composed(name, list(rows))
                found.append(info)
            return found

        return Op("pipelines", steps, writes=False)

    def switch_pipeline(self, pipeline: str, status: Status) -> Op[PipelineInfo]:
        def steps() -> Steps[PipelineInfo]:
            is_changed = False
            for name in (yield from self._procs_of(pipeline)):
                proc = yield from self._lock(name)
                if proc.state.status != status:
                    yield self._save(proc.id, switched(proc.state, status))
                    is_changed = True
            if not is_changed:
                raise refusals.already(pipeline, status)
            return (yield from self._pipeline(pipeline))

        return Op("switch_pipeline", steps)

    def seek_pipeline(self, pipeline: str, offset: str) -> Op[PipelineInfo]:
        def steps() -> Steps[PipelineInfo]:
            for name in (yield from self._procs_of(pipeline)):
                yield from self.seek(name, offset)
            return (yield from self._pipeline(pipeline))

        return Op("seek_pipeline", steps)

    def destroy_pipeline(self, pipeline: str) -> Op[PipelineInfo]:
        def steps() -> Steps[PipelineInfo]:
            names = yield from self._procs_of(pipeline)
            for name in names:
                yield from self._lock(name)
            last = yield from self._pipeline(pipeline)
            for name in names:
                yield from self.destroy(name)
            return last

        return Op("destroy_pipeline", steps)

    def _procs_of(self, pipeline: str) -> Steps[list[str]]:
        rows = yield self.sql.definition(pipeline=pipeline)
        if not rows:
            raise refusals.unknown_pipeline(pipeline)
        return [row["name"] for row in rows]

    def _pipeline(self, name: str) -> Steps[PipelineInfo]:
        rows = yield self.sql.definition(pipeline=name)
        if not rows:
            raise refusals.unknown_pipeline(name)
        return (yield from self._composed(name, rows))

    def _composed(self, name: str, owned: Sequence[Row]) -> Steps[PipelineInfo]:
        names = [row["name"] for row in owned]
        rows = yield self.sql.load_procs(topic=None, names=names, now=self.clock())
        procs = []
        for row in rows:
            proc = yield from self._info(proc_of(row))
            procs.append(proc)
        return rules.info(name, _definition(owned[0]), procs)


def _definition(row: Row) -> Definition:
    return msgspec.json.decode(row["definition"], type=Definition)
