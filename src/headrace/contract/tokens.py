"""Access tokens: what every driver implements. See ``contract.store`` for the rules of all parts.

A store keeps tokens and decides nothing by them: a node does (``headrace up``).
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Protocol

import msgspec

from headrace.contract.flags import reads, writes
from headrace.contract.op import Op
from headrace.model.access_tokens import AccessToken

TOKENS_CHANGED = "token/*"
"""The notification for callers that remember tokens: a token or a secret was revoked."""

TOUCH_MS = 60_000
"""How far ``last_used_at`` may lag behind the last use."""


class NewToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token to be created, with one secret. Without a ``ttl_ms`` it does not expire.

    The caller makes id and secret; the store never sees the secret itself.
    """

    id: str
    hash: str
    name: str
    scopes: tuple[str, ...]
    ttl_ms: int | None = None


class TokenStore(Protocol):
    """Access tokens by id, each with the hashes of one or two valid secrets.

    Every operation that names a token raises ``UnknownToken`` first if there is none. A token that
    was revoked, or whose time is over, is kept and listed. ``model.access_tokens`` decides what
    becomes of a token.
    """

    @writes(repeatable=True)
    def create(self, new: NewToken) -> Op[AccessToken]:
        """Create a token. A repeat with the same id and hash returns the token as it is.

        ``InvalidOption`` if another token has the id. The name need not be unique.
        """
        ...

    @reads
    def info(self, id: str) -> Op[AccessToken]:
        """A token with its valid secrets. Costs one index look-up."""
        ...

    @writes(repeatable=True)
    def rotate(self, id: str, hash: str) -> Op[AccessToken]:
        """Give a token a second valid secret; the first one stays valid until it is revoked.

        A repeat with the same hash returns the token as it is. ``TokenEnded`` if the token was
        revoked or has expired; ``TooManySecrets`` if it has two valid secrets already.
        """
        ...

    @writes(repeatable=True)
    def revoke(self, id: str, secret: int | None) -> Op[AccessToken]:
        """Revoke a secret by its number, or the token with all its secrets; returns what is left.

        A token that loses its last secret is revoked. ``UnknownToken`` if the token never had such
        a secret; a secret that was revoked before stays revoked. Waiters for ``TOKENS_CHANGED``
        are notified.
        """
        ...

    @reads
    def list(self) -> Op[builtins.list[AccessToken]]:
        """All tokens, in the order of their creation; those of one millisecond by id."""
        ...

    @writes(repeatable=True)
    def touch(self, ids: Sequence[str]) -> Op[None]:
        """Note that tokens were used now. Relaxed.

        A token whose last use was noted less than ``TOUCH_MS`` ago stays as it is, so that this
        costs a look-up only. Ids without a token are ignored.
        """
        ...
