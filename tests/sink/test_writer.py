"""Writing and publishing without Spark: what a DataFrame becomes, and what is refused."""

import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

import headrace
from headrace.contract.sinks import Staged
from headrace.contract.values import CommitPart
from headrace.errors import (
    BodyTooLarge,
    InvalidBody,
    InvalidInput,
    InvalidOption,
    InvalidTopicName,
    SinkTaken,
    StageLost,
)
from headrace.model.codec import ROW_BYTES
from headrace.pipelines.sink.options import SinkOptions
from headrace.pipelines.sink.publish import PublishMessage, discard, publish_batch, publish_job
from headrace.pipelines.sink.writer import TaskWriter

MAP = pa.map_(pa.string(), pa.string())
TO_T = SinkOptions(url="", topic="t")
TO_Q = SinkOptions(url="", queue="q")


@pytest.fixture
def hr(store_url: str) -> Iterator[headrace.Headrace]:
    with headrace.connect(store_url) as client:
        yield client


class Recorder:
    """Takes what a task stages, and keeps it."""

    def __init__(self) -> None:
        self.parts: list[CommitPart] = []
        self.sent: list[int] = []

    def __call__(self, token: str, parts: Sequence[CommitPart]) -> None:
        self.parts += parts
        self.sent.append(len(parts))


def rows(table: dict[str, Any], size: int = 1000) -> tuple[pa.Schema, list[pa.RecordBatch]]:
    made = pa.table(table)
    return made.schema, made.to_batches(max_chunksize=size)


def staged(
    options: SinkOptions, table: dict[str, Any], size: int = 1000
) -> tuple[Staged, list[CommitPart], Recorder]:
    schema, batches = rows(table, size)
    recorder = Recorder()
    written = TaskWriter(options, schema, recorder).write(batches)
    return written, recorder.parts, recorder


def bodies(parts: list[CommitPart]) -> list[Any]:
    return [json.loads(line) for part in parts for line in part.body.split("\n")]


def task(hr: headrace.Headrace, options: SinkOptions, table: dict[str, Any]) -> PublishMessage:
    schema, batches = rows(table)
    store = hr._store

    def stage(token: str, parts: Sequence[CommitPart]) -> None:
        store.run(store.sinks.stage(token, parts))

    return PublishMessage(TaskWriter(options, schema, stage).write(batches), "query")


# What becomes of columns


def test_json_text_is_kept_as_it_is() -> None:
    """With all its digits, and on one line."""
    texts = ['{"a":1.10}', "[ 1 ]", '{"big":12345678901234567890123}', '{\n "b": 2\n}']
    _, parts, _ = staged(TO_T, {"body": texts})
    assert parts[0].body.split("\n") == [*texts[:3], '{"b":2}']


def test_a_struct_becomes_the_body() -> None:
    _, parts, _ = staged(TO_T, {"body": [{"a": 1, "b": None}, {"a": 2, "b": "x"}]})
    assert bodies(parts) == [{"a": 1, "b": None}, {"a": 2, "b": "x"}]


def test_without_a_body_the_row_is_it() -> None:
    table = {"id": [1, 2], "name": ["a", None], "headers": ["x", "y"], "topic": ["u", "v"]}
    _, parts, _ = staged(TO_T, table)
    assert bodies(parts) == [
        {"id": 1, "name": "a", "headers": "x", "topic": "u"},
        {"id": 2, "name": None, "headers": "y", "topic": "v"},
    ]


def test_what_the_source_gives_can_be_written() -> None:
    """A copy gets its own id and time; the option names its topic."""
    table = {
        "topic": ["from"],
        "seq": [5],
        "id": ["1-5"],
        "ts": [datetime.now(UTC)],
        "headers": pa.array(['{"a":"b"}']),
        "body": ['{"n":1}'],
    }
    _, [part], _ = staged(TO_T, table)
    assert part == CommitPart("t", 1, '{"n":1}', '{"a":"b"}')


def test_headers_are_a_map_or_json() -> None:
    table = {
        "body": ["{}"] * 4,
        "headers": pa.array([None, [("a", 'b"')], [], [("c", "d"), ("e", "")]], MAP),
    }
    _, [part], _ = staged(TO_T, table)
    assert part.headers is not None
    assert [json.loads(line) for line in part.headers.split("\n")] == [
        None,
        {"a": 'b"'},
        None,
        {"c": "d", "e": ""},
    ]
    _, [part], _ = staged(TO_T, {"body": ["{}"], "headers": pa.array([None], pa.string())})
    assert part.headers is None


def test_topics_are_named_by_a_column() -> None:
    options = SinkOptions(url="", topic_column="kind")
    table = {"kind": ["a", "b", "a", "b"], "n": [1, 2, 3, 4]}
    written, parts, _ = staged(options, table, size=3)
    assert {part.topic: bodies([part]) for part in parts} == {
        "a": [{"n": 1}, {"n": 3}],
        "b": [{"n": 2}, {"n": 4}],
    }
    assert [(count.target, count.records) for count in written.counts] == [("a", 2), ("b", 2)]


