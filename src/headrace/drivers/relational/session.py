"""Operations inside a transaction that is not one operation long.

It may be ours (``transaction``) or the user's own (``using``). Nothing is retried here, and
nothing is committed: each operation has a savepoint, so that one that is refused leaves no
trace and the transaction goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

import msgspec

from headrace.contract.op import Op
from headrace.contract.values import Capabilities
from headrace.drivers.relational.following import Following
from headrace.drivers.relational.keys import CommitKeys
from headrace.drivers.relational.locks import Locks
from headrace.drivers.relational.queues import PushKeys
from headrace.drivers.relational.sql import (
    Announce,
    Apart,
    Finally,
    Insist,
    Many,
    Sql,
    Statement,
)
from headrace.drivers.running import Runner, Work
from headrace.errors import InvalidOption

T = TypeVar("T")

_SAVE = Statement("savepoint", "SAVEPOINT headrace", {})
_RELEASE = Statement("release", "RELEASE SAVEPOINT headrace", {})
_UNDO = Statement("undo", "ROLLBACK TO SAVEPOINT headrace", {})


class Tell(msgspec.Struct, frozen=True):
    """Send statements on the transaction's connection; the answer is their rows."""

    statements: tuple[Statement | Many, ...]


class Session(Runner, Following, Locks):
    """The operations of a store on one open transaction. See ``contract.store.Session``."""

    def __init__(
        self,
        *,
        name: str,
        capabilities: Capabilities,
        sql: Sql,
        keys: CommitKeys,
        clock: Callable[[], int | None],
    ) -> None:
        super().__init__(patience=0)
        self.name = name
        self.capabilities = capabilities
        self.sql = sql
        self.keys = keys
        self.push_keys = PushKeys(sql)
        self.numbers_late = capabilities.numbers_at_commit
        self.clock = clock  # type: ignore[method-assign]  # the store's own
        # Topics that have new records once the transaction is committed.
        self.announced: set[str] = set()
        # Rows read here may never be committed, so they are not remembered elsewhere.
        self._last_rows = {}
        self.keeps_limits = False

    def attempt(self, op: Op[T]) -> Work[T]:
        if not op.writes:
            return (yield from self._converse(op, (), set()))
        news: set[str] = set()
        result = yield from self._converse(op, (_SAVE,), news)
        self.announced |= news
        yield Tell((*self.notifications(news), _RELEASE))
        return result

    def notifications(self, news: Collection[str]) -> Sequence[Statement]:
        """What tells other processes of news, once this is committed, if the database can."""
        return ()

    def _converse(self, op: Op[T], opening: tuple[Statement, ...], news: set[str]) -> Work[T]:
        steps = iter(op)
        answer: Any = None
        point = 0
        while True:
            try:
                request = steps.send(answer)
            except StopIteration as stop:
                if opening and point == 0:
                    yield Tell(opening)
                return stop.value  # type: ignore[no-any-return]  # StopIteration is not generic
            except Exception:
                if opening and point:
                    yield Tell((_UNDO, _RELEASE))
                raise
            if isinstance(request, Announce):
                news |= request.topics
                answer = None
                continue
            if isinstance(request, Insist):
                answer = None
                continue
            if isinstance(request, Apart):
                answer = yield request
                continue
            if isinstance(request, Finally):
                request = request.statements
            self.probe(op.name, point)
            first = opening if point == 0 else ()
            point += 1
            is_one = isinstance(request, Statement | Many)
            rows = yield Tell(first + ((request,) if is_one else tuple(request)))
            rows = rows[len(first) :]
            answer = rows[0] if is_one else rows


def not_ours(connection: object, wanted: str) -> InvalidOption:
    """The error for a connection of a kind that cannot be used here."""
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    return InvalidOption(f"using() takes {wanted} here, not a {kind}.", option="connection")
