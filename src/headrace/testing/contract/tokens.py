"""The guarantees of access tokens."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest

from headrace import telemetry
from headrace.contract.tokens import TOKENS_CHANGED, TOUCH_MS, NewToken
from headrace.errors import (
    HeadraceError,
    InvalidOption,
    NotConnected,
    TokenEnded,
    TooManySecrets,
    UnknownToken,
)
from headrace.model.access_tokens import AccessToken, TokenSecret, has_secret, parse_token
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Connect, Contract
from headrace.testing.contract.queue_base import StoreOps

A = "0123456789abcdef"
B = "fedcba9876543210"


def create(ops: StoreOps, id: str = A, **fields: Any) -> AccessToken:
    fields = {"hash": "first", "name": "mailer", "scopes": ("push:queue/mail", "admin"), **fields}
    token: AccessToken = ops.tokens.create(NewToken(id=id, **fields))
    return token


class TokenContract(Contract):
    """What a store keeps of access tokens, and what becomes of their secrets."""

    needed_parts = frozenset({"tokens"})

    @pytest.fixture
    def ops(self, hr: Any) -> StoreOps:
        return StoreOps(hr)

    def test_a_created_token_is_kept(
        self, ops: StoreOps, clock: FakeClock, connect: Connect
    ) -> None:
        """With one secret, and the store's times. Other clients find it by its id."""
        token = create(ops, ttl_ms=5000)
        assert token == AccessToken(
            id=A,
            name="mailer",
            scopes=("push:queue/mail", "admin"),
            secrets=(TokenSecret(number=1, hash="first", created_at=clock.now),),
            last_secret=1,
            created_at=clock.now,
            expires_at=clock.now + 5000,
        )
        assert StoreOps(connect()).tokens.info(A) == token
        assert token.is_live(clock.now + 4999)
        assert not token.is_live(clock.now + 5000)

    def test_a_repeated_creation_returns_the_token(self, ops: StoreOps, clock: FakeClock) -> None:
        """A caller whose answer was lost may repeat the call. Another token with the id is
        refused."""
        token = create(ops)
        clock.advance(1)
        assert create(ops) == token
        with pytest.raises(InvalidOption):
            create(ops, hash="other")
        assert ops.tokens.list() == [token]

    def test_tokens_are_listed_in_the_order_of_their_creation(
        self, ops: StoreOps, clock: FakeClock
    ) -> None:
        """Two of the same moment by their ids. Revoked and expired ones stay in the list."""
        first = create(ops, B, ttl_ms=1)
        clock.advance(1)
        others = [create(ops, id) for id in ("c" * 16, A)]
        ops.tokens.revoke(A, None)
        assert [token.id for token in ops.tokens.list()] == [B, A, "c" * 16]
        assert ops.tokens.list()[::2] == [first, others[0]]

    def test_a_rotation_adds_a_second_secret(self, ops: StoreOps, clock: FakeClock) -> None:
        """Both are valid. A third one is refused until one of them is revoked, and numbers are
        never used again."""
        create(ops)
        clock.advance(1)
        token = ops.tokens.rotate(A, "second")
        assert ops.tokens.rotate(A, "second") == token == ops.tokens.info(A)
        assert [(s.number, s.hash) for s in token.secrets] == [(1, "first"), (2, "second")]
        assert token.secrets[1].created_at == clock.now
        with pytest.raises(TooManySecrets) as caught:
            ops.tokens.rotate(A, "third")
        assert caught.value.secrets == [1, 2]
        assert [s.number for s in ops.tokens.revoke(A, 2).secrets] == [1]
        assert [s.number for s in ops.tokens.rotate(A, "third").secrets] == [1, 3]
        assert [s.hash for s in ops.tokens.revoke(A, 1).secrets] == ["third"]

    def test_a_token_without_secrets_is_revoked(self, ops: StoreOps, clock: FakeClock) -> None:
        """By revoking its last secret, or all of them. Repeating that changes nothing."""
        create(ops)
        create(ops, B)
        ops.tokens.rotate(B, "second")
        revoked = [ops.tokens.revoke(A, 1), ops.tokens.revoke(B, None)]
        assert [(t.secrets, t.revoked_at) for t in revoked] == [((), clock.now)] * 2
        assert not revoked[0].is_live(clock.now)
        clock.advance(1)
        assert [ops.tokens.revoke(A, 1), ops.tokens.revoke(B, None)] == revoked
        assert ops.tokens.revoke(B, 2) == revoked[1]

    def test_a_secret_that_was_revoked_stays_revoked(self, ops: StoreOps) -> None:
        """A repeat leaves the others alone; a secret that never was is an error."""
        create(ops)
        ops.tokens.rotate(A, "second")
        token = ops.tokens.revoke(A, 1)
        assert ops.tokens.revoke(A, 1) == token
        for number in (0, 3, -1):
            with pytest.raises(UnknownToken):
                ops.tokens.revoke(A, number)
        assert ops.tokens.info(A) == token

    def test_a_token_that_has_ended_gets_no_secret(self, ops: StoreOps, clock: FakeClock) -> None:
        create(ops)
        create(ops, B, ttl_ms=1000)
        ops.tokens.revoke(A, None)
        clock.advance(1)
        for id in (A, B):
            with pytest.raises(TokenEnded):
                ops.tokens.rotate(id, "second")

    def test_an_unknown_token_is_an_error(self, ops: StoreOps) -> None:
        create(ops)
        for use in (
            lambda: ops.tokens.info(B),
            lambda: ops.tokens.rotate(B, "second"),
            lambda: ops.tokens.revoke(B, None),
        ):
            with pytest.raises(UnknownToken) as caught:
                use()
            assert caught.value.id == B

    def test_a_revocation_is_announced(self, ops: StoreOps) -> None:
        """So that a node forgets the token immediately."""
        create(ops)
        waiter = ops.store.waiter(TOKENS_CHANGED)
        try:
            ops.tokens.revoke(A, None)
            assert ops.is_woken(waiter)
        finally:
            waiter.close()

    def test_the_last_use_is_noted(self, ops: StoreOps, clock: FakeClock) -> None:
        """Once a minute is enough. Nothing else changes."""
        token = create(ops)
        other = create(ops, B)
        ops.tokens.touch([A, "nobody"])
        first = clock.now
        assert ops.tokens.info(A).last_used_at == first
        clock.advance(TOUCH_MS / 1000 - 0.001)
        ops.tokens.touch([A])
        assert ops.tokens.info(A).last_used_at == first
        clock.advance(0.001)
        ops.tokens.touch([A])
        found = ops.tokens.info(A)
        assert found.last_used_at == clock.now
        assert (found.secrets, found.scopes) == (token.secrets, token.scopes)
        assert ops.tokens.info(B) == other
        ops.tokens.touch([])


