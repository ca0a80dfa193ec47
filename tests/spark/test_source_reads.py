"""Batch reads and streams as plain classes, without Spark."""

import json
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

import headrace
from headrace.errors import (
    InvalidOption,
    MalformedRecord,
    ProcNameTaken,
    ProcOvertaken,
    UnknownSeq,
    UnknownStore,
    UnknownTopic,
    UnsupportedStore,
)
from headrace.pipelines import store_location
from headrace.pipelines.source import pages as paging
from headrace.pipelines.source.batch import BatchRead
from headrace.pipelines.source.columns import TYPES, SourceColumns
from headrace.pipelines.source.options import COLUMNS, source_options
from headrace.pipelines.source.pages import pages
from headrace.pipelines.source.ranges import SeqRange
from headrace.pipelines.source.stream import StreamRead
from headrace.pipelines.source.typed import TypedColumns
from headrace.stores import open_store
from headrace.testing.clocks import FakeClock


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def hr(durable_url, clock):
    with headrace.connect(durable_url, clock=clock) as client:
        client.url = durable_url
        yield client


@pytest.fixture
def store(hr):
    found = open_store(hr.url, migrate="off")
    yield found
    found.close()


def plan(store, **options):
    given = {"url": "sqlite:///unused", "topic": "orders"} | options
    return BatchRead(store, source_options(given, is_stream=False)).ranges()


def stream(store, **options):
    given = {"url": "sqlite:///unused", "topic": "orders", "proc": "reader"} | options
    return StreamRead(store, source_options(given, is_stream=True))


def rows(store, part, columns=COLUMNS):
    """All rows of a range, as dicts."""
    maker = SourceColumns(tuple(columns))
    return [row for page in pages(store, part) for row in maker.batch(page).to_pylist()]


def typed(store, part, schema, corrupt="_corrupt_record"):
    maker = TypedColumns(schema, corrupt)
    return [row for page in pages(store, part) for row in maker.batch(page).to_pylist()]


def collect(hr, clock, **ages):
    """Let records go by age, after a while."""
    hr.topic("orders").set_retention(**ages)
    clock.advance(60)
    hr.admin.maintain(force=True)


def test_rows_are_the_records(hr, store, clock):
    """Rows of several records, of one, with and without headers; cut anywhere."""
    hr.commit_many("orders", [{"n": n, "text": 'ä\n"b"'} for n in range(5)])
    clock.advance(1)
    hr.commit("orders", {"n": 5}, headers={"who": "me"})
    hr.commit("orders", [1, {}, "x"])
    hr.commit_many("orders", [{"n": n} for n in range(7, 10)])
    records = hr.range("orders")
    expected = [
        {
            "topic": "orders",
            "seq": record.seq,
            "id": record.id,
            "ts": datetime.fromtimestamp(record.ts / 1000, UTC),
            "headers": record.headers or None,
            "body": record.body,
        }
        for record in records
    ]
    for first in range(10):
        for last in range(first, 10):
            found = rows(store, SeqRange("orders", first, last))
            for row in found:
                row["body"] = json.loads(row["body"])
                row["headers"] = row["headers"] and json.loads(row["headers"])
            assert found == expected[first : last + 1]


def test_chosen_columns_come_in_their_order(hr, store):
    hr.commit("orders", {"n": 1})
    assert rows(store, SeqRange("orders", 0, 0), ["body", "seq"]) == [{"body": '{"n":1}', "seq": 0}]


def test_a_large_range_comes_in_pages(hr, store, monkeypatch):
    monkeypatch.setattr(paging, "PAGE_BYTES", 2000)
    for start in range(0, 600, 60):
        hr.commit_many("orders", [{"n": n, "pad": "x" * 50} for n in range(start, start + 60)])
    found = list(pages(store, SeqRange("orders", 7, 590)))
    assert len(found) > 5
    seqs = [row["seq"] for page in found for row in SourceColumns(("seq",)).batch(page).to_pylist()]
    assert seqs == list(range(7, 591))


