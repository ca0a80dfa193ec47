"""The seam of identity: which client sent a request, and what may it do?"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import msgspec

from headrace.contract.operations import Operation
from headrace.model.scopes import EVERYTHING, Scopes
from headrace.node.http import HttpRequest


class RequestIdentity(NamedTuple):
    """The sender of a request, as the node knows it.

    ``name`` is unique: the id of a token, or ``local``. ``label`` is for people.
    """

    name: str
    scopes: Scopes = EVERYTHING
    label: str = ""


class Guard(Protocol):
    """Authenticates requests, and authorizes what they ask for. Refusals are raised."""

    async def authenticate(self, request: HttpRequest) -> RequestIdentity:
        """The sender of a request. Called for every route that is not open."""
        ...

    def authorize(
        self, identity: RequestIdentity, operation: Operation, arguments: msgspec.Struct
    ) -> None:
        """Raise unless the sender may run the operation with these arguments."""
        ...

    def authorize_notifications(self, identity: RequestIdentity, word: str) -> None:
        """Raise unless the sender may wait for notifications: for a topic, or ``queue/<name>``."""
        ...


class OpenGuard:
    """Lets everything pass: for a node that only its own user can reach."""

    async def authenticate(self, request: HttpRequest) -> RequestIdentity:
        return LOCAL

    def authorize(
        self, identity: RequestIdentity, operation: Operation, arguments: msgspec.Struct
    ) -> None:
        pass

    def authorize_notifications(self, identity: RequestIdentity, word: str) -> None:
        pass


LOCAL = RequestIdentity("local")
"""The user of the node, who can reach its socket and read its file."""
