"""The access tokens of a store: what clients of a node may do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from headrace.contract.op import Op
from headrace.core.requests.request import Request
from headrace.core.tokens import IssuedToken, TokenInfo, info_of, infos_of, new
from headrace.model.access_tokens import AccessToken, TokenText, check_token_id, new_secret
from headrace.model.checks import positive
from headrace.model.times import Duration

if TYPE_CHECKING:
    from headrace.client._async.client import AsyncClient


Infos = list[TokenInfo]


class AsyncTokens:
    """The access tokens of a store, for async code.

    The clients of a node need one. A client that opens the store itself needs none.
    """

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def create(
        self, name: str, scopes: Iterable[str], *, expires: Duration | None = None
    ) -> IssuedToken:
        """Make a token that allows what its scopes say; its text is shown here and never again.

        ``name`` tells people what the token is for. A scope is a verb on the things whose names
        match a pattern: ``push:queue/mail``, ``work:queue/mail-*``, ``read:topic/*``; ``admin``
        allows everything. The token expires after ``expires``, or never.
        """
        text, token = new(name, scopes, expires)
        return await self._issue(text, self._client._open_store.tokens.create(token))

    async def info(self, id: str) -> TokenInfo:
        """A token, without its secrets; ``UnknownToken`` if there is none with this id."""
        return await self._run(self._client._open_store.tokens.info(check_token_id(id)))

    async def list(self) -> Infos:
        """All tokens, the oldest first, also those that were revoked or have expired."""
        op = self._client._open_store.tokens.list()
        return await self._client._run(Request(op, infos_of))

    async def rotate(self, id: str) -> IssuedToken:
        """Give a token a second secret; the text with the first one stays valid.

        When all users of the token have the new text, revoke the first secret. ``TooManySecrets``
        if there are two already, ``TokenEnded`` if the token was revoked or has expired.
        """
        text = new_secret(check_token_id(id))
        return await self._issue(text, self._client._open_store.tokens.rotate(id, text.hash))

    async def revoke(self, id: str, *, secret: int | None = None) -> TokenInfo:
        """Revoke a token for good, or one of its secrets by its number; returns what is left.

        Nodes refuse it within 30 seconds, mostly immediately. Repeating it does no harm.
        """
        number = None if secret is None else positive("secret", secret)
        return await self._run(self._client._open_store.tokens.revoke(check_token_id(id), number))

    async def _run(self, op: Op[AccessToken]) -> TokenInfo:
        return await self._client._run(Request(op, info_of))

    async def _issue(self, text: TokenText, op: Op[AccessToken]) -> IssuedToken:
        return IssuedToken(text=text.text, info=await self._run(op))
