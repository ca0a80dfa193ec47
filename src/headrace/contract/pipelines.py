"""Pipelines: what every driver implements. See ``contract.store`` for the rules of all parts."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Protocol

from headrace.contract.flags import reads, writes
from headrace.contract.op import Op
from headrace.contract.values import ProcSpec
from headrace.model.pipelines import Defined, Definition, PipelineInfo
from headrace.model.topics.procs import ProcChanges, Status


class PipelineStore(Protocol):
    """Procs that share a definition, under a name: one proc per source.

    Every operation that names a pipeline raises ``UnknownPipeline`` first if there is none. A
    pipeline exists as long as any of its procs does: ``delete`` of its last proc ends it.
    """

    @writes(repeatable=True)
    def define(
        self, name: str, specs: Sequence[ProcSpec], definition: Definition, changes: ProcChanges
    ) -> Op[PipelineInfo]:
        """Make the procs that are missing, and give all of them this definition and ``changes``.

        All or nothing, for any number of sources. Procs that exist keep their position, whatever
        offset is given. A plain proc of the same name and topic becomes the pipeline's.

        ``ProcNameTaken`` if one of the names is that of a proc of another topic, or of another
        pipeline. ``InvalidOption`` if the pipeline has a proc that ``specs`` leaves out: retention
        would keep the records that it has not read for ever. Also raises the errors of
        ``procs.create``.
        """
        ...

    @reads
    def definition(self, pipeline: str) -> Op[Defined]:
        """The definition and the procs under it, by name. Costs one index look-up."""
        ...

    @reads
    def info(self, pipeline: str) -> Op[PipelineInfo]:
        """Return what is known of the pipeline."""
        ...

    @reads
    def list(self) -> Op[builtins.list[PipelineInfo]]:
        """List pipelines by name."""
        ...

    @writes()
    def switch(self, pipeline: str, status: Status) -> Op[PipelineInfo]:
        """Set the status of all of its procs, as ``procs.disable`` and ``procs.resume`` do.

        Procs that have the status already stay as they are. ``ProcAlreadyDisabled`` or
        ``ProcAlreadyActive`` if all of them have it.
        """
        ...

    @writes()
    def seek(self, pipeline: str, offset: str) -> Op[PipelineInfo]:
        """Move all of its procs, as ``procs.seek`` does; ``UnknownSeq`` moves none."""
        ...

    @writes()
    def delete(self, pipeline: str) -> Op[PipelineInfo]:
        """Remove all of its procs and their claims; returns its last state."""
        ...
