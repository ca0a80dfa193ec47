"""The audit topic: which identity changed what, and when.

Records are committed in the background, within a second of the call. A node that crashes may lose
those of its last second.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from headrace.contract.store import Store
from headrace.contract.values import CommitCall, CommitPart
from headrace.errors import HeadraceError
from headrace.model.codec import DEFAULT_MAX_BODY, encode_rows
from headrace.model.failures import words_of
from headrace.model.scopes import AdminNeed, Need
from headrace.node.guard import RequestIdentity
from headrace.node.shutdown import Closing

AUDIT_TOPIC = "_audit"
KEPT_DAYS = 90
MAX_WAITING = 10_000
"""How many records wait for a store that is away. The oldest ones are lost first."""
BATCH = 1000
RETRY_SECONDS = 1.0
_log = logging.getLogger("headrace.node")


class AuditLog:
    """Commits a record for each call that manages something, and for each such call refused."""

    def __init__(self, store: Store, closing: Closing) -> None:
        self._store = store
        self._closing = closing
        self._waiting: list[dict[str, Any]] = []
        self._lost = 0
        self._writer: asyncio.Task[None] | None = None
        self._has_retention = False

    def note(
        self,
        identity: RequestIdentity,
        operation: str,
        needs: Sequence[Need | AdminNeed],
        *,
        is_allowed: bool,
    ) -> None:
        """Record a call. Arguments are not recorded: they may hold what is nobody's business."""
        self._waiting.append(
            {
                "time": datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds"),
                "token": identity.name,
                "name": identity.label,
                "operation": operation,
                "scopes": [str(need) for need in needs],
                "is_allowed": is_allowed,
            }
        )
        if len(self._waiting) > MAX_WAITING:
            del self._waiting[0]
            self._lost += 1
        if self._writer is None or self._writer.done():
            self._writer = asyncio.ensure_future(self._write())

    async def flush(self) -> None:
        """Wait until all records are committed."""
        if self._writer is not None:
            await self._writer

    async def _write(self) -> None:
        """Commit what waits; ends when nothing does."""
        while self._waiting:
            batch = self._waiting[:BATCH]
            try:
                await self._commit(batch)
            except HeadraceError as error:
                _log.warning("the audit topic was not written: %s", words_of(error))
                if self._closing.has_begun:
                    return
                await asyncio.sleep(RETRY_SECONDS)
            else:
                # More may have been dropped meanwhile than was in the batch.
                written = {id(record) for record in batch}
                self._waiting = [r for r in self._waiting if id(r) not in written]

    async def _commit(self, batch: list[dict[str, Any]]) -> None:
        lost, bodies = self._lost, list(batch)
        if lost:
            bodies.insert(0, {"lost": lost})
        rows = encode_rows(bodies, max_body=DEFAULT_MAX_BODY)
        parts = tuple(CommitPart(AUDIT_TOPIC, *row) for row in rows)
        await self._store.arun(self._store.topics.commit([CommitCall(parts=parts)]))
        self._lost -= lost
        if not self._has_retention:
            await self._set_retention()

    async def _set_retention(self) -> None:
        """Keep records for ``KEPT_DAYS``, unless an operator has decided otherwise."""
        info = await self._store.arun(self._store.topics.info(AUDIT_TOPIC))
        if info.min_age is None and info.max_age is None:
            age = KEPT_DAYS * 24 * 3600 * 1000
            await self._store.arun(self._store.admin.set_retention(AUDIT_TOPIC, None, age))
        self._has_retention = True
