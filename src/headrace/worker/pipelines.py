"""Functions as processors of pipelines, declared here and run by ``headrace.pipelines``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypedDict, TypeVar

from headrace.errors import InvalidOption
from headrace.model.fields import shown
from headrace.model.pipelines import Kind
from headrace.model.times import Duration
from headrace.model.topics.procs import Strategy

F = TypeVar("F", bound=Callable[..., Any])
Topics = str | Sequence[str]


class PipelineOptions(TypedDict, total=False):
    """The options of a pipeline, besides its name, its source and its processor."""

    to: Topics | None
    kind: Kind | None
    offset: str | None
    count: int
    timeout: Duration | None
    max_attempts: int
    lease: Duration | None
    on_exhausted: Strategy


def check_options(options: Mapping[str, object]) -> None:
    """Raise ``InvalidOption`` for what is no option of a pipeline."""
    known = PipelineOptions.__annotations__
    for name in options.keys() - known.keys():
        raise InvalidOption(
            f"a pipeline has no option {name!r}: use some of {', '.join(known)}.", option=name
        )


def name_of(function: object) -> str:
    """The name of a function, for its task or pipeline; ``InvalidOption`` if it has none."""
    name = getattr(function, "__name__", None)
    if not isinstance(name, str) or not name.isidentifier():
        raise InvalidOption(
            f"{shown(function)} has no name of its own: give one with name=.", option="name"
        )
    return name


class DeclaredPipeline(NamedTuple):
    """A pipeline as an app declares it; it is stored when it is run."""

    name: str
    source: Topics
    function: Callable[..., Any]
    options: PipelineOptions


def declare(
    known: dict[str, DeclaredPipeline], name: str | None, source: Topics, options: PipelineOptions
) -> Callable[[F], F]:
    """The decorator that adds a function to the known pipelines and returns it unchanged."""
    check_options(options)

    def put(function: F) -> F:
        wanted = name or name_of(function)
        if wanted in known:
            raise InvalidOption(
                f"this app has a pipeline {wanted!r} already: give one of them another name=.",
                option="name",
            )
        known[wanted] = DeclaredPipeline(wanted, source, function, options)
        return function

    return put
