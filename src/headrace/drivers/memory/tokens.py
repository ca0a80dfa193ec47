"""Access tokens in memory."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from headrace.contract.op import Op
from headrace.contract.token_rules import created, same_token
from headrace.contract.tokens import TOKENS_CHANGED, TOUCH_MS, NewToken
from headrace.drivers.memory.topics import immediate
from headrace.model.access_tokens import AccessToken, revoked, rotated, unknown_token

if TYPE_CHECKING:
    from headrace.drivers.memory.context import MemoryContext


class MemoryTokens:
    """The operations on access tokens."""

    def __init__(self, context: MemoryContext) -> None:
        self._context = context
        self.data = context.data
        self.now = context.now

    def create(self, new: NewToken) -> Op[AccessToken]:
        def act() -> AccessToken:
            if new.id not in self.data.tokens:
                self._put(created(new, self.now()))
            return same_token(self._token(new.id), new)

        return immediate("tokens.create", act)

    def info(self, id: str) -> Op[AccessToken]:
        return immediate("tokens.info", lambda: self._token(id), writes=False)

    def rotate(self, id: str, hash: str) -> Op[AccessToken]:
        def act() -> AccessToken:
            return self._put(rotated(self._token(id), hash, self.now()))

        return immediate("tokens.rotate", act)

    def revoke(self, id: str, secret: int | None) -> Op[AccessToken]:
        def act() -> AccessToken:
            token = self._put(revoked(self._token(id), secret, self.now()))
            self.data.announced.add(TOKENS_CHANGED)
            return token

        return immediate("tokens.revoke", act)

    def list(self) -> Op[builtins.list[AccessToken]]:
        def act() -> list[AccessToken]:
            return sorted(self.data.tokens.values(), key=lambda token: (token.created_at, token.id))

        return immediate("tokens.list", act, writes=False)

    def touch(self, ids: Sequence[str]) -> Op[None]:
        def act() -> None:
            now = self.now()
            for token in filter(None, map(self.data.tokens.get, ids)):
                if token.last_used_at is None or token.last_used_at <= now - TOUCH_MS:
                    self._put(replace(token, last_used_at=now))

        return immediate("tokens.touch", act)

    def _token(self, id: str) -> AccessToken:
        if id not in self.data.tokens:
            raise unknown_token(id)
        return self.data.tokens[id]

    def _put(self, token: AccessToken) -> AccessToken:
        self._context.topics.put(self.data.tokens, token.id, token)
        return token
