"""Pipelines in memory."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.contract.op import Op, Steps
from headrace.contract.values import ProcSpec
from headrace.drivers.memory.topics import immediate
from headrace.model import error_messages
from headrace.model import pipelines as rules
from headrace.model.pipelines import Defined, Definition, PipelineInfo, PipelineProc
from headrace.model.topics.procs import ProcChanges, Status, switched

if TYPE_CHECKING:
    from headrace.drivers.memory.context import MemoryContext


class MemoryPipelines:
    """The pipeline operations."""

    def __init__(self, context: MemoryContext) -> None:
        self._context = context
        self.data = context.data
        self.now = context.now

    def define(
        self, name: str, specs: Sequence[ProcSpec], definition: Definition, changes: ProcChanges
    ) -> Op[PipelineInfo]:
        def steps() -> Steps[PipelineInfo]:
            for spec in specs:
                yield from self._context.procs.create(spec, changes)
            wanted = {spec.name for spec in specs}
            for proc, (owner, _) in sorted(self.data.definitions.items()):
                if proc in wanted and owner != name:
                    raise error_messages.other_pipeline(proc, owner)
                if owner == name and proc not in wanted:
                    raise error_messages.source_left_out(
                        name, proc, self._context.procs.get(proc)[0].topic
                    )
            for proc in wanted:
                self._context.topics.put(self.data.definitions, proc, (name, definition))
            return self._pipeline(name)

        return Op("pipelines.define", steps)

    def definition(self, pipeline: str) -> Op[Defined]:
        def act() -> Defined:
            states = [self._context.procs.get(proc)[0] for proc in self._procs_of(pipeline)]
            procs = [PipelineProc(s.name, s.topic, s.lease) for s in states]
            _, definition = self.data.definitions[states[0].name]
            return Defined(pipeline, definition, tuple(procs))

        return immediate("pipelines.definition", act, writes=False)

    def info(self, pipeline: str) -> Op[PipelineInfo]:
        return immediate("pipelines.info", lambda: self._pipeline(pipeline), writes=False)

    def list(self) -> Op[builtins.list[PipelineInfo]]:
        def act() -> list[PipelineInfo]:
            names = sorted({owner for owner, _ in self.data.definitions.values()})
            return [self._pipeline(name) for name in names]

        return immediate("pipelines.list", act, writes=False)

    def switch(self, pipeline: str, status: Status) -> Op[PipelineInfo]:
        def act() -> PipelineInfo:
            procs = [self._context.procs.get(proc) for proc in self._procs_of(pipeline)]
            others = [(state, claim) for state, claim in procs if state.status != status]
            if not others:
                raise error_messages.already(pipeline, status)
            for state, claim in others:
                self._context.procs.save(switched(state, status), claim)
            return self._pipeline(pipeline)

        return immediate("pipelines.switch", act)

    def seek(self, pipeline: str, offset: str) -> Op[PipelineInfo]:
        def steps() -> Steps[PipelineInfo]:
            for proc in self._procs_of(pipeline):
                yield from self._context.procs.seek(proc, offset)
            return self._pipeline(pipeline)

        return Op("pipelines.seek", steps)

    def delete(self, pipeline: str) -> Op[PipelineInfo]:
        def steps() -> Steps[PipelineInfo]:
            last = self._pipeline(pipeline)
            for proc in self._procs_of(pipeline):
                yield from self._context.procs.delete(proc)
            return last

        return Op("pipelines.delete", steps)

    def _procs_of(self, pipeline: str) -> builtins.list[str]:
        names = [proc for owner, proc in self._context.procs.owned() if owner == pipeline]
        if not names:
            raise error_messages.unknown_pipeline(pipeline)
        return names

    def _pipeline(self, name: str) -> PipelineInfo:
        procs = self._procs_of(name)
        _, definition = self.data.definitions[procs[0]]
        return rules.info(
            name,
            definition,
            [self._context.procs.info_of(*self._context.procs.get(proc)) for proc in procs],
        )
