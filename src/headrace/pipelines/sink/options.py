"""The options of a write, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from headrace.errors import InvalidOption
from headrace.model.codec import DEFAULT_MAX_BODY
from headrace.model.names import writable_queue, writable_sink, writable_topic

Mode = Literal["push", "upsert"]
OnReplay = Literal["check", "skip"]

_BOTH = ("url", "topic", "topic_column", "queue", "mode", "max_body")
_STREAM = (*_BOTH, "sink", "on_replay")
# Options of Spark itself, which it passes on to us.
_SPARK_OPTIONS = {"checkpointlocation", "path", "queryname"}


@dataclass(frozen=True)
class SinkOptions:
    """The options of a write: to one topic, to topics named by a column, or to a queue."""

    url: str = field(repr=False)
    topic: str = ""
    topic_column: str = ""
    queue: str = ""
    mode: Mode = "push"
    max_body: int = DEFAULT_MAX_BODY
    sink: str = ""
    on_replay: OnReplay = "check"


def sink_options(given: Mapping[str, str], *, is_stream: bool) -> SinkOptions:
    """Parse the options of a batch write or of a stream; the error names the first invalid one."""
    known = _STREAM if is_stream else _BOTH
    kind = "a streaming write" if is_stream else "a batch write"
    for name in given:
        if name.lower() not in known and name.lower() not in _SPARK_OPTIONS:
            raise InvalidOption(
                f"{kind} has no option {name!r}: use {', '.join(known)}.", option=name
            )
    url = given.get("url", "").strip()
    if not url:
        raise InvalidOption("the option 'url' is missing: give the store's URL.", option="url")
    sink = given.get("sink", "").strip()
    if is_stream and not sink:
        raise InvalidOption(
            "the option 'sink' is missing: give the stream a unique name, by which each of its "
            "batches is written once.",
            option="sink",
        )
    options = SinkOptions(
        url=url,
        **_target(given),
        mode=_mode(given),
        max_body=_max_body(given),
        sink=writable_sink(sink) if sink else "",
        on_replay=_on_replay(given),
    )
    if options.mode == "upsert" and not options.queue:
        raise InvalidOption(
            "mode 'upsert' is for queues: records of a topic are never replaced.", option="mode"
        )
    return options


def _target(given: Mapping[str, str]) -> dict[str, str]:
    """The target: a queue, a topic, or topics by a column, by default the column ``topic``."""
    named = {
        name: given[name].strip() for name in ("topic", "topic_column", "queue") if name in given
    }
    if len(named) > 1:
        first, second, *_ = named
        raise InvalidOption(
            f"both {first!r} and {second!r} name a target: give one of them.", option=second
        )
    if "topic" in named:
        writable_topic(named["topic"])
    if "queue" in named:
        writable_queue(named["queue"])
    if named.get("topic_column") == "":
        raise InvalidOption("topic_column is empty: name a column.", option="topic_column")
    return named or {"topic_column": "topic"}


def _mode(given: Mapping[str, str]) -> Mode:
    match given.get("mode", "push"):
        case "push":
            return "push"
        case "upsert":
            return "upsert"
        case other:
            raise InvalidOption(f"mode is {other!r}: use push or upsert.", option="mode")


def _on_replay(given: Mapping[str, str]) -> OnReplay:
    match given.get("on_replay", "check"):
        case "check":
            return "check"
        case "skip":
            return "skip"
        case other:
            raise InvalidOption(f"on_replay is {other!r}: use check or skip.", option="on_replay")


def _max_body(given: Mapping[str, str]) -> int:
    text = given.get("max_body", str(DEFAULT_MAX_BODY)).strip()
    if not text.isdecimal() or int(text) < 1:
        raise InvalidOption(f"max_body is {text!r}: use a number of bytes.", option="max_body")
    return int(text)
