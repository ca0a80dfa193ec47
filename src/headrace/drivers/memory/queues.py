"""Queues in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.drivers.memory.context import MemoryContext


class MemoryQueues:
    """The part ``store.queues``; each operation is implemented in a module beside this one."""

    def __init__(self, context: MemoryContext) -> None:
        self.push = context.pushes.push
        claims = context.claims
        self.claim = claims.claim
        self.settle = claims.settle
        self.extend = claims.extend
        self.expire_leases = claims.expire_leases
        lifecycle = context.lifecycle
        self.create = lifecycle.create
        self.info = lifecycle.info
        self.list = lifecycle.list
        self.update = lifecycle.update
        self.add_dead_queue = lifecycle.add_dead_queue
        self.pause = lifecycle.pause
        self.resume = lifecycle.resume
        self.drop = lifecycle.drop
        self.defaults = lifecycle.defaults
        self.set_defaults = lifecycle.set_defaults
        item_admin = context.item_admin
        self.item = item_admin.item
        self.items = item_admin.items
        self.position = item_admin.position
        self.cancel_item = item_admin.cancel_item
        self.retry_item = item_admin.retry_item
        self.edit_item = item_admin.edit_item
        dead_letters = context.dead_letters
        self.dead_items = dead_letters.dead_items
        self.dead_groups = dead_letters.dead_groups
        self.count_dead = dead_letters.count_dead
        self.redrive = dead_letters.redrive
        self.purge_dead = dead_letters.purge_dead
        stats = context.stats
        self.counts = stats.counts
        self.consolidate = stats.consolidate
        self.logged_errors = stats.logged_errors
        self.samples = stats.samples
        self.maintain = stats.maintain
        presence = context.presence
        self.heartbeat = presence.heartbeat
        self.unregister = presence.unregister
        self.clients = presence.clients
        self.workers = presence.workers
        self.freeze = presence.freeze
        self.forget_clients = presence.forget_clients
