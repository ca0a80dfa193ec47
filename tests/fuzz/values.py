"""Values that callers may pass by mistake, and valid ones."""

from __future__ import annotations

import math
import types
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

import headrace
from headrace.compat import gopq
from headrace.contract.items import Outcome
from headrace.errors import HeadraceError

DEEP = 3000


def deep(kind: type[Any]) -> Any:
    """A list or an object inside a list or an object, many times."""
    found: Any = kind()
    for _ in range(DEEP):
        found = [found] if kind is list else {"a": found}
    return found


def circular() -> Any:
    found: list[Any] = []
    found.append(found)
    return found


class Plain:
    """An object of an unrelated class."""


# Made by functions: some can be used only once, or change when used.
NASTY: list[Any] = [
    lambda: None,
    lambda: True,
    lambda: 0,
    lambda: -1,
    lambda: 2**31,
    lambda: 2**63,
    lambda: -(2**64),
    lambda: 10**400,
    lambda: 0.5,
    lambda: math.nan,
    lambda: math.inf,
    lambda: -1e308,
    lambda: Decimal("NaN"),
    lambda: 1j,
    lambda: "",
    lambda: " ",
    lambda: "\0",
    lambda: "a\0b",
    lambda: "\ud800",
    lambda: "x\udfff",
    lambda: "é" * 300,
    lambda: "x" * 3000,
    lambda: "%s %(a)s {0} ' \" ;--",
    lambda: "5m",
    lambda: "99999999999999999999w",
    lambda: "$>",
    lambda: "1-0",
    lambda: "99999999999999999999999-99999999999999999999999",
    lambda: "2030-01-31T12:00:00Z",
    lambda: "9999-12-31T23:59:59-23:59",
    lambda: b"bytes",
    lambda: bytearray(b"x"),
    list,
    lambda: [None],
    lambda: ["\ud800", 2**70],
    lambda: [("t", {}), ("t", {}, {"h": "\ud800"})],
    lambda: [("t",)],
    lambda: (),
    dict,
    lambda: {"a": math.nan},
    lambda: {"a": "\ud800"},
    lambda: {"\ud800": 1},
    lambda: {"a\0": "b\0"},
    lambda: {1: 2},
    lambda: {"a": 2**80},
    lambda: {"a": object()},
    lambda: {"x" * 3000: "y" * 3000},
    set,
    lambda: {1},
    lambda: iter([1]),
    lambda: range(3),
    lambda: deep(list),
    lambda: deep(dict),
    circular,
    lambda: datetime(2030, 1, 1),  # noqa: DTZ001  # it is wrong on purpose
    lambda: datetime.max.replace(tzinfo=UTC),
    lambda: datetime.min.replace(tzinfo=UTC),
    lambda: timedelta.max,
    lambda: timedelta.min,
    lambda: timedelta(0),
    lambda: Plain,
    Plain,
    lambda: print,
    lambda: lambda: None,
    lambda: lambda *_: None,
    lambda: types.SimpleNamespace(name="\ud800", id=1),
    lambda: ValueError("\ud800\0"),
    lambda: headrace.where(a=1),
    lambda: headrace.where(a__gt=2**70),
    lambda: headrace.Doc(1, subject="\ud800"),
    lambda: headrace.Doc(1, delay=timedelta.max, headers={"a": "\ud800"}),
    lambda: headrace.Push("\ud800", Plain()),
    lambda: headrace.Commit("t", {"a": {1}}),
    lambda: headrace.types.Outcome(token="x", item=2**70, said="complete"),
    lambda: headrace.types.Outcome(token="\ud800", item=1, said="reject"),
    lambda: Outcome,
    lambda: headrace.typed("int", 2**70),
    lambda: headrace.typed("string", "\ud800"),
    lambda: headrace.ANY,
    lambda: headrace.KeyValues,
    headrace.Backoff,
    gopq.AckOpts,
    lambda: headrace.types.Receipt(None),
    lambda: headrace.Record("t", 2**70, 0, {}, {}),
]

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(), inside, max_size=3),
    max_leaves=5,
)
TEXT = st.text(st.characters(codec=None), max_size=20)


class Maker:
    """Makes one of the nasty values. Many cannot be printed, and Hypothesis prints what it
    draws."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self) -> Any:
        try:
            return NASTY[self.number]()
        except (HeadraceError, TypeError):
            # Refused when it was made.
            return None

    def __repr__(self) -> str:
        return f"NASTY[{self.number}]"


MAKERS = st.sampled_from([Maker(number) for number in range(len(NASTY))])
WRONG = st.one_of(MAKERS, MAKERS, TEXT, JSON)


def wrong(draw: Any) -> Any:
    """Anything at all."""
    found = draw(WRONG)
    return found() if isinstance(found, Maker) else found


RIGHT: dict[str, list[Any]] = {
    "topic": ["t"],
    "name": ["q", "p", "new"],
    "queue": ["q"],
    "queues": ["q", ["q"]],
    "proc": ["p"],
    "procs": [["p"], "p"],
    "rule": ["rule"],
    "offset": [">", "$>", "$"],
    "start": ["0", ":0"],
    "end": [":9"],
    "body": [{"n": 1}],
    "bodies": [[{"n": 1}]],
    "documents": [[1, 2]],
    "entries": [[("t", {})]],
    "payload": [{"n": 1}],
    "group_by": [{"a": headrace.ANY}, {"a": 1}],
    "key_values": [{"a": 1}],
    "select": [headrace.where(a=1)],
    "handler": [lambda item: None],
    "callback": [lambda *_: None],
    "processor": [lambda body: body, "math:sqrt"],
    "source": ["t"],
    "to": ["t"],
    "headers": [{"h": "v"}],
    "kind": ["complete", "reject"],
    "state": ["pending", "dead"],
    "event": ["error", "data"],
    "items": [[]],
    "outcomes": [[]],
    "item": [1, "subject"],
    "limit": [1, 5],
    "per": [1.0],
    "key": ["k"],
    "subject": ["s"],
    "channel": [{"a": 1}],
    "at": ["2030-01-31T12:00:00Z"],
    "delay": [1],
    "engine": ["inline"],
    "error": ["bad", ValueError("bad")],
    "token": ["x"],
    "url": ["memory://"],
    "lease": [5],
    "n": [1],
    "count": [1],
}
# No call here waits for long.
WAITS = {"wait", "timeout", "time_limit", "grace"}
SHORT = [0, 0.01, -1, math.nan, "x", Plain, [], "\ud800", 1j]