class TokenClientContract(Contract):
    """Access tokens through the public client."""

    needed_parts = frozenset({"tokens"})

    def test_a_token_is_shown_once(self, hr: Any, clock: FakeClock) -> None:
        """The text has the id and the secret. The store has neither the text nor the secret."""
        issued = hr.tokens.create("mailer", ["push:queue/mail"], expires="1h")
        presented = parse_token(issued.text)
        assert presented is not None
        assert presented.id == issued.info.id
        assert issued.info.expires - issued.info.created == timedelta(hours=1)
        assert hr.tokens.info(issued.info.id) == issued.info == hr.tokens.list()[0]
        stored = StoreOps(hr).tokens.info(issued.info.id)
        assert has_secret(stored, presented)
        assert presented.secret not in repr(stored)

    def test_a_rotated_token_has_two_texts(self, hr: Any) -> None:
        """Both are valid until the first secret is revoked."""
        first = hr.tokens.create("mailer", ["push:queue/mail"])
        second = hr.tokens.rotate(first.info.id)
        texts = [parse_token(issued.text) for issued in (first, second)]
        assert [secret.number for secret in second.info.secrets] == [1, 2]

        def valid() -> list[bool]:
            stored = StoreOps(hr).tokens.info(first.info.id)
            return [text is not None and has_secret(stored, text) for text in texts]

        assert valid() == [True, True]
        left = hr.tokens.revoke(first.info.id, secret=1)
        assert (valid(), left.revoked) == ([False, True], None)
        assert hr.tokens.revoke(first.info.id).revoked is not None
        assert valid() == [False, False]

    def test_no_secret_is_shown(self, hr: Any, caplog: pytest.LogCaptureFixture) -> None:
        """Not by a repr, an event, a log line, or an error that was given the whole text."""
        events: list[telemetry.Event] = []
        caplog.set_level(logging.DEBUG)
        unsubscribe = telemetry.subscribe(events.append)
        try:
            issued = hr.tokens.create("mailer", ["admin"])
            hr.tokens.rotate(issued.info.id)
        finally:
            unsubscribe()
        secret = issued.text.rpartition(issued.info.id)[2].strip("_")
        for use in (
            lambda: hr.tokens.info(issued.text),
            lambda: hr.tokens.revoke(issued.text),
            lambda: hr.tokens.rotate(issued.text),
            lambda: hr.tokens.create(issued.text, ["admin"]),
        ):
            with pytest.raises(InvalidOption) as caught:
                use()
            assert secret not in f"{caught.value!r} {caught.value.details}"
        assert events
        assert secret not in f"{issued!r} {events} {caplog.text} {parse_token(issued.text)!r}"
        assert issued.info.id in repr(issued)

    @pytest.mark.parametrize(
        ("name", "scopes", "options"),
        [
            ("", ["admin"], {}),
            (" x", ["admin"], {}),
            ("x\n", ["admin"], {}),
            (7, ["admin"], {}),
            ("x", [], {}),
            ("x", "admin", {}),
            ("x", None, {}),
            ("x", [7], {}),
            ("x", ["everything"], {}),
            ("x", ["push:queue"], {}),
            ("x", ["push:topic/t"], {}),
            ("x", ["admin"], {"expires": 0}),
            ("x", ["admin"], {"expires": "soon"}),
        ],
    )
    def test_wrong_arguments_are_refused(
        self, hr: Any, name: Any, scopes: Any, options: dict[str, Any]
    ) -> None:
        with pytest.raises(InvalidOption):
            hr.tokens.create(name, scopes, **options)
        assert hr.tokens.list() == []

    @pytest.mark.parametrize("id", ["", "x", None, 7, "0123456789ABCDEF", "0" * 17])
    def test_a_wrong_id_is_refused(self, hr: Any, id: Any) -> None:
        for use in (hr.tokens.info, hr.tokens.rotate, hr.tokens.revoke):
            with pytest.raises(InvalidOption):
                use(id)

    def test_a_closed_client_refuses(self, hr: Any) -> None:
        hr.close()
        for use in (
            hr.tokens.list,
            lambda: hr.tokens.create("x", ["admin"]),
            lambda: hr.tokens.info(A),
            lambda: hr.tokens.rotate(A),
            lambda: hr.tokens.revoke(A),
        ):
            with pytest.raises(NotConnected):
                use()

    def test_errors_name_the_next_step(self, hr: Any) -> None:
        issued = hr.tokens.create("mailer", ["admin"])
        hr.tokens.rotate(issued.info.id)
        with pytest.raises(HeadraceError, match=r"hr\.tokens\.revoke\('[0-9a-f]{16}', secret=1\)"):
            hr.tokens.rotate(issued.info.id)
