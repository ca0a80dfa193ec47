"""Pipelines: the stored definition, and the report that users get.

A pipeline is procs that share a definition: one proc per source. It has no state of its own, so
the two cannot disagree: its positions, its failures and its status are those of its procs, and
it is gone when they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from headrace.errors import InvalidOption
from headrace.model.checks import positive
from headrace.model.fields import shown
from headrace.model.names import check_proc, check_topic, writable_proc, writable_topic
from headrace.model.topics.procs import ProcInfo

Kind = Literal["record", "batch", "frame"]
KINDS: tuple[Kind, ...] = ("record", "batch", "frame")
EngineName = Literal["spark", "inline"]
PipelineStatus = Literal["active", "partly_disabled", "disabled"]

DEFAULT_COUNT = 1000
SEPARATOR = "__"


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """What a pipeline does with the records it claims.

    ``processor`` is ``module:function``. For an inline pipeline it is only a name to show: the
    function lives in the process that runs it, and code is never stored. ``kind`` is None if
    it follows from the function. ``timeout`` is the time limit of one call in seconds, None for
    no limit.
    """

    processor: str
    is_inline: bool = False
    targets: tuple[str, ...] = ()
    kind: Kind | None = None
    count: int = DEFAULT_COUNT
    timeout: float | None = None


class PipelineProc(msgspec.Struct, frozen=True):
    """One proc of a pipeline, with what a runner needs to claim for it."""

    name: str
    topic: str
    lease: int | None


class Defined(msgspec.Struct, frozen=True):
    """A definition, and the procs that run under it."""

    name: str
    definition: Definition
    procs: tuple[PipelineProc, ...]


class PipelineInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A pipeline as users see it."""

    name: str
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    processor: str
    is_inline: bool
    kind: Kind | None
    count: int
    timeout: float | None
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
        timeout=definition.timeout,
        status=status(procs),
        procs=tuple(procs),
    )


def status(procs: Sequence[ProcInfo]) -> PipelineStatus:
    """Active if all of its procs are."""
    disabled = sum(proc.status == "disabled" for proc in procs)
    if not disabled:
        return "active"
    return "disabled" if disabled == len(procs) else "partly_disabled"


def looped_topics(definitions: Sequence[Defined]) -> set[str]:
    """The topics whose records lead to more records in the same topic, directly or through others."""
    targets: dict[str, set[str]] = {}
    for defined in definitions:
        for proc in defined.procs:
            targets.setdefault(proc.topic, set()).update(defined.definition.targets)

    def reached(topic: str) -> set[str]:
        found: set[str] = set()
        new = list(targets[topic])
        while new:
            following = new.pop()
            if following not in found:
                found.add(following)
                new += targets.get(following, ())
        return found

    return {topic for topic in targets if topic in reached(topic)}


def check_definition(
    *,
    processor: str,
    is_inline: bool,
    targets: object,
    kind: object,
    count: object,
    timeout: float | None = None,
) -> Definition:
    """Check a user's description of a pipeline."""
    if kind is not None and kind not in KINDS:
        raise InvalidOption(f"kind is {shown(kind)}: use one of {', '.join(KINDS)}.", option="kind")
    return Definition(
        processor=processor,
        is_inline=is_inline,
        targets=tuple(dict.fromkeys(map(writable_topic, _topics("to", targets))))
        if targets is not None
        else (),
        kind=kind,
        count=positive("count", count),
        timeout=timeout,
    )


def topics_by_proc(name: str, source: object) -> dict[str, str]:
    """The topic of each proc of a pipeline, by the proc's name.

    A single topic has a proc of the pipeline's name. Each topic of a list has a proc
    ``<name>__<topic>``, also in a list of one topic, so that the list can grow.
    """
    writable_proc(name)
    if isinstance(source, str):
        return {name: check_topic(source)}
    topics = _topics("source", source)
    if not topics:
        raise InvalidOption(
            f"pipeline {shown(name)} has no source: name a topic, or several.", option="source"
        )
    return {check_proc(f"{name}{SEPARATOR}{topic}"): topic for topic in topics}


def _topics(option: str, value: object) -> list[str]:
    if isinstance(value, str):
        return [check_topic(value)]
    if not isinstance(value, (list, tuple)):
        raise InvalidOption(
            f"{option} is {shown(value)}: name a topic, or a list of topics.", option=option
        )
    return [check_topic(topic) for topic in value]
