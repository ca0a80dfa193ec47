"""Pipelines: what is stored of one, and what it looks like from outside.

A pipeline is procs that share a definition: one proc per source. It has no state beside
theirs, so the two cannot disagree: its positions, its failures and whether it is paused are
its procs', and it is gone when they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from headrace.errors import InvalidOption
from headrace.model.checks import positive
from headrace.model.names import check_proc, check_topic
from headrace.model.procs import ProcInfo

Kind = Literal["record", "batch", "frame"]
KINDS: tuple[Kind, ...] = ("record", "batch", "frame")
PipelineStatus = Literal["active", "partly_disabled", "disabled"]

DEFAULT_COUNT = 1000
SEPARATOR = "__"


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """What a pipeline does with the records it claims.

    ``processor`` is ``module:function``; that of an inline one is only its name, for people:
    the function lives in the process that runs it, and code is never stored. ``kind`` is what
    was given, None if the function tells it.
    """

    processor: str
    is_inline: bool = False
    targets: tuple[str, ...] = ()
    kind: Kind | None = None
    count: int = DEFAULT_COUNT


class PipelineLane(msgspec.Struct, frozen=True):
    """One proc of a pipeline: what a runner has to know to claim for it."""

    proc: str
    topic: str
    reclaim_timeout: int | None


class Defined(msgspec.Struct, frozen=True):
    """A definition, and the procs that run under it."""

    name: str
    definition: Definition
    lanes: tuple[PipelineLane, ...]


class PipelineInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a pipeline looks like from outside."""

    name: str
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    processor: str
    is_inline: bool
    kind: Kind | None
    count: int
    status: PipelineStatus
    procs: tuple[ProcInfo, ...]


def info(name: str, definition: Definition, procs: Sequence[ProcInfo]) -> PipelineInfo:
    """The outside view of a pipeline."""
    return PipelineInfo(
        name=name,
        sources=tuple(proc.topic for proc in procs),
        targets=definition.targets,
        processor=definition.processor,
        is_inline=definition.is_inline,
        kind=definition.kind,
        count=definition.count,
        status=status(procs),
        procs=tuple(procs),
    )


def status(procs: Sequence[ProcInfo]) -> PipelineStatus:
    """Active if all of its procs are."""
    disabled = sum(proc.status == "disabled" for proc in procs)
    if not disabled:
        return "active"
    return "disabled" if disabled == len(procs) else "partly_disabled"


def check_definition(
    *, processor: str, is_inline: bool, targets: object, kind: object, count: object
) -> Definition:
    """Check what a user says of a pipeline, and put it together."""
    if kind is not None and kind not in KINDS:
        raise InvalidOption(f"kind is {kind!r}: use one of {', '.join(KINDS)}.", option="kind")
    return Definition(
        processor=processor,
        is_inline=is_inline,
        targets=tuple(dict.fromkeys(_topics("to", targets))) if targets is not None else (),
        kind=kind,
        count=positive("count", count),
    )


def lanes(name: str, source: object) -> dict[str, str]:
    """The procs of a pipeline by name, and their topics.

    One topic gives a proc of the pipeline's own name; a list gives one ``<name>__<topic>`` for
    each, of a single topic too, so that the list may grow.
    """
    check_proc(name)
    if isinstance(source, str):
        return {name: check_topic(source)}
    topics = _topics("source", source)
    if not topics:
        raise InvalidOption(
            f"pipeline {name!r} has no source: name a topic, or several.", option="source"
        )
    return {check_proc(f"{name}{SEPARATOR}{topic}"): topic for topic in topics}


def _topics(option: str, value: object) -> list[str]:
    if isinstance(value, str):
        return [check_topic(value)]
    if not isinstance(value, (list, tuple)):
        raise InvalidOption(
            f"{option} is {value!r:.80}: name a topic, or a list of topics.", option=option
        )
    return [check_topic(topic) for topic in value]