def test_a_plan_ends_where_the_topic_ended(hr, store):
    hr.commit_many("orders", [{"n": n} for n in range(10)])
    [part] = plan(store)
    hr.commit("orders", {"n": 10})
    assert part == SeqRange("orders", 0, 9)
    assert [row["seq"] for row in rows(store, part)] == list(range(10))


def test_a_plan_keeps_to_its_ends(hr, store, clock):
    for n in range(10):
        clock.advance(n % 2)
        hr.commit("orders", {"n": n})
    records = hr.range("orders")
    ts = records[4].ts
    same = [record.seq for record in records if record.ts == ts]
    assert plan(store, start=":3", end=":7") == [SeqRange("orders", 3, 7)]
    assert plan(store, start=records[3].id, end=records[5].id) == [SeqRange("orders", 3, 5)]
    assert plan(store, start=str(ts), end=str(ts)) == [SeqRange("orders", same[0], same[-1])]
    assert plan(store, start=str(ts)) == [SeqRange("orders", same[0], 9)]
    assert len(plan(store, partitions="4")) == 4


def test_several_topics_are_read_as_one(hr, store):
    hr.commit_many("orders", [{}] * 3)
    hr.commit_many("bills", [{}] * 2)
    parts = plan(store, topic="orders,bills")
    assert parts == [SeqRange("orders", 0, 2), SeqRange("bills", 0, 1)]


def test_an_unknown_topic_or_record_is_named(hr, store):
    hr.commit("orders", {})
    with pytest.raises(UnknownTopic, match="'others'"):
        plan(store, topic="orders,others")
    with pytest.raises(UnknownSeq, match="no record :5"):
        plan(store, start=":5")


def test_records_pruned_during_a_read_are_an_error_not_a_gap(hr, store, clock):
    hr.commit_many("orders", [{"n": n} for n in range(10)])
    [part] = plan(store)
    collect(hr, clock, max_age=30)
    with pytest.raises(UnknownSeq, match=":0 to :9 of topic 'orders' were removed"):
        rows(store, part)


