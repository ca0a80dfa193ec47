"""Access tokens: how clients of a node prove which token they have.

The text of a token is ``hrt_<id>_<secret>``. A store has the id and the SHA-256 of each secret. A
slow hash would add nothing: a secret has 256 random bits, and cannot be guessed.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from headrace.errors import InvalidOption, TokenEnded, TooManySecrets, UnknownToken
from headrace.model.fields import shown

MAX_SECRETS = 2
"""How many secrets of a token are valid at the same time: the old and the new one of a rotation."""

MAX_NAME_LENGTH = 200

_TEXT = re.compile(r"hrt_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")


class TokenSecret(msgspec.Struct, frozen=True, kw_only=True):
    """A valid secret of a token: its number among all secrets of the token, and its SHA-256."""

    number: int
    hash: str
    created_at: int


class AccessToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token as it is stored. ``secrets`` are the valid ones, by number.

    ``last_secret`` is the highest number that a secret of the token ever had. ``last_used_at`` may
    be some minutes old.
    """

    id: str
    name: str
    scopes: tuple[str, ...]
    secrets: tuple[TokenSecret, ...]
    last_secret: int
    created_at: int
    expires_at: int | None = None
    last_used_at: int | None = None
    revoked_at: int | None = None

    def is_live(self, now: int) -> bool:
        """Whether it may be used now."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class TokenText(NamedTuple):
    """The two parts of a token's text. Its repr hides the secret."""

    id: str
    secret: str

    def __repr__(self) -> str:
        return f"<token {self.id}>"

    @property
    def text(self) -> str:
        """What a client presents."""
        return f"hrt_{self.id}_{self.secret}"

    @property
    def hash(self) -> str:
        """What a store keeps of it."""
        return hashlib.sha256(self.secret.encode()).hexdigest()


def new_token() -> TokenText:
    """A token with an id and a secret of its own."""
    return TokenText(os.urandom(8).hex(), _new_secret())


def new_secret(id: str) -> TokenText:
    """A token with another secret."""
    return TokenText(id, _new_secret())


def _new_secret() -> str:
    return secrets.token_urlsafe(32)


def parse_token(text: str) -> TokenText | None:
    """The parts of a token's text; None if it is no such text. Errors must not show the text."""
    found = _TEXT.fullmatch(text)
    return TokenText(found[1], found[2]) if found else None


def has_secret(token: AccessToken, presented: TokenText) -> bool:
    """Whether a secret is one of the token's, in time that does not depend on where they differ."""
    digest, is_equal = presented.hash, False
    for secret in token.secrets:
        is_equal |= hmac.compare_digest(secret.hash, digest)
    return is_equal


def check_token_name(name: object) -> str:
    """Return ``name`` if it may name a token, else raise ``InvalidOption``."""
    if (
        isinstance(name, str)
        and 0 < len(name) <= MAX_NAME_LENGTH
        and name.isprintable()
        and name == name.strip()
    ):
        if _TEXT.search(name):
            raise InvalidOption(
                "the name of a token contains the text of a token: name the program or the person "
                "that uses the token.",
                option="name",
            )
        return name
    raise InvalidOption(
        f"{shown(name)} cannot name a token: use 1 to {MAX_NAME_LENGTH} printable characters, and no "
        "space at either end.",
        option="name",
    )


def check_token_id(id: object) -> str:
    """Return ``id`` if it may be the id of a token, else raise ``InvalidOption``.

    Callers often have the whole text of a token. The error does not repeat it.
    """
    if isinstance(id, str) and re.fullmatch(r"[0-9a-f]{16}", id):
        return id
    found = _TEXT.search(id) if isinstance(id, str) else None
    raise InvalidOption(
        f"this is the whole text of a token: name the token by its id, {found[1]}."
        if found
        else "a token is named by its id, 16 digits and letters from a to f: "
        "hr.tokens.list() lists them.",
        option="id",
    )


def rotated(token: AccessToken, hash: str, now: int) -> AccessToken:
    """The token with one more valid secret; unchanged if it has this one already."""
    if any(secret.hash == hash for secret in token.secrets):
        return token
    if not token.is_live(now):
        what = "was revoked" if token.revoked_at is not None else "has expired"
        raise TokenEnded(
            f"token {token.id} ({shown(token.name)}) {what}, and gets no new secret: create another "
            "token.",
            id=token.id,
        )
    if len(token.secrets) >= MAX_SECRETS:
        old, new = (secret.number for secret in token.secrets)
        raise TooManySecrets(
            f"token {token.id} ({shown(token.name)}) has two valid secrets, {old} and {new}: revoke the "
            f"one that is no longer used, hr.tokens.revoke({token.id!r}, secret={old}).",
            id=token.id,
            secrets=[old, new],
        )
    number = token.last_secret + 1
    secret = TokenSecret(number=number, hash=hash, created_at=now)
    return replace(token, secrets=(*token.secrets, secret), last_secret=number)


def revoked(token: AccessToken, secret: int | None, now: int) -> AccessToken:
    """The token without one of its secrets, or without all; unchanged if that was done before."""
    if secret is not None and not 1 <= secret <= token.last_secret:
        raise UnknownToken(
            f"token {token.id} ({shown(token.name)}) has no secret {secret}: "
            f"hr.tokens.info({token.id!r}).secrets lists them.",
            id=token.id,
        )
    left = tuple(s for s in token.secrets if secret is not None and s.number != secret)
    if token.revoked_at is not None or (left and left == token.secrets):
        return token
    return replace(token, secrets=left, revoked_at=token.revoked_at if left else now)


def unknown_token(id: str) -> UnknownToken:
    return UnknownToken(f"there is no token {shown(id)}: hr.tokens.list() lists them.", id=id)
