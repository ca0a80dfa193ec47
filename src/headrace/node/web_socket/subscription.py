"""What the subscriptions of a socket have in common."""

from __future__ import annotations

from typing import Protocol

from headrace.errors import InvalidOption
from headrace.node.web_socket.messages import MAX_CREDIT


class Subscription(Protocol):
    """Records or items that are sent as they come."""

    async def run(self) -> None:
        """Send until it is cancelled. Errors end it."""
        ...

    def add_credit(self, credit: int) -> int:
        """Allow so much more; returns what is allowed now."""
        ...


def checked_credit(credit: int, present: int = 0) -> int:
    """Credit that a client gave, with what it has already."""
    if not 0 < credit <= MAX_CREDIT - present:
        raise InvalidOption(
            f"credit is {credit}: give at least 1, and not more than {MAX_CREDIT} in all.",
            option="credit",
        )
    return present + credit
