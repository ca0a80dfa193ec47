"""Rows of the tables of queues as values, and back."""

from __future__ import annotations

from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from headrace.contract.items import FinishedItem
from headrace.drivers.sql_common.statements import Row
from headrace.errors import SchemaTooNew
from headrace.model.queues.items import Document, ItemState, rank_of
from headrace.model.queues.settings import QueueInfo, QueueSettings

_ITEM = tuple(field for field in ItemState.__struct_fields__ if field != "queue")
_GONE = ("token", "lease_until", "successor")
_ENDED = tuple(field for field in _ITEM if field not in _GONE)
_NEW = (
    *("payload", "format", "subject", "priority", "state", "position", "next_execution"),
    *("waiting_since", "created_at", "headers", "overrides", "key_values"),
)
_FIXED = ("subject", "created_at", "claimed_at", "key_values")
_SAVED = tuple(field for field in _ITEM if field not in _FIXED)

_decode_settings = msgspec.json.Decoder(QueueSettings).decode
# A cache: every call reads its queue, and most of the time the settings have not changed.
_settings: dict[str, QueueSettings] = {}


_pick = itemgetter(*_ITEM)


class QueueRow(NamedTuple):
    """A queue's row, and the time at which it was read."""

    id: int
    info: QueueInfo
    is_live: bool
    frozen_until: int | None
    now: int
    # The version of the rules that may apply to its items; 0 if there are none.
    limit_version: int = 0
    # Grows with each change of its selections; 0 if there never was one.
    selections: int = 0

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def settings(self) -> QueueSettings:
        return self.info.settings

    @property
    def is_frozen(self) -> bool:
        """Whether the queue is frozen."""
        return self.frozen_until is not None and self.now < self.frozen_until


def queue_of(row: Row) -> QueueRow:
    info = QueueInfo(
        name=row["name"],
        settings=settings_of(row["settings"]),
        version=row["version"],
        created_at=row["created_at"],
        is_paused=bool(row["is_paused"]),
        paused_by=row["paused_by"],
        has_channels=bool(row["has_channels"]),
    )
    return QueueRow(
        row["id"],
        info,
        bool(row["is_live"]),
        row["frozen_until"],
        row["now"],
        row["limit_version"],
        row["selections"],
    )


def settings_of(text: str) -> QueueSettings:
    """Settings from their JSON."""
    known = _settings.get(text)
    if known is None:
        if len(_settings) > 1000:
            _settings.clear()
        try:
            known = _settings[text] = _decode_settings(text)
        except msgspec.ValidationError as error:
            raise SchemaTooNew(
                f"a queue has settings of a newer Headrace ({error}): upgrade this client."
            ) from error
    return known


def text_of(settings: QueueSettings) -> str:
    return msgspec.json.encode(settings).decode()


def item_of(row: Row, queue: str) -> ItemState:
    return ItemState(queue=queue, **dict(zip(_ITEM, _pick(row), strict=True)))


def ended_of(row: Row, queue: str) -> FinishedItem:
    return FinishedItem(
        item=ItemState(queue=queue, **{field: row[field] for field in _ENDED}),
        ended_at=row["ended_at"],
        cause=row["cause"],
        fingerprint=row["fingerprint"],
        title=row["title"],
    )


def plain_values(document: Document, queue: QueueRow, due: int) -> dict[str, Any]:
    """The columns of a new item without a subject; it gets its place later."""
    now = queue.now
    return {
        "queue": queue.id,
        "rank": -rank_of(queue.settings.discipline, document.priority),
        "payload": document.payload,
        "format": document.format,
        "priority": document.priority,
        "state": 1 if due <= now else 0,
        "position": None,
        "next_execution": due,
        "waiting_since": now,
        "created_at": now,
        "headers": document.headers,
        "overrides": document.overrides,
    }


def new_values(item: ItemState, queue: QueueRow, channel: int) -> dict[str, Any]:
    """The columns of a new item."""
    return _values(item, _NEW, queue) | {"channel": channel}


def saved_values(item: ItemState, queue: QueueRow) -> dict[str, Any]:
    """The columns that change in the life of an item."""
    values = _values(item, _SAVED, queue)
    del values["queue"]
    return values


def all_values(item: ItemState, queue: QueueRow, channel: int) -> dict[str, Any]:
    """All columns of a live item."""
    return _values(item, _ITEM, queue) | {"channel": channel}


def ended_values(ended: FinishedItem, queue: QueueRow) -> dict[str, Any]:
    """The columns of an ended item."""
    values = _values(ended.item, _ENDED, queue)
    del values["rank"]
    values["ended_at"] = ended.ended_at
    values["cause"] = ended.cause
    values["fingerprint"] = ended.fingerprint
    values["title"] = ended.title
    return values


def _values(item: ItemState, fields: tuple[str, ...], queue: QueueRow) -> dict[str, Any]:
    values: dict[str, Any] = {field: getattr(item, field) for field in fields}
    values["queue"] = queue.id
    # Negated, so that both parts of the order ascend.
    values["rank"] = -rank_of(queue.settings.discipline, item.priority)
    if "state" in values:
        values["state"] = int(values["state"])
    return values
