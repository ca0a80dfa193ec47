"""The guard of a node: access tokens, the scopes of each call, and requests of foreign pages.

- A Unix socket's mode is its identity: ``local`` may do everything.
- All other requests need a token, as ``Bearer``, or as the password of ``Basic``. A node that was
  started with ``--open`` needs none, and is reached from its own machine only.
- Pages in a browser reach a node on the same machine, so ``Host`` must be a name of the node and
  ``Origin``, if there is one, its own. A node sends no CORS headers.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress
import socket
import time
from collections.abc import Callable, Collection

import msgspec

from headrace.contract.operations import Operation
from headrace.contract.store import Store
from headrace.errors import NotAllowed, NotAuthenticated
from headrace.model.access_tokens import TokenText, has_secret, parse_token
from headrace.model.names import RESERVED, reserved_name
from headrace.model.scopes import AdminNeed, Need
from headrace.node.audit_log import AuditLog
from headrace.node.guard import LOCAL, RequestIdentity
from headrace.node.http import HttpError, HttpRequest
from headrace.node.required_scopes import hint_needs, needs_of
from headrace.node.shutdown import Closing
from headrace.node.token_cache import TokenCache

MAX_HEADER_BYTES = 32 * 1024
MAX_ACCEPTED = 1000
MAINTENANCE = frozenset(
    {
        "admin.acquire_lease",
        "admin.expire",
        "admin.prune",
        "counters.end",
        "locks.forget",
        "queues.consolidate",
        "queues.forget_clients",
        "queues.freeze",
        "queues.maintain",
        "sinks.prune_stages",
        "tokens.touch",
    }
)
"""Operations that clients run automatically. The audit topic does not list them."""

ITEM_ADMIN = frozenset(
    {
        "channels.delay",
        "channels.delete",
        "channels.forget_selection",
        "queues.cancel_item",
        "queues.edit_item",
        "queues.expire_leases",
        "queues.purge_dead",
        "queues.redrive",
        "queues.retry_item",
        *MAINTENANCE,
    }
)
"""Operations on what is in a queue, which operators may use on queues of Headrace's own."""


CREATIONS = frozenset({"procs.create", "queues.create", "sinks.publish", "sinks.ack_publish"})
"""Operations that create what they work on."""


