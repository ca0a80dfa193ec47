"""Scopes: what the holder of an access token may do.

A scope is ``verb:noun/pattern``, ``push:queue/mail`` for example, or ``admin``, which allows
everything. In a pattern ``*`` stands for any characters, none included. Names that begin with ``_``
are Headrace's own: a pattern matches them only if it begins with ``_`` itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Literal, NamedTuple, cast, get_args

from headrace.errors import InvalidOption
from headrace.model.fields import shown
from headrace.model.names import RESERVED

Verb = Literal["read", "push", "commit", "work", "manage"]
Noun = Literal[
    "queue", "topic", "proc", "pipeline", "sink", "lock", "counter", "limit", "schedule", "node"
]

Reach = Literal["one", "prefix", "some"]

ADMIN = "admin"
ALL = "*"
MAX_SCOPES = 100
MAX_SCOPE_LENGTH = 300
MAX_STARS = 8

VERBS: dict[Verb, tuple[Noun, ...]] = {
    "read": get_args(Noun),
    "push": ("queue",),
    "commit": ("topic",),
    "work": ("queue", "proc", "sink", "lock", "counter", "schedule"),
    "manage": (
        "queue",
        "topic",
        "proc",
        "pipeline",
        "sink",
        "lock",
        "counter",
        "limit",
        "schedule",
    ),
}
"""The nouns that each verb applies to."""

UNNAMED: tuple[Noun, ...] = ("lock", "counter", "node")
"""Nouns whose things have no names that a pattern could match: the pattern is ``*``."""

INCLUDED: dict[Verb, tuple[Verb, ...]] = {"read": ("work", "manage")}
"""Verbs that allow another verb, too, on the same things."""

NEXT_STEP = "write scopes like push:queue/mail, work:queue/mail-* or read:topic/*, or admin."


class Need(NamedTuple):
    """What a call needs: a verb on the thing with this name.

    With the reach ``prefix`` it needs the verb on all things whose names begin so: on all things,
    if the prefix is empty. With ``some`` the verb on any thing suffices. The verbs of ``instead``
    suffice, too.
    """

    verb: Verb
    noun: Noun
    name: str
    reach: Reach = "one"
    instead: tuple[Verb, ...] = ()

    def __str__(self) -> str:
        name = {"one": self.name, "prefix": self.name + ALL, "some": ALL}[self.reach]
        return f"{self.verb}:{self.noun}/{name}"


class AdminNeed(NamedTuple):
    """What only the scope ``admin`` allows."""

    def __str__(self) -> str:
        return ADMIN


class Scope(NamedTuple):
    """A verb on those things of a noun (None: of every noun) whose names match a pattern."""

    verb: Verb
    noun: Noun | None
    pattern: str

    def allows(self, need: Need) -> bool:
        """Whether it suffices for a need."""
        if self.noun not in (None, need.noun) or not self._has_verb(need):
            return False
        match need.reach:
            case "one":
                return matches(self.pattern, need.name)
            case "prefix":
                return _covers(self.pattern, need.name)
            case "some":
                return True

    def _has_verb(self, need: Need) -> bool:
        return (
            self.verb == need.verb
            or self.verb in need.instead
            or self.verb in INCLUDED.get(need.verb, ())
        )


class Scopes(NamedTuple):
    """All scopes of a token, parsed."""

    scopes: tuple[Scope, ...]
    is_admin: bool = False

    def missing(self, needs: Iterable[Need | AdminNeed]) -> Need | AdminNeed | None:
        """The first need that no scope allows; None if all are met."""
        if self.is_admin:
            return None
        for need in needs:
            if isinstance(need, AdminNeed) or not any(s.allows(need) for s in self.scopes):
                return need
        return None


EVERYTHING = Scopes((), is_admin=True)


def parse_scopes(texts: Sequence[str]) -> Scopes:
    """Parse the scopes of a token; ``InvalidOption`` for one that is wrong."""
    given = check_scopes(texts)
    parsed = tuple(_parse(text) for text in given if text != ADMIN)
    return Scopes(parsed, is_admin=ADMIN in given)


def check_scopes(texts: object) -> tuple[str, ...]:
    """Return scopes without repetition if all of them are right, else raise ``InvalidOption``."""
    if isinstance(texts, str):
        raise _refused(f"scopes is {shown(texts)}: give a list, [{shown(texts)}].")
    if not isinstance(texts, Iterable):
        raise _refused(f"scopes is {shown(texts)}: give a list of texts; {NEXT_STEP}")
    found = tuple(dict.fromkeys(texts))
    if not found:
        raise _refused(f"a token needs at least one scope: {NEXT_STEP}")
    if len(found) > MAX_SCOPES:
        raise _refused(f"{len(found)} scopes are too many: use patterns, at most {MAX_SCOPES}.")
    for text in found:
        if not isinstance(text, str):
            raise _refused(f"{shown(text)} is not a scope: {NEXT_STEP}")
        if text != ADMIN:
            _parse(text)
    return found


def matches(pattern: str, name: str) -> bool:
    """Whether a name matches a pattern. The time is linear in the length of the name."""
    if name.startswith(RESERVED) and not pattern.startswith(RESERVED):
        return False
    first, *rest = pattern.split(ALL)
    if not rest:
        return name == first
    *middle, last = rest
    if not name.startswith(first) or not name.endswith(last):
        return False
    at, end = len(first), len(name) - len(last)
    for part in middle:
        at = name.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return at <= end


def _covers(pattern: str, prefix: str) -> bool:
    """Whether a pattern matches all names with a prefix, those of Headrace aside."""
    return pattern.endswith(ALL) and pattern.count(ALL) == 1 and prefix.startswith(pattern[:-1])


def _parse(text: str) -> Scope:
    if len(text) > MAX_SCOPE_LENGTH or not text.isprintable():
        raise _refused(
            f"{shown(text)} is not a scope: use up to {MAX_SCOPE_LENGTH} printable characters."
        )
    head, slash, pattern = text.partition("/")
    verb, colon, noun = head.partition(":")
    if not colon or verb not in VERBS:
        raise _refused(f"{shown(text)} is not a scope: {_hint(verb, [*VERBS, ADMIN])}")
    nouns = VERBS[verb]
    if noun != ALL and noun not in nouns:
        raise _refused(
            f"{shown(text)} is not a scope: {verb} applies to {', '.join(nouns)}; "
            f"{_hint(noun, list(nouns))}"
        )
    if not slash or not pattern:
        raise _refused(
            f"{shown(text)} names no {'thing' if noun == ALL else noun}: {head}/NAME, or {head}/* for all."
        )
    if pattern != ALL and noun in UNNAMED:
        raise _refused(f"{shown(text)} is not a scope: a {noun} has no name, write {head}/*.")
    if pattern.count(ALL) > MAX_STARS:
        raise _refused(f"{shown(text)} has too many '*': use up to {MAX_STARS}.")
    return Scope(verb, None if noun == ALL else cast("Noun", noun), pattern)


def _hint(word: str, known: list[str]) -> str:
    close = get_close_matches(word.lower(), known, 1)
    return f"did you mean {close[0]!r}? Else {NEXT_STEP}" if close else NEXT_STEP


def _refused(message: str) -> InvalidOption:
    return InvalidOption(message, option="scopes")
