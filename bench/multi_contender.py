"""Several players in one process, each in a place of its own: one at a time plays.

Where a case has many places and several processes for each, this is how it needs only as many
processes as play at the same time.
"""

from __future__ import annotations

import importlib
from typing import Any


class Player:
    """``module`` is that of the players; each is opened when something is first asked of it."""

    def __init__(self, module: str) -> None:
        self._kind = importlib.import_module(module).Player
        self._players: dict[str, Any] = {}
        self.client = self.durability = ""

    def at(self, where: str, what: str, options: dict[str, Any]) -> Any:
        """What the player in a place answers."""
        player = self._players.get(where)
        if player is None:
            player = self._players[where] = self._kind(where)
        return getattr(player, what)(**options)
