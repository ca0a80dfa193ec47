"""Turns the arguments of ``hr.pipelines.create`` into the definition that is stored."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec import UNSET

from headrace.contract.store import Store
from headrace.contract.values import ProcSpec
from headrace.core.requests.procs import changes
from headrace.core.requests.request import Request
from headrace.model import pipelines as rules
from headrace.model.checks import seconds_of
from headrace.model.pipelines import DEFAULT_COUNT, PipelineInfo
from headrace.model.times import optional_ms
from headrace.model.topics.positions import FROM_START, check_offset
from headrace.pipelines.processors import check_reference, name_of, processor_of
from headrace.worker.pipelines import PipelineOptions, Topics, check_options

ProcessorLike = str | Callable[..., Any]


class DefinitionPlan(NamedTuple):
    """The request to the store, and the processor as it was given: a function or its name."""

    request: Request[PipelineInfo]
    function: Callable[..., Any] | None = None
    reference: str | None = None


def plan_definition(
    store: Store,
    name: str,
    source: Topics,
    processor: ProcessorLike,
    options: PipelineOptions,
) -> DefinitionPlan:
    """Check all arguments and build the request."""
    check_options(options)
    to, kind, offset = options.get("to"), options.get("kind"), options.get("offset")
    proc_changes = changes(
        options.get("max_attempts", UNSET),
        options.get("lease", UNSET),
        options.get("on_exhausted", UNSET),
    )
    function = None
    if isinstance(processor, str):
        text = check_reference(processor)
    else:
        # An unsuitable function is refused now, not when the pipeline runs.
        text = processor_of(processor, kind=kind).name
        function = processor
    definition = rules.check_definition(
        processor=text,
        is_inline=function is not None,
        targets=to,
        kind=kind,
        count=options.get("count", DEFAULT_COUNT),
        timeout=seconds_of(optional_ms("timeout", options.get("timeout"))),
    )
    start = FROM_START if offset is None else check_offset(offset)
    specs = [
        ProcSpec(name=proc, topic=topic, offset=start)
        for proc, topic in rules.topics_by_proc(name, source).items()
    ]
    op = store.pipelines.define(name, specs, definition, proc_changes)
    request: Request[PipelineInfo] = Request(op)
    return DefinitionPlan(request, function, text if function is None else None)


def reference_of(function: Callable[..., Any]) -> str | None:
    """``module:function``, if another process could import it by that."""
    text = name_of(function)
    module, _, name = text.partition(":")
    imported: Any = sys.modules.get(module) if module != "__main__" else None
    for part in name.split("."):
        imported = getattr(imported, part, None)
    return text if imported is function else None
