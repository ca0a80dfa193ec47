"""From what a user says of a pipeline to what is stored of it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec import UNSET

from headrace.client.calls import Call, changes
from headrace.contract.store import Store
from headrace.contract.values import ProcSpec
from headrace.errors import InvalidOption
from headrace.model import pipelines as rules
from headrace.model.names import check_proc
from headrace.model.pipelines import DEFAULT_COUNT, PipelineInfo
from headrace.model.position import FROM_START, check_offset
from headrace.pipelines.processors import check_reference, name_of, processor_of
from headrace.worker.pipelines import PipelineOptions, Topics, check_options

ProcessorLike = str | Callable[..., Any]


class Plan(NamedTuple):
    """What to ask of the store, and the function that stays here, if it is an inline one."""

    call: Call[PipelineInfo]
    function: Callable[..., Any] | None


def plan(
    store: Store,
    name: str,
    source: Topics | None,
    processor: ProcessorLike | None,
    options: PipelineOptions,
) -> Plan:
    """Check everything, and build the operation; a pipeline alone by its name must exist."""
    check_options(options)
    to, kind, offset = options.get("to"), options.get("kind"), options.get("offset")
    wanted = changes(
        options.get("max_reclaims", UNSET),
        options.get("reclaim_timeout", UNSET),
        options.get("on_max_reclaims_reached", UNSET),
    )
    if source is None and processor is None:
        if options:
            raise _half(name)
        return Plan(Call(store.pipeline(check_proc(name)), _same), None)
    if source is None or processor is None:
        raise _half(name)
    function = None
    if isinstance(processor, str):
        text = check_reference(processor)
    else:
        # Whatever it cannot be is said now, not when it is run.
        text = processor_of(processor, kind=kind).name
        function = processor
    definition = rules.check_definition(
        processor=text,
        is_inline=function is not None,
        targets=to,
        kind=kind,
        count=options.get("count", DEFAULT_COUNT),
    )
    start = FROM_START if offset is None else check_offset(offset)
    specs = [
        ProcSpec(name=proc, topic=topic, offset=start)
        for proc, topic in rules.lanes(name, source).items()
    ]
    return Plan(Call(store.define_pipeline(name, specs, definition, wanted), _same), function)


def reference_of(function: Callable[..., Any]) -> str | None:
    """``module:function``, if that is how another process would find it."""
    text = name_of(function)
    module, _, name = text.partition(":")
    found: Any = sys.modules.get(module) if module != "__main__" else None
    for part in name.split("."):
        found = getattr(found, part, None)
    return text if found is function else None


def _half(name: str) -> InvalidOption:
    return InvalidOption(
        f"pipeline {name!r} needs both a source and a processor; with neither, nor other options, "
        "system_proc(name) refers to one that exists.",
        option="source",
    )


def _same(value: Any) -> Any:
    return value
