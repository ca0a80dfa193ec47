"""What ``/metrics`` shows."""

from typing import Any

import pytest

import headrace
from headrace.node import figures
from headrace.node.figures import StoreFigures
from headrace.node.metrics import Family, Histogram, MetricCounter, NodeMetrics, family_lines
from headrace.telemetry import Event


def values(families: list[Family], name: str) -> dict[tuple[str, ...], float]:
    [family] = [family for family in families if family.name == name]
    return {tuple(labels.values()): value for labels, value in family.samples}


def test_figures_of_queues_topics_and_procs(store_url: str) -> None:
    with headrace.connect(store_url) as hr:
        hr.push_many("mail", [{"n": n} for n in range(3)])
        [item] = hr.queue("mail").claim()
        item.complete()
        hr.commit_many("orders", [{"n": n} for n in range(4)])
        hr.procs.create("billing", "orders")
        found = StoreFigures(hr).families()
        assert values(found, "headrace_queue_items")["mail", "pending"] == 2
        assert values(found, "headrace_items_pushed_total") == {("mail", "pushed"): 3}
        assert values(found, "headrace_items_finished_total")["mail", "ok"] == 1
        assert values(found, "headrace_queue_oldest_due_age_seconds")["mail",] >= 0
        assert values(found, "headrace_leases_expired_total") == {("mail",): 0}
        assert values(found, "headrace_topic_records_total") == {("orders",): 4}
        assert values(found, "headrace_proc_lag_records") == {("orders", "billing"): 4}
        assert values(found, "headrace_proc_lag_seconds")["orders", "billing"] >= 0


def test_figures_are_bounded_and_leave_out_what_has_to_be_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(figures, "MAX_QUEUES", 2)
    monkeypatch.setattr(figures, "MAX_TOPICS", 2)
    monkeypatch.setattr(figures, "MAX_PROCS", 2)
    with headrace.connect("memory://") as hr:
        hr.queues.create("a", metrics=False)
        for name in ("b", "c", "d"):
            hr.push(name, {})
            hr.commit(name, {})
            hr.procs.create(name, name)
        with hr.live("b"):
            found = StoreFigures(hr).families()
        assert {queue for queue, _ in values(found, "headrace_queue_items")} == {"b"}
        assert len(values(found, "headrace_topic_records_total")) == 2
        assert values(found, "headrace_proc_lag_records").keys() == {("b", "b"), ("c", "c")}


def test_the_store_is_read_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    with headrace.connect("memory://") as hr:
        shown = StoreFigures(hr)
        now = 100.0
        monkeypatch.setattr(figures, "monotonic", lambda: now)
        first = shown.families()
        hr.push("mail", {})
        now = 109.0
        assert shown.families() is first
        now = 111.0
        assert values(shown.families(), "headrace_queue_items")["mail", "pending"] == 1


def test_text_of_a_metric() -> None:
    counter = MetricCounter("headrace_things_total", "Things.", ("queue",))
    counter.add('a "quoted"\nname\\')
    counter.add("b")
    counter.add("b")
    assert list(family_lines(counter.family())) == [
        "# HELP headrace_things_total Things.",
        "# TYPE headrace_things_total counter",
        r'headrace_things_total{queue="a \"quoted\"\nname\\"} 1',
        'headrace_things_total{queue="b"} 2',
    ]
    assert list(family_lines(Family("headrace_none", "gauge", "None.", []))) == []


def test_a_histogram_counts_up_to_each_bound() -> None:
    histogram = Histogram("headrace_seconds", "Time.", "route")
    for seconds in (0.0005, 0.003, 100.0):
        histogram.observe("/x", seconds)
    lines = list(histogram.lines())
    assert 'headrace_seconds_bucket{route="/x",le="0.001"} 1.0' in lines
    assert 'headrace_seconds_bucket{route="/x",le="0.005"} 2.0' in lines
    assert 'headrace_seconds_bucket{route="/x",le="60.0"} 2.0' in lines
    assert 'headrace_seconds_bucket{route="/x",le="+Inf"} 3.0' in lines
    assert 'headrace_seconds_count{route="/x"} 3.0' in lines
    assert 'headrace_seconds_sum{route="/x"} 100.0035' in lines


def test_operations_are_counted_by_outcome() -> None:
    def event(**fields: Any) -> Event:
        return Event(operation="queues.push", store="memory", seconds=0.1, attempts=1, **fields)

    metrics = NodeMetrics()
    metrics.count_operation(event(outcome="ok"))
    metrics.count_operation(event(outcome="failed", code="store_unavailable"))
    lines = list(metrics.lines())
    assert 'headrace_operations_total{operation="queues.push",outcome="ok"} 1' in lines
    assert 'headrace_db_errors_total{kind="store_unavailable"} 1' in lines
