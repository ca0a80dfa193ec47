"""Access tokens in SQL."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from headrace.contract.op import Op, Steps
from headrace.contract.token_rules import created, same_token
from headrace.contract.tokens import TOKENS_CHANGED, TOUCH_MS, NewToken
from headrace.drivers.sql_common.statements import Notify, Row
from headrace.model.access_tokens import (
    AccessToken,
    TokenSecret,
    revoked,
    rotated,
    unknown_token,
)

if TYPE_CHECKING:
    from headrace.drivers.sql_common.context import SqlContext


class SqlTokens:
    """The operations on access tokens over a dialect's statements."""

    def __init__(self, context: SqlContext) -> None:
        self.sql = context.sql
        self.clock = context.clock

    def create(self, new: NewToken) -> Op[AccessToken]:
        def steps() -> Steps[AccessToken]:
            [clock] = yield self.sql.read_clock(now=self.clock())
            token = created(new, clock["now"])
            _, [row] = yield (
                self.sql.add_token(
                    id=token.id,
                    name=token.name,
                    scopes=_json(token.scopes),
                    secrets=_json(token.secrets),
                    created_at=token.created_at,
                    expires_at=token.expires_at,
                ),
                self.sql.find_token(id=token.id),
            )
            return same_token(_token(row), new)

        return Op("tokens.create", steps, repeatable=True, durable=True)

    def info(self, id: str) -> Op[AccessToken]:
        def steps() -> Steps[AccessToken]:
            rows = yield self.sql.find_token(id=id)
            if not rows:
                raise unknown_token(id)
            return _token(rows[0])

        return Op("tokens.info", steps, writes=False)

    def rotate(self, id: str, hash: str) -> Op[AccessToken]:
        def steps() -> Steps[AccessToken]:
            return (yield from self._change(id, lambda token, now: rotated(token, hash, now)))

        return Op("tokens.rotate", steps, repeatable=True, durable=True)

    def revoke(self, id: str, secret: int | None) -> Op[AccessToken]:
        def steps() -> Steps[AccessToken]:
            token = yield from self._change(id, lambda token, now: revoked(token, secret, now))
            yield Notify(frozenset({TOKENS_CHANGED}))
            return token

        return Op("tokens.revoke", steps, repeatable=True, durable=True)

    def _change(
        self, id: str, change: Callable[[AccessToken, int], AccessToken]
    ) -> Steps[AccessToken]:
        rows, [clock] = yield (
            self.sql.lock_token(id=id),
            self.sql.read_clock(now=self.clock()),
        )
        if not rows:
            raise unknown_token(id)
        before = _token(rows[0])
        token = change(before, clock["now"])
        if token is not before:
            yield self.sql.save_token(
                id=id,
                secrets=_json(token.secrets),
                last_secret=token.last_secret,
                revoked_at=token.revoked_at,
            )
        return token

    def list(self) -> Op[builtins.list[AccessToken]]:
        def steps() -> Steps[list[AccessToken]]:
            rows = yield self.sql.list_tokens()
            return [_token(row) for row in rows]

        return Op("tokens.list", steps, writes=False)

    def touch(self, ids: Sequence[str]) -> Op[None]:
        def steps() -> Steps[None]:
            yield self.sql.touch_tokens(ids=list(ids), age=TOUCH_MS, now=self.clock())

        return Op("tokens.touch", steps, relaxed=True, repeatable=True)


def _json(values: Sequence[object]) -> str:
    return msgspec.json.encode(values).decode()


def _token(row: Row) -> AccessToken:
    return AccessToken(
        **{
            **row,
            "scopes": msgspec.json.decode(row["scopes"], type=tuple[str, ...]),
            "secrets": msgspec.json.decode(row["secrets"], type=tuple[TokenSecret, ...]),
        }
    )
