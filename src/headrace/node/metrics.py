"""Counters of the node, and the text in which Prometheus reads them.

Labels are bounded: routes and operations come from tables, queues, topics and procs are counted up
to a limit. Item ids, channels and the paths of requests are never labels.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headrace.telemetry.events import Event

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

Labels = tuple[str, ...]


class Family(NamedTuple):
    """A metric with its values by labels."""

    name: str
    kind: str
    help: str
    samples: Iterable[tuple[Mapping[str, str], float]]


class MetricCounter:
    """A number per combination of labels, which only grows."""

    def __init__(self, name: str, help: str, labels: Labels) -> None:
        self._name, self._help, self._labels = name, help, labels
        self._values: dict[Labels, float] = {}
        self._lock = threading.Lock()

    def add(self, *labels: str) -> None:
        """Count one."""
        with self._lock:
            self._values[labels] = self._values.get(labels, 0) + 1

    def family(self) -> Family:
        """The values so far."""
        with self._lock:
            values = sorted(self._values.items())
        samples = [(dict(zip(self._labels, key, strict=True)), value) for key, value in values]
        return Family(self._name, "counter", self._help, samples)


class Histogram:
    """How long something took, by buckets of seconds, per value of one label."""

    def __init__(self, name: str, help: str, label: str) -> None:
        self._name, self._help, self._label = name, help, label
        self._counts: dict[str, list[float]] = {}
        self._lock = threading.Lock()

    def observe(self, label: str, seconds: float) -> None:
        """Count one duration."""
        with self._lock:
            counts = self._counts.get(label)
            if counts is None:
                counts = self._counts[label] = [0.0] * (len(BUCKETS) + 2)
            counts[bisect_left(BUCKETS, seconds)] += 1
            counts[-1] += seconds

    def lines(self) -> Iterable[str]:
        """The histogram as text."""
        with self._lock:
            found = {label: list(counts) for label, counts in sorted(self._counts.items())}
        yield from _head(self._name, "histogram", self._help)
        for label, counts in found.items():
            total = 0.0
            for bound, count in zip((*BUCKETS, "+Inf"), counts, strict=False):
                total += count
                labels = {self._label: label, "le": str(bound)}
                yield _line(f"{self._name}_bucket", labels, total)
            yield _line(f"{self._name}_count", {self._label: label}, total)
            yield _line(f"{self._name}_sum", {self._label: label}, counts[-1])


class NodeMetrics:
    """What the node counts as it works: requests, and operations of its store."""

    def __init__(self) -> None:
        self._requests = MetricCounter(
            "headrace_requests_total", "Answered requests.", ("route", "status")
        )
        self._seconds = Histogram(
            "headrace_request_seconds", "Time from a request to the end of its answer.", "route"
        )
        self._operations = MetricCounter(
            "headrace_operations_total", "Operations of the store.", ("operation", "outcome")
        )
        self._errors = MetricCounter(
            "headrace_db_errors_total", "Operations that failed in the store.", ("kind",)
        )

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self._requests.add(route, str(status))
        self._seconds.observe(route, seconds)

    def count_operation(self, event: Event) -> None:
        """Count an operation; a handler for telemetry."""
        self._operations.add(event.operation, event.outcome)
        if event.outcome in ("failed", "unknown"):
            self._errors.add(event.code or "unknown")

    def lines(self) -> Iterable[str]:
        """Everything that was counted, as text."""
        for counter in (self._requests, self._operations, self._errors):
            yield from family_lines(counter.family())
        yield from self._seconds.lines()


def family_lines(family: Family) -> Iterable[str]:
    """A metric as text; nothing if it has no values."""
    samples = list(family.samples)
    if samples:
        yield from _head(family.name, family.kind, family.help)
        yield from (_line(family.name, labels, value) for labels, value in samples)


def _head(name: str, kind: str, help: str) -> Iterable[str]:
    yield f"# HELP {name} {help}"
    yield f"# TYPE {name} {kind}"


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    written = ",".join(f'{key}="{text.translate(_ESCAPES)}"' for key, text in labels.items())
    return f"{name}{{{written}}} {value!r}" if labels else f"{name} {value!r}"
