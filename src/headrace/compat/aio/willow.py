"""Willow's clients for async code: ``headrace.compat.willow`` with ``await``."""

from headrace.compat._async.willow import AsyncWillow as Willow
from headrace.compat._async.willow_item import AsyncItem as Item
from headrace.compat._async.willow_limiter import AsyncLimiter as Limiter
from headrace.compat._async.willow_lock import AsyncLock as Lock
from headrace.compat.willow_values import Channel, Counter, LockInfo, Override, Queue, Rule

__all__ = [
    "Channel",
    "Counter",
    "Item",
    "Limiter",
    "Lock",
    "LockInfo",
    "Override",
    "Queue",
    "Rule",
    "Willow",
]
