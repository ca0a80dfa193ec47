"""Deletes channels, some at a time."""

from __future__ import annotations

from headrace.client.workflows import Plan
from headrace.contract.items import Deleted
from headrace.contract.store import Session
from headrace.core.channels import form_of
from headrace.model.names import check_queue
from headrace.model.query.queries import Query

# Of a few channels at a time, so that no other transaction waits for long.
CHANNELS_PER_STEP = 100


def delete_channels(store: Session, queue: str, select: Query) -> Plan[Deleted]:
    """Delete the channels that a query selects."""
    name, chosen = check_queue(queue), form_of(select)
    channels = items = 0
    while True:
        deleted: Deleted = yield store.channels.delete(name, chosen, CHANNELS_PER_STEP)
        channels += deleted.channels
        items += deleted.items
        if not deleted.channels:
            return Deleted(channels, items)
