"""Willow's clients in Python, over the API of Willow that a node serves.

>>> from headrace.compat.willow import Willow
>>> client = Willow("http://127.0.0.1:7070")
>>> client.enqueue("builds", {"os": "linux"}, b"commit 1")
>>> item = client.dequeue("builds")
>>> item.ack()
"""

from headrace.compat._sync.willow import Willow
from headrace.compat._sync.willow_item import Item
from headrace.compat._sync.willow_limiter import Limiter
from headrace.compat._sync.willow_lock import Lock
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
