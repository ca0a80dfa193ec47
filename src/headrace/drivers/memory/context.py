"""What the parts of a store in memory share, and how they reach each other."""

from __future__ import annotations

from collections.abc import Callable

from headrace.drivers.memory.admin import MemoryAdmin
from headrace.drivers.memory.channels import MemoryChannels
from headrace.drivers.memory.claim import MemoryClaims
from headrace.drivers.memory.counters import MemoryCounters
from headrace.drivers.memory.dead_letters import MemoryDeadLetters
from headrace.drivers.memory.item_admin import MemoryItemAdmin
from headrace.drivers.memory.lifecycle import MemoryLifecycle
from headrace.drivers.memory.limits import MemoryLimits
from headrace.drivers.memory.locks import MemoryLocks
from headrace.drivers.memory.pipelines import MemoryPipelines
from headrace.drivers.memory.presence import MemoryPresence
from headrace.drivers.memory.procs import MemoryProcs
from headrace.drivers.memory.push import MemoryPush
from headrace.drivers.memory.queues import MemoryQueues
from headrace.drivers.memory.schedules import MemorySchedules
from headrace.drivers.memory.sinks import MemorySinks
from headrace.drivers.memory.stats import MemoryStats
from headrace.drivers.memory.storage import MemoryStorage
from headrace.drivers.memory.tokens import MemoryTokens
from headrace.drivers.memory.topics import Data, MemoryTopics


class MemoryContext:
    """Data, clock and parts of one client, or of one transaction."""

    def __init__(self, data: Data, now: Callable[[], int]) -> None:
        self.data = data
        self.now = now
        # Not cached properties: those of Python 3.11 have a lock, which a fork may leave locked.
        self.topics = MemoryTopics(self)
        self.procs = MemoryProcs(self)
        self.storage = MemoryStorage(self)
        self.pushes = MemoryPush(self)
        self.claims = MemoryClaims(self)
        self.lifecycle = MemoryLifecycle(self)
        self.stats = MemoryStats(self)
        self.presence = MemoryPresence(self)
        self.dead_letters = MemoryDeadLetters(self)
        self.item_admin = MemoryItemAdmin(self)
        self.queues = MemoryQueues(self)
        self.channels = MemoryChannels(self)
        self.limits = MemoryLimits(self)
        self.locks = MemoryLocks(self)
        self.counters = MemoryCounters(self)
        self.sinks = MemorySinks(self)
        self.pipelines = MemoryPipelines(self)
        self.tokens = MemoryTokens(self)
        self.schedules = MemorySchedules(self)
        self.admin = MemoryAdmin(self)
