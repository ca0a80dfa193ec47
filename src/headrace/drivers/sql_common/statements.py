"""SQL from files: the same statement names in each dialect.

Statements are written with ``headrace.topic`` (PostgreSQL) or ``headrace_topic`` (SQLite). The
schema or prefix that the user chose replaces that first word. Parameters are written ``:name``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple, Protocol

import msgspec

from headrace.errors import InvalidUrl

Row = Mapping[str, Any]

_PARAMETER = re.compile(r"(?<!:):([a-z_]+)")
_BETWEEN = "\0"
_IDENTIFIER = re.compile(r"[a-z_][a-z0-9_]{0,39}")
NOUNS = (
    "topic",
    "idempotency",
    "proc",
    "pipeline",
    "maintenance",
    "queue",
    "item",
    "channel",
    "selection",
    "limit",
    "finished_item",
    "worker",
    "sink",
    "lock",
    "counter",
    "token",
    "schedule",
)


class Statement(msgspec.Struct, frozen=True):
    """A statement with its parameters, ready to be sent.

    ``as_stored`` allows texts in its answer to be UTF-8 bytes, where that is cheaper.
    """

    name: str
    text: str
    parameters: dict[str, Any]
    as_stored: bool = False


class Many(NamedTuple):
    """One statement for many rows of parameters; the answer is the rows of all of them."""

    name: str
    text: str
    rows: Sequence[Mapping[str, Any]]

    @classmethod
    def of(cls, make: MakeStatement, rows: Sequence[Mapping[str, Any]]) -> Many:
        """The statement for these rows: at least one, all with the same names."""
        statement = make()
        return cls(statement.name, statement.text, rows)


class Autocommit(msgspec.Struct, frozen=True):
    """Statements that are a whole transaction, sent in one round trip.

    The answer is their rows, or None if they were refused. They are refused if they have run
    before (so they may be sent again when their answer is lost), if another transaction came
    first, or if they do not fit the case after all.

    ``behind`` is one more statement, sent right behind them as a transaction of its own. Its rows
    are the last of the answer; while it runs, the rows of the others are read. ``confirms`` means
    that they only make durable what is done already: without them that is in doubt. ``reads``
    means that they store nothing that the operation is about.
    """

    statements: tuple[Statement, ...]
    behind: Statement | None = None
    confirms: bool = False
    reads: bool = False


class NoReply(NamedTuple):
    """Statements without an answer: they are sent with the next statement, or with COMMIT."""

    statements: tuple[Statement | Many, ...]


class Separate(NamedTuple):
    """Statements to be run immediately in a transaction of their own, outside of this one.

    The answer is the rows of the last.
    """

    statements: tuple[Statement, ...]


class Notify(NamedTuple):
    """Topics that have new records after this transaction's COMMIT, and words for other events.

    Their waiters are notified then, in this process and in all others.
    """

    topics: frozenset[str]


class RequireFlush(NamedTuple):
    """This transaction must be flushed at COMMIT, even if it began as a relaxed one."""


class MakeStatement(Protocol):
    """Turns parameters into a statement."""

    def __call__(self, **parameters: Any) -> Statement: ...


class Dialect(NamedTuple):
    """How one engine's SQL is written and where its files are."""

    folder: str
    word: str
    style: str  # "named" for :name, "pyformat" for %(name)s
    nouns: tuple[str, ...] = NOUNS

    def place(self, text: str, name: str) -> str:
        """Put the schema or prefix in place of the word."""
        return re.sub(rf"\b{re.escape(self.word)}", name, text)

    def parameters(self, text: str) -> str:
        """Write parameters in the style of the client library."""
        if self.style == "named":
            return text
        return _PARAMETER.sub(r"%(\1)s", text.replace("%", "%%"))


class Statements:
    """All statements of a dialect as methods: ``sql.head(topic="x", now=None)``."""

    def __init__(self, dialect: Dialect, name: str) -> None:
        titles, texts = _statements(dialect)
        placed = dialect.place(texts, name).split(_BETWEEN)
        self.texts = dict(zip(titles, placed, strict=True))

    def __getattr__(self, name: str) -> MakeStatement:
        try:
            text = self.texts[name]
        except KeyError:
            raise AttributeError(f"no statement {name!r}") from None

        def make(**parameters: Any) -> Statement:
            return Statement(name, text, parameters)

        # An ordinary attribute from now on: ``__getattr__`` is not called for it again.
        setattr(self, name, make)
        return make


def check_identifier(option: str, value: str) -> str:
    """Return ``value`` if it is valid in SQL as a schema or prefix."""
    if not _IDENTIFIER.fullmatch(value):
        raise InvalidUrl(
            f"{option}={value!r} is not usable: 1 to 40 lower-case letters, digits and '_', "
            "not starting with a digit.",
            option=option,
        )
    return value


@cache
def _statements(dialect: Dialect) -> tuple[tuple[str, ...], str]:
    """Read the files once: the titles, and all texts in one, still with the dialect's word."""
    folder = files("headrace.drivers") / dialect.folder / "sql"
    found: dict[str, str] = {}
    for noun in dialect.nouns:
        found.update(_split((folder / f"{noun}.sql").read_text("utf-8")))
    return tuple(found), dialect.parameters(_BETWEEN.join(found.values()))


def _split(text: str) -> Iterator[tuple[str, str]]:
    for block in text.split("-- name: ")[1:]:
        title, _, rest = block.partition("\n")
        lines = [line for line in rest.splitlines() if not line.lstrip().startswith("--")]
        yield title.strip(), "\n".join(lines).strip().rstrip(";")
