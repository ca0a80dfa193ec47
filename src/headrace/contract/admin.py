"""Maintenance and diagnosis: what every driver implements. See ``contract.store``."""

from __future__ import annotations

from typing import Protocol

from headrace.contract.flags import reads, writes
from headrace.contract.op import Op
from headrace.contract.values import Finding
from headrace.model.topics.records import TopicInfo
from headrace.model.topics.retention import Collected, Retention


class AdminStore(Protocol):
    """Maintenance that keeps a store small, and a diagnosis of the database itself.

    Correctness never depends on when maintenance runs.
    """

    @writes(repeatable=True)
    def set_retention(
        self, topic: str, min_age_ms: int | None, max_age_ms: int | None
    ) -> Op[TopicInfo]:
        """Set how long a topic keeps its records; ``UnknownTopic`` if it has no records.

        - ``min_age_ms``: older records are pruned once every proc, disabled ones included, has
          passed them and the range that it claimed before its last one.
        - ``max_age_ms``: older records are pruned even if a proc has not read them. Each claim
          of a proc that lost records answers ``overtaken`` until ``procs.seek`` moves the proc.
        - Neither: nothing is pruned.
        """
        ...

    @reads
    def default_retention(self) -> Op[Retention]:
        """How long topics without ages of their own keep their records."""
        ...

    @writes(repeatable=True)
    def set_default_retention(
        self, min_age_ms: int | None, max_age_ms: int | None, interval_ms: int
    ) -> Op[Retention]:
        """Change the default retention, for existing and for future topics.

        ``interval_ms`` is the pause between two rounds of maintenance.
        """
        ...

    @writes(repeatable=True)
    def prune(self, topic: str) -> Op[Collected]:
        """Prune one topic by its own ages, or by the default ages if it has none.

        ``first_seq`` moves exactly to the position that the ages give. The transaction excludes
        commits, new procs and seeks of this topic. Reads never return a record below
        ``first_seq``. A call removes a bounded number of the rows that lie entirely below it.
        """
        ...

    @reads
    def prunable(self) -> Op[list[str]]:
        """Topics that have an age of their own; all topics while a default age is set."""
        ...

    @writes()
    def acquire_lease(self, task: str, holder: str, ttl_ms: int, force: bool) -> Op[bool]:
        """Acquire the lease on a maintenance task for ``ttl_ms``; whether it was acquired.

        A lease that has not ended prevents that, unless ``force`` is set.
        """
        ...

    @writes(repeatable=True)
    def expire(self) -> Op[list[str]]:
        """Remove procs whose time to live is over, and expired keys; returns the procs' names."""
        ...

    @reads
    def diagnose(self, deep: bool) -> Op[list[Finding]]:
        """Check the engine, its settings and its state; one finding per check.

        Changes nothing, and needs no more rights than reading records does. Every driver has the
        checks ``engine``, ``durability``, ``topics`` (is one dated ahead of the clock?) and
        ``size``. Drivers with tables also have ``schema``. A driver may add checks of its own.
        With ``deep`` slow checks run, too.
        """
        ...
