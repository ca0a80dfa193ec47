"""Queues in SQL: load under a lock, let ``model.queues`` decide, store the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.drivers.sql_common.context import SqlContext


class SqlQueues:
    """The part ``store.queues``: a list of its operations, each with the module that defines it.

    They are bound methods and not methods that forward: a push or a claim has one call less.
    """

    def __init__(self, context: SqlContext) -> None:
        self.push = context.pushes.push
        self.claim = context.claims.claim
        settlements = context.settlements
        self.settle = settlements.settle
        self.extend = settlements.extend
        self.expire_leases = settlements.expire_leases
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
