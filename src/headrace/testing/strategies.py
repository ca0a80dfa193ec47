"""What the queue machine draws from."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from hypothesis import strategies as st

from headrace.contract.items import ItemFilter
from headrace.contract.limits import OverrideRow, RuleRow
from headrace.core.where import where
from headrace.model.failures import Failure
from headrace.model.limits.rules import EVERYTHING
from headrace.model.query.key_values import KeyValues
from headrace.model.query.queries import Query
from headrace.model.query.typed_values import ANY
from headrace.model.queues.items import WORKER_LOST, Kind
from headrace.model.queues.settings import Backoff
from headrace.testing.faults import Point


class Doc(NamedTuple):
    """A document. Its content is made when it is pushed."""

    subject: str | None = None
    priority: int = 0
    when: tuple[Literal["now", "delay", "due"], int] = ("now", 0)
    headers: str | None = None
    overrides: str | None = None
    is_empty: bool = False
    channel: str | None = None


class DrawnOutcome(NamedTuple):
    """An outcome of an item. ``which`` counts the items in flight."""

    which: int
    token: Literal["own", "stale", "nobody's"]
    kind: Kind
    has_payload: bool
    wait: tuple[Literal["settings", "delay", "due"], int]
    failure: Failure | None
    commits: int
    pushes: tuple[tuple[str, Doc, bool], ...]


DONE = DrawnOutcome(0, "own", "complete", False, ("settings", 0), None, 0, ())
A, B, C = (KeyValues.of({"name": name}).form for name in "abc")
channels = st.sampled_from([*[None] * 6, A, A, A, B, B, C])
selections = st.sampled_from([None, Query().form, where(name="a").form, where(name__ne="a").form])
choices = st.sampled_from(
    [
        *[{}] * 4,
        {"select": Query().form},
        {"select": Query().form, "quantum": 1},
        {"select": Query().form, "quantum": 2},
        {"select": where(name="a").form},
        {"select": where(name__ne="a").form},
        {"select": Query().form, "order": "line"},
        {"select": where(name__ne="a").form, "order": "line"},
    ]
)
queues = st.sampled_from(["a", "a", "a", "a", "b", "c"])
which = st.sampled_from(range(6))
counts = st.sampled_from([1, 1, 2, 3, 100])
limits = st.sampled_from([1, 2, 100, 100])
crashes: st.SearchStrategy[Point | None] = st.sampled_from(
    [None] * 36 + [0, 1, 2, 3, 4, 6, "commit", "commit", "committed", "committed"]
)
subjects = st.sampled_from(["s", "s", "t", "тема"])
docs = st.builds(
    Doc,
    subject=st.none() | subjects,
    priority=st.sampled_from([0, 0, 0, 1, 5, -1]),
    when=st.sampled_from(
        [("now", 0), ("now", 0), ("delay", 0), ("delay", 1500), ("due", -2000), ("due", 3000)]
    ),
    headers=st.sampled_from([None, None, '{"trace":"7"}', '{"é":"\\n"}']),
    overrides=st.sampled_from(
        [
            *[None] * 6,
            '{"max_attempts":1}',
            '{"retry_position":"front"}',
            '{"updateable":false}',
            '{"updateable":true}',
            '{"updateable":true,"retry_position":"front"}',
            '{"lease":1.5}',
        ]
    ),
    is_empty=st.sampled_from([False] * 7 + [True]),
    channel=channels,
)
some_docs = st.lists(docs, max_size=4)
failures = st.sampled_from(
    [
        None,
        Failure(message="no"),
        Failure(type="Oops", message="item 7 of '8'", traceback="somewhere"),
    ]
)
kinds: st.SearchStrategy[Kind] = st.sampled_from(
    ["complete", "complete", "reschedule", "reject", "reject", "kill", "drop", "release"]
)
sayings = st.builds(
    DrawnOutcome,
    which=which,
    token=st.sampled_from(["own", "own", "own", "own", "stale", "nobody's"]),
    kind=kinds,
    has_payload=st.booleans(),
    wait=st.sampled_from(
        [
            ("settings", 0),
            ("settings", 0),
            ("delay", 0),
            ("delay", 2000),
            ("due", -1),
            ("due", 4000),
        ]
    ),
    failure=failures,
    commits=st.sampled_from([0, 0, 0, 1, 2]),
    pushes=st.sampled_from([0, 0, 0, 1, 2]).flatmap(
        lambda n: st.tuples(*[st.tuples(queues, docs, st.booleans())] * n)
    ),
)
leases = st.sampled_from([None, None, 10_000, 1, 1500])
RULES = (
    RuleRow(id="each", key_values=KeyValues.of({"name": ANY}, allow_any=True).form, limit=1),
    RuleRow(id="one", key_values=A, limit=1),
    RuleRow(id="mine", key_values=EVERYTHING.form, limit=2, queue="a"),
    RuleRow(id="rate", key_values=EVERYTHING.form, limit=2, period_ms=10_000),
    RuleRow(id="full", key_values=A, limit=3, on="enqueued"),
)
OVERRIDES = tuple(
    OverrideRow(id=f"for-{name}", key_values=form, limit=1)
    for name, form in zip("ab", (A, B), strict=True)
)
rules = st.sampled_from(RULES)
overrides = st.sampled_from(OVERRIDES)
numbers = st.sampled_from([-1, 0, 1, 1, 2, 3])
modes = st.sampled_from([None, None, "skip", "next", "next"])
debounces = st.sampled_from([(None, None), (None, None), (1000, None), (1000, 2500), (0, 0)])
keys = st.sampled_from([None, None, None, "k", "l"])
seconds = st.sampled_from(
    [0.001, 1.0, 2.0, 5.0, 11.0, 61.0, -0.001, -1.0, -3600.0, 3600.0, 86_400.0]
)
filters = st.sampled_from(
    [
        *[ItemFilter()] * 4,
        ItemFilter(subject="s"),
        ItemFilter(cause="rejected"),
        ItemFilter(cause="killed"),
        ItemFilter(cause=WORKER_LOST),
    ]
)
SETTINGS: dict[str, list[Any]] = {
    "discipline": ["fifo", "lifo", "priority", "lifo", "fifo"],
    "lease": [300.0, 10.0, 0.001],
    "max_attempts": [1, 2, 5, -1],
    "max_crashes": [1, 3, -1],
    "reject_delay": [None, 0, 5.0],
    "backoff": [Backoff(), Backoff(first=5.0, factor=1.0, jitter=0.0), Backoff(longest=2.0)],
    "reschedule_delay": [0, 5.0],
    "retry_position": [None, "back", "front"],
    "unique": ["live", "forever", "window"],
    "unique_window": [0, 10.0, 86_400.0],
    "unique_content": [False, True],
    "while_active": ["skip", "next", "next", "next"],
    "keep_superseded": [None, "old"],
    "keep": ["none", "all", 0.0, 10.0],
    "keep_dead": [None, 0.0, 10.0],
    "dead_to": [(), (), ("c",), ("b", "c"), ("c", "c")],
    "errors": [True, False],
    "errors_retention": [0.0, 86_400.0],
    "metrics": [True, False],
    "metrics_retention": [0.0, 86_400.0],
    "serial": [False, True],
    "max_items": [-1, 1, 3, 3],
    "max_channel_items": [-1, 1, 2],
}
"""The settings of queues with the values that are drawn."""

WORKER_SETTINGS = frozenset({"chunk", "concurrency", "log_level"})
"""The settings that only workers follow; a store keeps them."""

_setting = st.sampled_from([(name, value) for name, values in SETTINGS.items() for value in values])


def changes(most: int) -> st.SearchStrategy[dict[str, Any]]:
    """Some settings to change."""
    return st.lists(_setting, max_size=most).map(dict)
