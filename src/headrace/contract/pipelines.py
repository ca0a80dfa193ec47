"""Pipelines: what every driver implements. See ``contract.store`` for what holds for all of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headrace.contract.op import Op
from headrace.contract.values import ProcSpec
from headrace.model.pipelines import Defined, Definition, PipelineInfo
from headrace.model.procs import ProcChanges, Status


class PipelineStore(Protocol):
    """Procs that share a definition, under a name: one proc per source.

    Every operation that names a pipeline raises ``UnknownPipeline`` first if there is none. A
    pipeline exists as long as any of its procs does: ``destroy`` of its last proc ends it.
    """

    def define_pipeline(
        self, name: str, specs: Sequence[ProcSpec], definition: Definition, changes: ProcChanges
    ) -> Op[PipelineInfo]:
        """Make the procs that are missing, and give all of them this definition and ``changes``.

        All or nothing, over however many sources. Procs that exist keep their place, whatever
        offset is given; a plain proc of the name and topic becomes the pipeline's.
        ``ProcNameTaken`` if one of the names is that of a proc of another topic, or of another
        pipeline. ``InvalidOption`` if the pipeline has a proc that ``specs`` leaves out: it
        would hold what it has not read for ever. Errors of ``create_proc`` besides.
        """
        ...

    def definition(self, pipeline: str) -> Op[Defined]:
        """The definition and the procs under it, by name. Costs one index look-up."""
        ...

    def pipeline(self, pipeline: str) -> Op[PipelineInfo]:
        """Return what is known of the pipeline."""
        ...

    def pipelines(self) -> Op[list[PipelineInfo]]:
        """List pipelines by name."""
        ...

    def switch_pipeline(self, pipeline: str, status: Status) -> Op[PipelineInfo]:
        """Disable or resume all of its procs that are not so already, as ``disable`` would.

        ``ProcAlreadyDisabled`` or ``ProcAlreadyActive`` if all of them are.
        """
        ...

    def seek_pipeline(self, pipeline: str, offset: str) -> Op[PipelineInfo]:
        """Move all of its procs, as ``seek`` would; ``UnknownSeq`` moves none."""
        ...

    def destroy_pipeline(self, pipeline: str) -> Op[PipelineInfo]:
        """Remove all of its procs and their claims; returns its last state."""
        ...
