"""Pipelines in memory."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.contract.op import Op, Steps
from headrace.contract.values import ProcSpec
from headrace.drivers.memory.procs import MemoryProcs
from headrace.drivers.memory.topics import immediate
from headrace.model import pipelines as rules
from headrace.model import refusals
from headrace.model.pipelines import Defined, Definition, PipelineInfo, PipelineLane
from headrace.model.procs import ProcChanges, Status, switched


class MemoryPipelines(MemoryProcs):
    """The pipeline operations."""

    def define_pipeline(
        self, name: str, specs: Sequence[ProcSpec], definition: Definition, changes: ProcChanges
    ) -> Op[PipelineInfo]:
        def steps() -> Steps[PipelineInfo]:
            for spec in specs:
                yield from self.create_proc(spec, changes)
            wanted = {spec.name for spec in specs}
            for proc, (owner, _) in sorted(self.data.definitions.items()):
                if proc in wanted and owner != name:
                    raise refusals.other_pipeline(proc, owner)
                if owner == name and proc not in wanted:
                    raise refusals.source_left_out(name, proc, self._get(proc)[0].topic)
            for proc in wanted:
                self.put(self.data.definitions, proc, (name, definition))
            return self._pipeline(name)

        return Op("define_pipeline", steps)

    def definition(self, pipeline: str) -> Op[Defined]:
        def act() -> Defined:
            states = [self._get(proc)[0] for proc in self._procs_of(pipeline)]
            lanes = [PipelineLane(s.name, s.topic, s.reclaim_timeout) for s in states]
            _, definition = self.data.definitions[states[0].name]
            return Defined(pipeline, definition, tuple(lanes))

        return immediate("definition", act, writes=False)

    def pipeline(self, pipeline: str) -> Op[PipelineInfo]:
        return immediate("pipeline", lambda: self._pipeline(pipeline), writes=False)

    def pipelines(self) -> Op[list[PipelineInfo]]:
        def act() -> list[PipelineInfo]:
            names = sorted({owner for owner, _ in self.data.definitions.values()})
            return [self._pipeline(name) for name in names]

        return immediate("pipelines", act, writes=False)

    def switch_pipeline(self, pipeline: str, status: Status) -> Op[PipelineInfo]:
        def act() -> PipelineInfo:
            procs = [self._get(proc) for proc in self._procs_of(pipeline)]
            others = [(state, hold) for state, hold in procs if state.status != status]
            if not others:
                raise refusals.already(pipeline, status)
            for state, hold in others:
                self._save(switched(state, status), hold)
            return self._pipeline(pipeline)

        return immediate("switch_pipeline", act)

    def seek_pipeline(self, pipeline: str, offset: str) -> Op[PipelineInfo]:
        def steps() -> Steps[PipelineInfo]:
            for proc in self._procs_of(pipeline):
                yield from self.seek(proc, offset)
            return self._pipeline(pipeline)

        return Op("seek_pipeline", steps)

    def destroy_pipeline(self, pipeline: str) -> Op[PipelineInfo]:
        def steps() -> Steps[PipelineInfo]:
            last = self._pipeline(pipeline)
            for proc in self._procs_of(pipeline):
                yield from self.destroy(proc)
            return last

        return Op("destroy_pipeline", steps)

    def _procs_of(self, pipeline: str) -> list[str]:
        names = [proc for owner, proc in self._owned() if owner == pipeline]
        if not names:
            raise refusals.unknown_pipeline(pipeline)
        return names

    def _pipeline(self, name: str) -> PipelineInfo:
        procs = self._procs_of(name)
        _, definition = self.data.definitions[procs[0]]
        return rules.info(name, definition, [self._info_of(*self._get(proc)) for proc in procs])