SCHEMA = pa.schema(
    [
        ("_seq", pa.int64()),
        ("n", pa.int32()),
        ("price", pa.float64()),
        ("who", pa.string()),
        ("is_paid", pa.bool_()),
        ("cost", pa.decimal128(8, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("items", pa.list_(pa.struct([("sku", pa.string()), ("since", pa.date32())]))),
    ]
)


def test_bodies_are_decoded_into_declared_columns(hr, store):
    full = {
        "n": 1,
        "price": 2,
        "who": "Zoë",
        "is_paid": True,
        "cost": "12.50",
        "day": "2024-02-29",
        "at": "2024-02-29T12:00:00+02:00",
        "items": [{"sku": "a", "since": "2020-01-01", "unknown": [1]}, {}],
        "unknown": {"deep": [1, 2]},
    }
    hr.commit_many("orders", [full, {}])
    first, second = typed(store, SeqRange("orders", 0, 1), SCHEMA)
    assert first == {
        "_seq": 0,
        "n": 1,
        "price": 2.0,
        "who": "Zoë",
        "is_paid": True,
        "cost": Decimal("12.50"),
        "day": date(2024, 2, 29),
        "at": datetime(2024, 2, 29, 10, tzinfo=UTC),
        "items": [{"sku": "a", "since": date(2020, 1, 1)}, {"sku": None, "since": None}],
    }
    assert second == dict.fromkeys(SCHEMA.names) | {"_seq": 1}


MISFITS = [
    ({"n": "seven"}, "n is declared as number and is string"),
    ({"n": 1.5}, "1.5"),
    ({"n": 2**40}, "1099511627776"),
    ({"who": {"a": 1}}, "who is declared as string and is object"),
    ({"day": "2024-02-30"}, "2024-02-30"),
    ([1, 2], "the body is declared as object and is array"),
]


@pytest.mark.parametrize(("body", "why"), MISFITS)
def test_a_body_that_does_not_fit_is_named(hr, store, body, why):
    hr.commit_many("orders", [{"n": n} for n in range(20)])
    hr.commit_many("orders", [{"n": 20}, body, {"n": 22}])
    with pytest.raises(MalformedRecord, match="record :21 of topic 'orders'") as caught:
        typed(store, SeqRange("orders", 0, 22), SCHEMA)
    assert why in str(caught.value)
    assert "_corrupt_record string" in str(caught.value)


def test_bodies_that_do_not_fit_go_to_the_corrupt_column(hr, store):
    bodies = [{"n": n} for n in range(30)]
    for place, (body, _) in zip((0, 7, 8, 15, 28, 29), MISFITS, strict=True):
        bodies[place] = body
    hr.commit_many("orders", bodies)
    schema = pa.schema([("n", pa.int32()), ("who", pa.string()), ("day", pa.date32())])
    schema = schema.append(pa.field("bad", pa.string())).append(pa.field("_id", pa.string()))
    found = typed(store, SeqRange("orders", 0, 29), schema, "bad")
    ids = [record.id for record in hr.range("orders")]
    for body, row, id_ in zip(bodies, found, ids, strict=True):
        is_bad = any(body == misfit for misfit, _ in MISFITS)
        text = json.dumps(body, separators=(",", ":")) if is_bad else None
        n = None if is_bad else body["n"]
        assert row == {"n": n, "who": None, "day": None, "bad": text, "_id": id_}


def test_misfits_beside_the_range_are_no_matter(hr, store):
    hr.commit_many("orders", [{"n": "x"}, {"n": 1}, {"n": 2}, {"n": "y"}])
    schema = pa.schema([("n", pa.int32())])
    assert typed(store, SeqRange("orders", 1, 2), schema) == [{"n": 1}, {"n": 2}]


def test_a_required_field_that_is_missing_does_not_fit(hr, store):
    hr.commit_many("orders", [{"n": 1}, {}])
    schema = pa.schema([pa.field("n", pa.int32(), nullable=False)])
    with pytest.raises(MalformedRecord, match=r"record :1 .* n is missing"):
        typed(store, SeqRange("orders", 0, 1), schema)


@pytest.mark.parametrize(
    ("field", "named"),
    [
        (("m", pa.map_(pa.string(), pa.string())), "m cannot be declared as map"),
        (("b", pa.binary()), "b cannot be declared as binary"),
        (("_seq", pa.string()), "_seq is declared as string, and is int64"),
        (("_corrupt_record", pa.int64()), "_corrupt_record is declared as int64"),
        (("a", pa.list_(pa.binary())), "a cannot be declared as binary"),
    ],
)
def test_a_schema_that_cannot_be_is_refused(field, named):
    with pytest.raises(InvalidOption, match=named):
        TypedColumns(pa.schema([field]), "_corrupt_record")


def test_a_declared_column_that_is_there_twice_is_refused():
    with pytest.raises(InvalidOption, match="two columns 'n'"):
        TypedColumns(pa.schema([("n", pa.int64()), ("n", pa.int64())]), "_corrupt_record")


@pytest.mark.parametrize("names", [["seq", "body"], ["id"], ["ts", "topic", "headers"]])
def test_columns_of_the_record_in_a_schema_are_not_null_in_silence(names):
    """They would be fields of the body; whether that is meant must be said."""
    schema = pa.schema([(name, TYPES[name]) for name in names])
    with pytest.raises(InvalidOption, match=f"columns='{','.join(names)}'.*_{names[0]}"):
        TypedColumns(schema, "_corrupt_record")
    for beside in (("_seq", pa.int64()), ("n", pa.int64())):
        TypedColumns(schema.append(pa.field(*beside)), "_corrupt_record")


def test_a_stream_reads_each_record_once_in_limited_batches(hr, store):
    hr.commit_many("orders", [{"n": n} for n in range(25)])
    reader = stream(store)
    at, seen = reader.initial(), []
    for _ in range(4):
        end = reader.latest(at, 10)
        for part in reader.ranges(at, end):
            seen += [row["seq"] for row in rows(store, part)]
        reader.commit(end)
        at = end
    assert seen == list(range(25))
    assert hr.proc("reader").info().position == 25
    assert reader.ranges(at, at) == []


def test_a_replay_reads_the_same_records(hr, store):
    hr.commit_many("orders", [{"n": n} for n in range(10)])
    reader = stream(store)
    start, end = reader.initial(), reader.latest(reader.initial())
    before = [rows(store, part) for part in reader.ranges(start, end)]
    hr.commit_many("orders", [{"n": n} for n in range(10)])
    again = stream(store)
    assert [rows(store, part) for part in again.ranges(start, end)] == before


@pytest.mark.parametrize(
    ("start", "first"),
    [("", 0), (">", 0), ("$>", 10), (":4", 4), (":10", 10), ("9999999999999", 10)],
)
def test_a_stream_starts_at_the_option_start(hr, store, start, first):
    hr.commit_many("orders", [{"n": n} for n in range(10)])
    reader = stream(store, **({"start": start} if start else {}))
    assert reader.initial() == {"orders": first}
    hr.commit("orders", {})
    assert reader.latest({"orders": first}) == {"orders": 11}
    assert hr.proc("reader").info().position == first, "so collection leaves the rest"


@pytest.mark.parametrize("start", ["", ">", "$>", ":0", "1700000000000"])
def test_a_stream_can_start_before_its_producer(hr, store, start):
    """On a topic without records: it waits, keeps its place, and reads the first one."""
    reader = stream(store, **({"start": start} if start else {}))
    reader.end_at_present()
    begin = reader.initial()
    assert (begin, reader.latest(begin)) == ({"orders": 0}, {"orders": 0})
    assert reader.ranges(begin, begin) == []
    reader = stream(store)  # after a restart, with the checkpoint of nothing
    assert (reader.newest(), reader.latest(begin, 5)) == ({"orders": 0}, {"orders": 0})
    reader.commit(begin)
    hr.commit_many("orders", [{"n": n} for n in range(3)])
    assert reader.latest(begin) == {"orders": 3}
    [part] = reader.ranges(begin, {"orders": 3})
    assert [row["seq"] for row in rows(store, part)] == [0, 1, 2]
    reader.commit({"orders": 3})
    assert hr.proc("reader").lag().records == 0


def test_a_stream_from_a_record_that_is_not_there_is_refused(hr, store):
    """Also while the topic has none, or a checkpoint says that it had."""
    with pytest.raises(UnknownSeq, match="no record :5"):
        stream(store, start=":5").initial()
    with pytest.raises(UnknownSeq, match="continues at record :5"):
        stream(store).latest({"orders": 5})


def test_without_a_checkpoint_a_stream_goes_on_at_its_proc(hr, store):
    hr.commit_many("orders", [{"n": n} for n in range(10)])
    reader = stream(store)
    reader.initial()
    reader.commit({"orders": 6})
    assert stream(store).initial() == {"orders": 6}
    assert stream(store, start=">").initial() == {"orders": 0}, "unless start says otherwise"
    assert hr.proc("reader").info().position == 0


def test_a_checkpoint_creates_its_proc_again(hr, store):
    """Somebody deleted the proc, or brought the checkpoint back from a backup."""
    hr.commit_many("orders", [{"n": n} for n in range(10)])
    assert stream(store).latest({"orders": 4}) == {"orders": 10}
    assert hr.proc("reader").info().position == 4


def test_the_last_batch_counts_when_nothing_follows(hr, store):
    """Spark commits a batch when it plans the next one, and there may be none."""
    hr.commit_many("orders", [{"n": n} for n in range(10)])
    reader = stream(store)
    reader.end_at_present()
    hr.commit("orders", {"n": "later"})
    end = reader.latest(reader.initial())
    assert end == {"orders": 10}
    assert reader.latest(end) == end
    assert hr.proc("reader").info().position == 10


def test_several_topics_share_a_limit(hr, store):
    hr.commit_many("orders", [{}] * 100)
    hr.commit_many("bills", [{}] * 5)
    reader = stream(store, topic="orders,bills")
    assert reader.latest(reader.initial(), 50) == {"orders": 45, "bills": 5}
    assert {proc.name for proc in hr.procs.list()} == {"reader-orders", "reader-bills"}


def test_collection_waits_for_a_stream(hr, store, clock):
    hr.commit_many("orders", [{"n": n} for n in range(10)])
    reader = stream(store)
    reader.initial()
    collect(hr, clock, min_age=30)
    assert hr.topic("orders").info().first_seq == 0
    reader.commit({"orders": 7})
    hr.admin.maintain(force=True)
    assert hr.topic("orders").info().first_seq == 7


def test_a_stream_that_was_overtaken_says_so(hr, store, clock):
    hr.commit_many("orders", [{"n": n} for n in range(10)])
    reader = stream(store)
    start, end = reader.initial(), reader.latest(reader.initial())
    [part] = reader.ranges(start, end)
    collect(hr, clock, max_age=30)
    with pytest.raises(ProcOvertaken, match=r":0 to :9 of topic 'orders'.*proc 'reader'"):
        reader.latest(start)
    with pytest.raises(ProcOvertaken, match="start='>'"):
        list(pages(store, part, "reader"))
    with pytest.raises(ProcOvertaken):
        stream(store).initial()
    assert stream(store, start=">").initial() == {"orders": 10}


def test_a_checkpoint_of_something_else_is_refused(hr, store):
    hr.commit("orders", {})
    with pytest.raises(UnknownSeq, match=r"continues at record :5 .*another database"):
        stream(store).latest({"orders": 5})
    with pytest.raises(InvalidOption, match="the checkpoint is for bills, orders"):
        stream(store).latest({"orders": 0, "bills": 0})
    hr.procs.create("taken", "bills")
    with pytest.raises(ProcNameTaken, match="'taken' reads topic 'bills'"):
        stream(store, proc="taken").initial()


def test_a_store_in_memory_is_refused():
    with pytest.raises(UnsupportedStore, match="several processes"):
        store_location.location_of("memory://")


def test_a_file_that_is_not_there_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnknownStore, match=f"no SQLite file {tmp_path}/flow.db"):
        store_location.location_of("sqlite:///flow.db")


@pytest.fixture
def no_store_open(monkeypatch):
    """Stores that are opened by their place, closed at the end."""
    found = {}
    monkeypatch.setattr(store_location, "_open_stores", found)
    yield found
    for store in found.values():
        store.close()


def test_a_few_stores_stay_open_and_no_more(tmp_path, no_store_open):
    made = []
    for number in range(store_location.MAX_OPEN_STORES + 2):
        url = f"sqlite:///{tmp_path}/{number}.db"
        headrace.connect(url).close()
        made.append(store_location.location_of(url))
        store_location.open_at(made[-1])
        store_location.open_at(made[0])
    assert list(no_store_open) == [*made[-store_location.MAX_OPEN_STORES + 1 :], made[0]]


def test_a_file_that_replaced_another_is_opened_again(tmp_path, no_store_open):
    path = tmp_path / "flow.db"
    lengths = []
    for count in (1, 2):
        for file in tmp_path.iterdir():
            file.unlink()
        with headrace.connect(f"sqlite:///{path}") as hr:
            hr.commit_many("orders", [{}] * count)
        store = store_location.open_at(store_location.location_of(f"sqlite:///{path}"))
        lengths.append(store.run(store.topics.info("orders")).length)
    assert lengths == [1, 2]


def test_a_file_must_be_the_same_for_executors(tmp_path, monkeypatch, no_store_open):
    """On another machine the path may lead to nothing, or to something else."""
    url = f"sqlite:///{tmp_path}/with space.db"
    headrace.connect(url).close()
    place = pickle.loads(pickle.dumps(store_location.location_of(store_location.absolute_url(url))))
    assert store_location.open_at(place) is store_location.open_at(place)
    other = place._replace(file=(1, 2))
    with pytest.raises(UnsupportedStore, match=r"local\[\*\]; on a cluster .* PostgreSQL"):
        store_location.open_at(other)
    monkeypatch.setattr(store_location, "this_machine", lambda: "elsewhere 123")
    with pytest.raises(UnsupportedStore, match="cannot open that file"):
        store_location.open_at(place)
