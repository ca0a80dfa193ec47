"""Rules of access tokens that every driver follows."""

from __future__ import annotations

from headrace.contract.tokens import NewToken
from headrace.errors import InvalidOption
from headrace.model.access_tokens import AccessToken, TokenSecret


def created(new: NewToken, now: int) -> AccessToken:
    """A new token with its first secret."""
    return AccessToken(
        id=new.id,
        name=new.name,
        scopes=new.scopes,
        secrets=(TokenSecret(number=1, hash=new.hash, created_at=now),),
        last_secret=1,
        created_at=now,
        expires_at=None if new.ttl_ms is None else now + new.ttl_ms,
    )


def same_token(found: AccessToken, new: NewToken) -> AccessToken:
    """The token with the id of a new one, if it is that one; else raise ``InvalidOption``."""
    if not any(secret.hash == new.hash for secret in found.secrets):
        raise InvalidOption(
            f"there is a token {new.id} already: create one with another id.", option="id"
        )
    return found
