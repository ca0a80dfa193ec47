"""Findings that several drivers report, worded once."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headrace.contract.values import Fact, Finding

# Smaller differences come from a clock that was adjusted while records were written.
TOLERATED_MS = 60_000


def dated(topic: str | None, ahead_ms: int) -> Finding:
    """Judge the topic whose newest record is dated latest, and by how much beyond the clock."""
    if topic is None or ahead_ms <= TOLERATED_MS:
        return Finding(check="topics", verdict="ok", found="no topic is ahead of the clock")
    return Finding(
        check="topics",
        verdict="warn",
        found=f"topic {topic!r} is {duration(ahead_ms / 1000)} ahead of the clock: a clock ran "
        "fast once, and new records keep its time",
        next_step="set the clock right; the topic continues when the time has come",
        facts={"topic": topic, "ahead_ms": ahead_ms},
    )


def tables(version: int, newest: int, where: str) -> Finding:
    """Judge the version of the tables."""
    facts: dict[str, Fact] = {"version": version, "newest": newest}
    found = f"version {version} of {newest} in {where}"
    if version == newest:
        return Finding(check="schema", verdict="ok", found=found, facts=facts)
    next_step = "run headrace migrate" if version < newest else "upgrade the headrace package"
    return Finding(check="schema", verdict="fail", found=found, next_step=next_step, facts=facts)


def missing(names: Collection[str], where: str) -> Finding:
    """Report which tables, or rows that must be in them, no longer exist."""
    return Finding(
        check="schema",
        verdict="fail",
        found=f"no longer in {where}: {', '.join(names)}",
        next_step="restore the database from a backup",
        facts={"missing": ", ".join(names)},
    )


def size(parts: Mapping[str, int]) -> Finding:
    """Report how many bytes there are, in all and by part."""
    listed = ", ".join(f"{name} {size_text(count)}" for name, count in parts.items())
    facts: dict[str, Fact] = {f"{name}_bytes": count for name, count in parts.items()}
    total = size_text(sum(parts.values()))
    return Finding(check="size", verdict="ok", found=f"{total}: {listed}", facts=facts)


def size_text(count: float) -> str:
    """A number of bytes for people."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def duration(seconds: float) -> str:
    """A stretch of time for people: no more digits than matter."""
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes = int(seconds // 60)
    hours, days = minutes // 60, minutes // (24 * 60)
    if days:
        return f"{days} d {hours % 24} h"
    return f"{hours} h {minutes % 60} min" if hours else f"{minutes} min"