def test_rows_are_as_large_as_they_may_be() -> None:
    """Across batches; a longer body has a row of its own; what is sent is bounded."""
    sizes = [100] * 5000 + [ROW_BYTES * 2, 10, 10] + [1000] * 12_000
    texts = [json.dumps({"n": n, "x": "y" * size}) for n, size in enumerate(sizes)]
    written, parts, recorder = staged(TO_T, {"body": texts}, size=700)
    assert [body["n"] for body in bodies(parts)] == list(range(len(sizes)))
    lengths = [len(part.body) for part in parts]
    assert sorted(lengths)[-2] <= ROW_BYTES
    assert all(a + b > ROW_BYTES for a, b in itertools.pairwise(lengths))
    assert max(recorder.sent) < 50 < len(parts)
    [count] = written.counts
    assert (count.rows, count.records) == (len(parts), len(sizes))


def test_headers_stay_beside_their_bodies() -> None:
    """Also where rows begin in the middle of a batch, and some have none."""
    numbers = range(4000)
    table = {
        "body": [json.dumps({"n": n, "x": "y" * 100}) for n in numbers],
        "headers": pa.array([[("n", str(n))] if n % 1500 < 10 else None for n in numbers], MAP),
    }
    _, parts, _ = staged(TO_T, table, size=300)
    found = {}
    for part in parts:
        if part.headers is not None:
            lines = zip(part.body.split("\n"), part.headers.split("\n"), strict=True)
            found |= {json.loads(a)["n"]: json.loads(b) for a, b in lines if b != "null"}
    assert found == {n: {"n": str(n)} for n in numbers if n % 1500 < 10}
    assert any(part.headers is None for part in parts)


def test_no_rows_is_nothing() -> None:
    written, parts, recorder = staged(TO_T, {"n": pa.array([], pa.int64())})
    assert (written.counts, parts, recorder.sent) == ((), [], [])


# What is refused


