"""The processors that a runner may call, each loaded once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.errors import InvalidOption
from headrace.model.pipelines import Defined, Definition
from headrace.pipelines.processors import Processor, import_processor, processor_of
from headrace.pipelines.trust import Trust


class ProcessorRegistry:
    """Processors of pipelines: inline functions by the pipeline's name, others by reference."""

    def __init__(self, inline: Mapping[str, Callable[..., Any]], trust: Trust) -> None:
        self._inline = inline
        self._trust = trust
        self._loaded: dict[tuple[object, ...], Processor] = {}

    def processor(self, defined: Defined) -> Processor:
        """The processor that a definition names, imported once."""
        definition = defined.definition
        owner = defined.name if definition.is_inline else None
        key = (owner, definition.processor, definition.kind)
        processor = self._loaded.get(key)
        if processor is None:
            processor = self._loaded[key] = self._load(defined.name, definition)
        return processor

    def _load(self, pipeline: str, definition: Definition) -> Processor:
        if not definition.is_inline:
            self._trust.check(pipeline, definition.processor)
            function = import_processor(definition.processor)
            self._trust.check_imported(pipeline, definition.processor, function)
            return processor_of(function, kind=definition.kind, reference=definition.processor)
        if pipeline not in self._inline:
            raise InvalidOption(
                f"the processor {definition.processor} of pipeline {pipeline!r} exists only in the "
                "process that defined it: run it there, or define it as 'module:function'.",
                option="processor",
            )
        return processor_of(self._inline[pipeline], kind=definition.kind)
