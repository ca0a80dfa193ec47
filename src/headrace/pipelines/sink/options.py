"""What a write is asked for, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from headrace.errors import InvalidOption
from headrace.model.codec import DEFAULT_MAX_BODY
from headrace.model.names import check_queue, check_sink, check_topic

Mode = Literal["push", "upsert"]
OnReplay = Literal["check", "skip"]

_BOTH = ("url", "topic", "topic_column", "queue", "mode", "max_body")
_STREAM = (*_BOTH, "sink", "on_replay")
# Spark hands its own options on.
_SPARKS = {"checkpointlocation", "path", "queryname"}


@dataclass(frozen=True)
class SinkOptions:
    """The options of a write: to one topic, to topics named by a column, or to a queue."""

    url: str
    topic: str = ""
    topic_column: str = ""
    queue: str = ""
    mode: Mode = "push"
    max_body: int = DEFAULT_MAX_BODY
    sink: str = ""
    on_replay: OnReplay = "check"


def sink_options(given: Mapping[str, str], *, is_stream: bool) -> SinkOptions:
    """Read the options of a batch write or of a stream; the first wrong one is named."""
    known = _STREAM if is_stream else _BOTH
    kind = "a streaming write" if is_stream else "a batch write"
    for name in given:
        if name.lower() not in known and name.lower() not in _SPARKS:
            raise InvalidOption(
                f"{kind} has no option {name!r}: it knows {', '.join(known)}.", option=name
            )
    url = given.get("url", "").strip()
    if not url:
        raise InvalidOption("the option 'url' is missing: give the store's URL.", option="url")
    sink = given.get("sink", "").strip()
    if is_stream and not sink:
        raise InvalidOption(
            "the option 'sink' is missing: give the stream a name of its own, by which each of "
            "its batches is written once.",
            option="sink",
        )
    options = SinkOptions(
        url=url,
        **_target(given),
        mode=_mode(given),
        max_body=_size(given),
        sink=check_sink(sink) if sink else "",
        on_replay=_on_replay(given),
    )
    if options.mode == "upsert" and not options.queue:
        raise InvalidOption(
            "mode 'upsert' is for queues: records of a topic are never replaced.", option="mode"
        )
    return options


def _target(given: Mapping[str, str]) -> dict[str, str]:
    """Where to: a queue, a topic, or topics by a column, which is ``topic`` if nothing is said."""
    named = {
        name: given[name].strip() for name in ("topic", "topic_column", "queue") if name in given
    }
    if len(named) > 1:
        first, second, *_ = named
        raise InvalidOption(
            f"both {first!r} and {second!r} say where to write: give one of them.", option=second
        )
    if "topic" in named:
        check_topic(named["topic"])
    if "queue" in named:
        check_queue(named["queue"])
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


def _size(given: Mapping[str, str]) -> int:
    text = given.get("max_body", str(DEFAULT_MAX_BODY)).strip()
    if not text.isdecimal() or int(text) < 1:
        raise InvalidOption(f"max_body is {text!r}: use a number of bytes.", option="max_body")
    return int(text)