@pytest.fixture
def default_recursion_limit() -> Iterator[None]:
    """How deep JSON may be nested depends on it, and Hypothesis raises it for a time."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("", "not JSON"),
        ("5", "a JSON object or list"),
        ('"text"', "a JSON object or list"),
        ('{"a":NaN}', "not JSON"),
        ('{"a":1e999}', "not JSON"),
        ("[ -1.5E+400]", "not JSON"),
        ('{"a":[1,%s]}' % ("9" * 5000), "not JSON"),
        ('{"a":%s}' % ("[" * 5000 + "]" * 5000), "not JSON"),
        ('{"a":"\\ud800"}', "not JSON"),
        ("{}\n{}", "not JSON"),
        ("{} {}", "not JSON"),
        (None, "column 'body' is null"),
    ],
)
@pytest.mark.usefixtures("default_recursion_limit")
def test_a_bad_body_is_named_by_its_row(text: str | None, message: str) -> None:
    table = {"body": ["{}"] * 7 + [text] + ["{}"] * 2}
    schema, batches = rows(table, size=4)
    recorder = Recorder()
    with pytest.raises(InvalidBody, match=rf"row 7 of partition 3: .*{message}") as caught:
        TaskWriter(TO_T, schema, recorder).write(batches, 3)
    assert (caught.value.row, caught.value.partition, caught.value.column) == (7, 3, "body")
    assert recorder.parts == []


def test_a_body_over_the_limit_is_refused() -> None:
    options = SinkOptions(url="", topic="t", max_body=10)
    with pytest.raises(BodyTooLarge, match=r"row 1 of partition 0: .*over the limit of 10"):
        staged(options, {"body": ['{"a":1}', '{"a":"12345"}']})


@pytest.mark.parametrize("text", ['{"a":1}', "[]", "x"])
def test_bad_headers_are_refused(text: str) -> None:
    with pytest.raises(InvalidBody, match="row 1 of partition 0: column 'headers' is not headers"):
        staged(TO_T, {"body": ["{}"] * 2, "headers": [None, text]})


def test_a_null_header_is_refused() -> None:
    with pytest.raises(InvalidBody, match="a header in column 'headers' is null"):
        staged(TO_T, {"body": ["{}"], "headers": pa.array([[("a", None)]], MAP)})


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"body": [5]}, "column 'body' is of type int64"),
        ({"body": ["{}"], "extra": [1]}, "column 'extra' would be lost"),
        ({"body": ["{}"], "headers": [5]}, "column 'headers' is of type int64"),
        ({"n": pa.array([1], pa.duration("us"))}, "column 'n' is of type duration"),
    ],
)
def test_a_schema_that_does_not_fit_is_refused(table: dict[str, Any], message: str) -> None:
    """Before the first row is read."""
    with pytest.raises(InvalidBody, match=message):
        TaskWriter(TO_T, rows(table)[0], Recorder())


def test_topics_need_their_column() -> None:
    options = SinkOptions(url="", topic_column="kind")
    with pytest.raises(InvalidOption, match="no column 'kind'"):
        TaskWriter(options, rows({"n": [1]})[0], Recorder())
    with pytest.raises(InvalidOption, match="named by text"):
        TaskWriter(options, rows({"kind": [1]})[0], Recorder())
    for bad in ("a b", None):
        with pytest.raises(InvalidTopicName, match="cannot name a topic"):
            staged(options, {"kind": ["a", bad], "n": [1, 2]})


# Queues


def test_documents_for_a_queue(hr: headrace.Headrace) -> None:
    moment = datetime(2040, 1, 1, tzinfo=UTC)
    table = {
        "subject": ["a", None, 'c"'],
        "payload": ['{"n":1}', "[2]", "3"],
        "priority": pa.array([1, None, -5], pa.int32()),
        "at": pa.array([None, None, moment], pa.timestamp("us", tz="UTC")),
        "headers": pa.array([[("h", "v")], None, None], MAP),
    }
    published = publish_job(hr._store, TO_Q, [task(hr, TO_Q, table)], "job")
    assert published.records == {"queue/q": 3}
    first, second = hr.queues.create("q", exist_ok=True).claim(9)
    assert (first.subject, first.payload, first.priority) == ("a", {"n": 1}, 1)
    assert first.headers == {"h": "v"}
    assert (second.subject, second.payload, second.priority) == (None, [2], 0)
    third = hr.queues.create("q", exist_ok=True).item('c"')
    assert (third.payload, third.priority, third.due_at) == (3, -5, moment)


def test_rows_without_a_payload_are_it(hr: headrace.Headrace) -> None:
    table = {"subject": ["a"], "n": [1], "delay": [3600.5]}
    publish_job(hr._store, TO_Q, [task(hr, TO_Q, table)], "job")
    item = hr.queues.create("q", exist_ok=True).item("a")
    assert item.payload == {"n": 1}
    assert (item.due_at - datetime.now(UTC)).total_seconds() > 3000


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"payload": ["{"]}, "row 0 of partition 0: column 'payload' is not JSON"),
        ({"subject": [""], "n": [1]}, "column 'subject' is ''"),
        ({"subject": ["a\nb"], "n": [1]}, "column 'subject'"),
        ({"subject": ["x" * 501], "n": [1]}, "column 'subject'"),
        ({"subject": [1], "n": [1]}, "it must be text"),
        ({"priority": [2**40], "n": [1]}, "whole number of 32 bits"),
        ({"priority": ["high"], "n": [1]}, "it must be a whole number"),
        ({"delay": [-1], "n": [1]}, "0 or more"),
        ({"at": [5], "n": [1]}, "it must be a timestamp"),
        ({"payload": ["{}"], "n": [1]}, "column 'n' would be lost"),
    ],
)
def test_a_bad_document_is_refused(table: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        staged(TO_Q, table)


# Publishing


def test_a_job_is_published_in_the_order_of_its_tasks(hr: headrace.Headrace) -> None:
    late = task(hr, TO_T, {"n": [3, 4]})
    early = task(hr, TO_T, {"n": [1, 2]})
    nothing = task(hr, TO_T, {"n": pa.array([], pa.int64())})
    publish_job(hr._store, TO_T, [early, nothing, late], "job")
    again = publish_job(hr._store, TO_T, [early, nothing, late], "job")
    assert again.is_replay
    assert [record.body["n"] for record in hr.range("t")] == [1, 2, 3, 4]


def test_a_task_without_a_message_publishes_nothing(hr: headrace.Headrace) -> None:
    with pytest.raises(StageLost, match="task 1 did not report"):
        publish_job(hr._store, TO_T, [task(hr, TO_T, {"n": [1]}), None], "job")
    assert hr.topics.list() == []


def test_discarded_rows_are_gone(hr: headrace.Headrace) -> None:
    message = task(hr, TO_T, {"n": [1]})
    discard(hr._store, [None, message])
    discard(hr._store, [None])
    with pytest.raises(StageLost):
        publish_job(hr._store, TO_T, [message], "job")


def test_a_batch_is_published_once(hr: headrace.Headrace) -> None:
    """Killed after the commit, it comes again from other tasks; killed before, it comes at all."""
    options = SinkOptions(url="", topic="t", sink="s")
    table = {"n": [1, 2]}
    task(hr, options, table)  # died before it could say anything
    for _ in range(2):
        published = publish_batch(hr._store, options, [task(hr, options, table)], 0)
    assert published is not None
    assert published.is_replay
    assert publish_batch(hr._store, options, [], 1) is None
    assert [record.body["n"] for record in hr.range("t")] == [1, 2]
    other = PublishMessage(task(hr, options, table).staged, "another query")
    with pytest.raises(SinkTaken):
        publish_batch(hr._store, options, [other], 0)


@pytest.mark.parametrize("options", [TO_T, TO_Q, SinkOptions(url="", topic_column="topic")])
@pytest.mark.parametrize("name", ["body", "payload", "n", "topic", "subject"])
def test_columns_of_one_name_are_refused(options: SinkOptions, name: str) -> None:
    schema = pa.schema([(name, pa.string()), ("other", pa.string()), (name, pa.string())])
    with pytest.raises(InvalidBody, match=f"two columns {name!r}"):
        TaskWriter(options, schema, Recorder())
