"""What comes of records: lines of JSON for the targets, or an error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from headrace.contract.values import CommitCall, Part
from headrace.core.commits import digest_of
from headrace.errors import InvalidBody
from headrace.model.codec import encode_bodies, encode_body, pack

LONGEST_ERROR = 2000


class Piece(NamedTuple):
    """What came of the neighbouring records ``first_seq`` to ``last_seq`` of a claim.

    Lines for each target, or, of a single record, why there are none.
    """

    first_seq: int
    last_seq: int
    lines: Sequence[str] = ()
    error: str | None = None


def lines_of(result: Any, *, max_body: int) -> list[str]:
    """A record processor's result as lines; ``InvalidBody`` if it is none."""
    return [encode_body(body, max_body=max_body) for body in bodies_of(result)]


def bodies_of(result: Any) -> Sequence[Any]:
    """The bodies in a record processor's result."""
    if result is None:
        return ()
    if isinstance(result, dict):
        return (result,)
    if isinstance(result, (list, tuple)):
        return result
    raise InvalidBody(
        f"a processor returns a dict, a list of them or None, not {type(result).__name__}.",
        path="$",
    )


def piece_of(seqs: Sequence[int], results: Sequence[Any], *, max_body: int) -> Piece | None:
    """All results in one piece; None if there is something wrong with one of them."""
    try:
        if set(map(type, results)) == {dict}:
            bodies = list(results)  # nearly always, and quickly told
        else:
            bodies = [body for result in results for body in bodies_of(result)]
        return Piece(seqs[0], seqs[-1], encode_bodies(bodies, max_body=max_body))
    except InvalidBody:
        return None


def said(error: BaseException) -> str:
    """An exception for people, and for the dead letter."""
    text = f"{type(error).__name__}: {error}"[:LONGEST_ERROR]
    # Any text at all, as databases can hold it.
    return text.encode(errors="replace").decode().replace("\0", "\ufffd")


def joined(pieces: Iterable[Piece]) -> list[Piece]:
    """Neighbours that succeeded as one."""
    found: list[Piece] = []
    for piece in pieces:
        if found and piece.error is None and found[-1].error is None:
            before = found.pop()
            lines = [*before.lines, *piece.lines]
            found.append(Piece(before.first_seq, piece.last_seq, lines))
        else:
            found.append(piece)
    return found


def call_of(lines_by_topic: dict[str, Sequence[str]]) -> CommitCall:
    """The lines of each topic as a call that a store understands."""
    parts = tuple(
        Part(topic, count, body, headers)
        for topic, lines in lines_by_topic.items()
        for count, body, headers in pack(lines, ["null"] * len(lines))
    )
    return CommitCall(parts=parts, digest=digest_of(parts))