class TokenGuard:
    """Authenticates requests by access tokens of the store, and authorizes them by scopes.

    ``local_token`` is one more token that allows everything: the one in the node's file.
    ``hosts`` are names of the node beyond ``localhost``, the machine's name and IP addresses.
    """

    def __init__(
        self,
        store: Store,
        closing: Closing,
        *,
        local_token: str | None = None,
        hosts: Collection[str] = (),
        is_open: bool = False,
        now: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.audit = AuditLog(store, closing)
        self.tokens = TokenCache(store, closing)
        self._local = None if local_token is None else local_token.encode()
        self._hosts = {"localhost", *_machine_names(), *(name.lower() for name in hosts)}
        # Values of ``Host`` that were checked before: most requests have one of very few.
        self._accepted: set[bytes] = set()
        self._is_open = is_open
        self._now = now

    async def aclose(self) -> None:
        """Finish what was started, once the node is stopping. The store is still open."""
        await self.audit.flush()
        await self.tokens.aclose()

    async def authenticate(self, request: HttpRequest) -> RequestIdentity:
        """The sender of a request; ``NotAuthenticated`` without a valid token."""
        if request.header_bytes > MAX_HEADER_BYTES:
            raise HttpError(
                431,
                "headers_too_large",
                f"the request's headers are longer than {MAX_HEADER_BYTES} bytes: send less.",
            )
        if request.is_private:
            return LOCAL
        self._check_host(request)
        _check_origin(request)
        if self._is_open:
            return LOCAL
        text = _presented(request)
        if self._local is not None and hmac.compare_digest(text, self._local):
            return LOCAL
        return await self._known(parse_token(text.decode("latin-1")))

    async def _known(self, presented: TokenText | None) -> RequestIdentity:
        known = None if presented is None else await self.tokens.find(presented.id)
        # One answer for an unknown id and for a wrong secret: it must not say which ids exist.
        if known is None or presented is None or not has_secret(known.token, presented):
            raise NotAuthenticated(
                "the access token is not valid: it may have been revoked or mistyped. List tokens "
                "with `headrace token ls`, create one with `headrace token create`."
            )
        if not known.token.is_live(self._now()):
            raise NotAuthenticated(
                "the access token has expired: create another with `headrace token create`."
            )
        self.tokens.note_use(presented.id)
        return known.identity

    def _check_host(self, request: HttpRequest) -> None:
        given = request.headers.get(b"host", b"")
        if given in self._accepted:
            return
        host = given.decode("latin-1").lower()
        name = host.rpartition("]")[0].removeprefix("[") or host.partition(":")[0]
        if name not in self._hosts and not _is_address(name):
            raise HttpError(
                421,
                "misdirected_request",
                f"this node is not {name!r}: use an address of the node, or give it that name with "
                "--host.",
            )
        if len(self._accepted) < MAX_ACCEPTED:
            self._accepted.add(given)

    def authorize(
        self, identity: RequestIdentity, operation: Operation, arguments: msgspec.Struct
    ) -> None:
        """Raise ``NotAllowed`` unless the identity's scopes allow a call."""
        if not operation.writes and identity.scopes.is_admin:
            return
        needs = needs_of(operation.name, arguments)
        missing = identity.scopes.missing(needs)
        if (
            operation.writes
            and operation.name not in MAINTENANCE
            and any(isinstance(need, AdminNeed) or need.verb == "manage" for need in needs)
        ):
            self.audit.note(identity, operation.name, needs, is_allowed=missing is None)
        if missing is not None:
            raise _not_allowed(operation.name, missing)
        if operation.writes:
            check_names(operation.name, needs)

    def authorize_notifications(self, identity: RequestIdentity, word: str) -> None:
        """Raise ``NotAllowed`` unless the identity may wait for a word."""
        missing = identity.scopes.missing(hint_needs(word))
        if missing is not None:
            raise _not_allowed(f"waiting for {word!r}", missing)


def check_need(identity: RequestIdentity, what: str, need: Need) -> None:
    """Raise ``NotAllowed`` unless the identity's scopes meet a need of a route."""
    missing = identity.scopes.missing([need])
    if missing is not None:
        raise _not_allowed(what, missing)


def check_names(operation: str, needs: Collection[Need | AdminNeed]) -> None:
    """Raise ``ReservedName`` if a call writes to what is Headrace's own, whatever its scopes."""
    for need in needs:
        if isinstance(need, AdminNeed) or not need.name.startswith(RESERVED):
            continue
        match need.verb:
            case "read":
                is_refused = False
            case "work":
                is_refused = operation in CREATIONS
            case "manage":
                is_refused = operation not in ITEM_ADMIN
            case "push" | "commit":
                is_refused = True
        if is_refused:
            raise reserved_name(need.noun, need.name)


def _not_allowed(what: str, missing: Need | AdminNeed) -> NotAllowed:
    return NotAllowed(
        f"{what} needs the scope {missing}, which this access token does not have: create a token "
        f"with `headrace token create NAME --scope '{missing}'`.",
        scope=str(missing),
    )


def _presented(request: HttpRequest) -> bytes:
    """The text of the token in a request."""
    kind, _, value = request.headers.get(b"authorization", b"").partition(b" ")
    match kind.lower():
        case b"bearer":
            return value.strip()
        case b"basic":
            # Clients that only know a URL send its user and password so. The user does not count,
            # unless it is all there is: http://TOKEN@host has no password.
            try:
                user, _, password = base64.b64decode(value, validate=True).partition(b":")
            except (binascii.Error, ValueError):
                raise _no_token() from None
            return password or user
        case _:
            raise _no_token()


def _no_token() -> NotAuthenticated:
    return NotAuthenticated(
        "the node needs an access token: connect to http://:TOKEN@host:port, or send the header "
        "'Authorization: Bearer TOKEN'. Create one with `headrace token create`."
    )


def _check_origin(request: HttpRequest) -> None:
    """Refuse requests of pages that the node did not serve itself."""
    origin = request.header(b"origin")
    if origin is None:
        return
    scheme, _, place = origin.lower().partition("://")
    if scheme not in ("http", "https") or place != (request.header(b"host") or "").lower():
        raise HttpError(
            403,
            "foreign_origin",
            "the request comes from a page of another site: call the node from a program, or from "
            "a page that the node serves.",
        )


def _is_address(name: str) -> bool:
    """Whether a host is an IP address: then no foreign name can have led here."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _machine_names() -> set[str]:
    name = socket.gethostname().lower()
    return {name, name.partition(".")[0]}
