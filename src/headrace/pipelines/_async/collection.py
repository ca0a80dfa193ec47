"""The pipelines of a store: defined and listed."""

from __future__ import annotations

from typing import Unpack

from headrace.client._async.client import AsyncClient
from headrace.core.requests.request import Request
from headrace.model.pipelines import PipelineInfo
from headrace.pipelines._async.pipeline import AsyncPipeline
from headrace.pipelines.definition import ProcessorLike, plan_definition
from headrace.pipelines.runners import Function, note_named_processor
from headrace.worker.pipelines import PipelineOptions, Topics

Infos = list[PipelineInfo]


class AsyncPipelines:
    """The pipelines of a store, for async code."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        # By pipeline. The store has their names, never the functions.
        self._functions: dict[str, Function] = {}

    async def create(
        self,
        name: str,
        *,
        source: Topics,
        processor: ProcessorLike,
        **options: Unpack[PipelineOptions],
    ) -> AsyncPipeline:
        """Define a pipeline: claim records, call ``processor``, ack them and commit the results.

        ``source`` is a topic, read by a proc of the pipeline's name, or several topics, read by
        procs ``<name>__<topic>``; all are created, or none. ``to`` is a topic, several topics
        (every result goes to each) or none. ``processor`` is a function, which exists in this
        process only, or ``"module:function"``, which any process can run: code is never stored. It
        accepts a record's body, a batch or a DataFrame; see ``headrace.pipelines.processors`` for
        the kinds. ``count`` is the maximum number of records in one claim; ``offset`` and the
        other options are those of ``hr.procs.create``.

        An existing pipeline keeps its position, and its next claim uses the new definition. Nothing
        runs yet: see the methods of the result, and ``headrace pipeline run``.
        """
        plan = plan_definition(self._client._open_store, name, source, processor, options)
        note_named_processor(self._client, plan.reference)
        info = await self._client._run(plan.request)
        if plan.function is not None:
            self._functions[info.name] = plan.function
        return AsyncPipeline(self._client, info.name)

    async def list(self) -> Infos:
        """All pipelines, in the order of their names."""
        return await self._client._run(Request(self._client._open_store.pipelines.list()))
