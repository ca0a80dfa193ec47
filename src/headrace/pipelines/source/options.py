"""The options of a read, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.errors import InvalidOption, InvalidPosition
from headrace.model.names import check_proc, check_topic
from headrace.model.topics.positions import FROM_NOW, FROM_START, parse_end

COLUMNS = ("topic", "seq", "id", "ts", "headers", "body")
CORRUPT = "_corrupt_record"
_BOTH = ("url", "topic", "start", "columns", "schema", "corrupt_column", "partitions")
_BATCH = (*_BOTH, "end")
_STREAM = (*_BOTH, "proc", "max_records_per_batch")


@dataclass(frozen=True)
class SourceOptions:
    """The options of a read; with ``partitions`` None Headrace chooses their number."""

    url: str = field(repr=False)
    topics: tuple[str, ...]
    start: str = ""
    end: str = ""
    proc: str = ""
    max_records: int | None = None
    columns: tuple[str, ...] = COLUMNS
    corrupt_column: str = CORRUPT
    partitions: int | None = None

    def proc_of(self, topic: str) -> str:
        """The proc that keeps the position of this read in a topic."""
        return self.proc if len(self.topics) == 1 else f"{self.proc}-{topic}"


def source_options(given: Mapping[str, str], *, is_stream: bool) -> SourceOptions:
    """Parse the options of a batch read or of a stream; the error names the first invalid one."""
    known = _STREAM if is_stream else _BATCH
    kind = "a stream" if is_stream else "a batch read"
    for name in given:
        if name.lower() not in known:
            raise InvalidOption(
                f"{kind} has no option {name!r}: use {', '.join(known)}.", option=name
            )
    topics = _names(_needed(given, "topic", "the topic to read, or several separated by commas"))
    for topic in topics:
        check_topic(topic)
    proc = given.get("proc", "")
    if is_stream:
        _needed(given, "proc", "a name for the proc that keeps the stream's position")
        check_proc(proc)
    options = SourceOptions(
        url=_needed(given, "url", "the store's URL"),
        topics=topics,
        start=_position(given, "start", words=(FROM_START, FROM_NOW) if is_stream else ()),
        end=_position(given, "end"),
        proc=proc,
        max_records=_count(given, "max_records_per_batch"),
        columns=chosen_columns(given),
        corrupt_column=given.get("corrupt_column", CORRUPT),
        partitions=_count(given, "partitions"),
    )
    for topic in topics if is_stream else ():
        check_proc(options.proc_of(topic))
    return options


def _needed(given: Mapping[str, str], name: str, what: str) -> str:
    value = given.get(name, "").strip()
    if not value:
        raise InvalidOption(f"the option {name!r} is missing: give {what}.", option=name)
    return value


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",")))


def _position(given: Mapping[str, str], name: str, words: tuple[str, ...] = ()) -> str:
    text = given.get(name, "").strip()
    if text not in words:
        try:
            parse_end(text)
        except InvalidPosition as error:
            or_words = "".join(f"{word!r}, " for word in words)
            raise InvalidOption(
                f"{name} is {text!r}: write {or_words}an id, a timestamp in milliseconds or ':seq'.",
                option=name,
            ) from error
    return text


def _count(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    if not text.strip().isdecimal() or int(text) < 1:
        raise InvalidOption(f"{name} is {text!r}: use a number of 1 or more.", option=name)
    return int(text)


def chosen_columns(given: Mapping[str, str]) -> tuple[str, ...]:
    if "columns" not in given:
        return COLUMNS
    chosen = _names(given["columns"])
    for name in chosen:
        if name not in COLUMNS:
            raise InvalidOption(
                f"a record has no column {name!r}: choose from {', '.join(COLUMNS)}. For fields "
                "of the body declare a schema.",
                option="columns",
            )
    return chosen
