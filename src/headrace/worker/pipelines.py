"""Functions as processors of pipelines, declared here and run by ``headrace.pipelines``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple, TypedDict, TypeVar

from headrace.errors import InvalidOption
from headrace.model.pipelines import Kind
from headrace.model.procs import Strategy

F = TypeVar("F", bound=Callable[..., Any])
Topics = str | Sequence[str]


class PipelineOptions(TypedDict, total=False):
    """What can be said of a pipeline beside its name, its source and its processor."""

    to: Topics | None
    kind: Kind | None
    offset: str | None
    count: int
    max_reclaims: int
    reclaim_timeout: timedelta | float | None
    on_max_reclaims_reached: Strategy


def check_options(options: Mapping[str, object]) -> None:
    """Refuse what is no option of a pipeline."""
    known = PipelineOptions.__annotations__
    for name in options.keys() - known.keys():
        raise InvalidOption(
            f"a pipeline has no option {name!r}: use some of {', '.join(known)}.", option=name
        )


class DeclaredPipeline(NamedTuple):
    """A pipeline as an app knows it; it is stored when it is run."""

    name: str
    source: Topics
    function: Callable[..., Any]
    options: PipelineOptions


def declare(
    known: dict[str, DeclaredPipeline], name: str | None, source: Topics, options: PipelineOptions
) -> Callable[[F], F]:
    """The decorator that puts a function among the known ones and leaves it as it is."""
    check_options(options)

    def put(function: F) -> F:
        wanted = name or function.__name__
        if wanted in known:
            raise InvalidOption(
                f"this app has a pipeline {wanted!r} already: give one of them another name=.",
                option="name",
            )
        known[wanted] = DeclaredPipeline(wanted, source, function, options)
        return function

    return put
