"""The advisory locks of the PostgreSQL driver.

An advisory lock has two numbers. The first says what it locks; the second is the id of a queue, a
hash, or 0. SQL files repeat the first one with the name as a comment, so that they can be run by
hand. Locks are not bound to a schema: stores in one database may wait for each other, which is
harmless.
"""

from __future__ import annotations

from enum import IntEnum


class AdvisoryLock(IntEnum):
    """The first number of each lock: "Hear" in ASCII, and those that follow."""

    # A queue's settings: shared by operations on its items, exclusive to change or drop the queue.
    QUEUE = 0x48656172
    # Pushes to a queue with a capacity, one at a time.
    PUSHES = 0x48656173
    # The rules of all limits: shared by transactions that count, exclusive to change a rule.
    LIMITS = 0x48656174
    # Operations that have collided with others, by a deadlock for example: they run one at a time.
    COLLIDED = 0x48656175
    # Some subjects of a queue, by a hash of both: pushes that need several lock them in one order.
    SUBJECTS = 0x48656176
