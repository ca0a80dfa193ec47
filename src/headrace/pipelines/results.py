"""What processing records yields: lines of JSON for the targets, or an error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from headrace.contract.values import CommitCall, CommitPart
from headrace.core.commits import digest_of
from headrace.errors import InvalidBody
from headrace.model.codec import encode_bodies, encode_body, pack
from headrace.model.failures import words_of

MAX_ERROR_LENGTH = 2000


class RangeOutcome(NamedTuple):
    """The outcome of processing the neighbouring records ``first_seq`` to ``last_seq`` of a claim.

    It has the lines for each target, or the error of a single record.
    """

    first_seq: int
    last_seq: int
    lines: Sequence[str] = ()
    error: str | None = None


def encode_result(result: Any, *, max_body: int) -> list[str]:
    """A record processor's result as lines; ``InvalidBody`` if it has another type."""
    return [encode_body(body, max_body=max_body) for body in bodies_in(result)]


def bodies_in(result: Any) -> Sequence[Any]:
    """The bodies in a record processor's result."""
    if result is None:
        return ()
    if isinstance(result, dict):
        return (result,)
    if isinstance(result, (list, tuple)):
        return result
    raise InvalidBody(
        f"a processor returns a dict, a list of them, or None for nothing, not "
        f"{type(result).__name__}.",
        path="$",
    )


def combined_outcome(
    seqs: Sequence[int], results: Sequence[Any], *, max_body: int
) -> RangeOutcome | None:
    """All results as one outcome; None if one of them is invalid."""
    try:
        if set(map(type, results)) == {dict}:
            bodies = list(results)  # the usual case, and cheap to check
        else:
            bodies = [body for result in results for body in bodies_in(result)]
        return RangeOutcome(seqs[0], seqs[-1], encode_bodies(bodies, max_body=max_body))
    except Exception:
        # InvalidBody, or whatever a result's own class raises while it is read.
        return None


def format_error(error: BaseException) -> str:
    """The text of an exception, for people and for the dead letter."""
    return words_of(error)[:MAX_ERROR_LENGTH]


def merge_neighbours(outcomes: Iterable[RangeOutcome]) -> list[RangeOutcome]:
    """The same outcomes, with successful neighbours merged into one."""
    merged: list[RangeOutcome] = []
    for outcome in outcomes:
        if merged and outcome.error is None and merged[-1].error is None:
            before = merged.pop()
            lines = [*before.lines, *outcome.lines]
            merged.append(RangeOutcome(before.first_seq, outcome.last_seq, lines))
        else:
            merged.append(outcome)
    return merged


def without_gaps(seqs: Sequence[int], outcomes: Sequence[RangeOutcome]) -> list[RangeOutcome]:
    """The outcomes up to the first record of ``seqs`` that has none."""
    position = 0
    for number, outcome in enumerate(outcomes):
        if position == len(seqs) or outcome.first_seq != seqs[position]:
            return list(outcomes[:number])
        while position < len(seqs) and seqs[position] <= outcome.last_seq:
            position += 1
    return list(outcomes)


def commit_call(lines_by_topic: dict[str, Sequence[str]]) -> CommitCall:
    """A commit of the lines of each topic."""
    parts = tuple(
        CommitPart(topic, count, body, headers)
        for topic, lines in lines_by_topic.items()
        for count, body, headers in pack(lines, ["null"] * len(lines))
    )
    return CommitCall(parts=parts, digest=digest_of(parts))
