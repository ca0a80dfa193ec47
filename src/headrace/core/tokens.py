"""Access tokens as users see them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from headrace.contract.tokens import NewToken
from headrace.model.access_tokens import AccessToken, TokenText, check_token_name, new_token
from headrace.model.scopes import check_scopes
from headrace.model.times import Duration, moment_of, optional_ms


class SecretInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A valid secret of an access token: its number, and when it was created."""

    number: int
    created: datetime


class TokenInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An access token of a node's clients, without its secrets.

    ``last_used`` may lag behind by a minute or two. A token that was ``revoked``, or whose time is
    over, is listed and of no use.
    """

    id: str
    name: str
    scopes: tuple[str, ...]
    secrets: tuple[SecretInfo, ...]
    created: datetime
    expires: datetime | None = None
    last_used: datetime | None = None
    revoked: datetime | None = None


class IssuedToken(msgspec.Struct, frozen=True, kw_only=True):
    """An access token with the text that its user presents; nothing shows the text again."""

    text: str
    info: TokenInfo

    def __repr__(self) -> str:
        return f"<IssuedToken {self.info.id} ({self.info.name!r})>"


def info_of(token: AccessToken) -> TokenInfo:
    """A token's row for the user."""
    return TokenInfo(
        id=token.id,
        name=token.name,
        scopes=token.scopes,
        secrets=tuple(
            SecretInfo(number=secret.number, created=moment_of(secret.created_at))
            for secret in token.secrets
        ),
        created=moment_of(token.created_at),
        expires=_moment(token.expires_at),
        last_used=_moment(token.last_used_at),
        revoked=_moment(token.revoked_at),
    )


def infos_of(tokens: Sequence[AccessToken]) -> list[TokenInfo]:
    """Rows of tokens for the user."""
    return [info_of(token) for token in tokens]


def new(name: str, scopes: object, expires: Duration | None) -> tuple[TokenText, NewToken]:
    """The text of a new token, and what the store keeps of it."""
    text = new_token()
    return text, NewToken(
        id=text.id,
        hash=text.hash,
        name=check_token_name(name),
        scopes=check_scopes(scopes),
        ttl_ms=optional_ms("expires", expires),
    )


def _moment(ms: int | None) -> datetime | None:
    return None if ms is None else moment_of(ms)
