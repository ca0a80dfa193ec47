"""``headrace topic``."""

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from run_cli import Cli, events_of

import headrace
from headrace.cli import jsonl, tail
from headrace.errors import StoreUnavailable, UnknownSeq
from headrace.testing.clocks import FakeClock


@pytest.fixture
def numbers(direct_url: str) -> Iterator[headrace.Headrace]:
    """Ten records in topic ``numbers``, one a second from 2018-02-18T10:58:00.106Z on."""
    clock = FakeClock()
    with headrace.connect(direct_url, clock=clock) as hr:
        for n in range(10):
            hr.commit("numbers", {"n": n}, headers={"odd": "yes"} if n % 2 else None)
            clock.advance(1)
        yield hr


def bodies(answer: Any) -> list[Any]:
    assert answer.code == 0, answer
    return [record["body"]["n"] for record in answer.json_lines]


def test_ls_lists_topics(numbers: headrace.Headrace, each: Cli) -> None:
    numbers.commit("words", {})
    answer = each("topic", "ls")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.splitlines()[:2] == [
        "TOPIC    RECORDS  LAST ID          LAST COMMIT",
        "numbers       10  1518951489106-9  2018-02-18T10:58:09.106Z",
    ]
    assert [row["name"] for row in each("topic", "ls", "--prefix", "w", "--json").json] == ["words"]
    [first, _] = each("topic", "ls", "--json").json
    assert first == {
        "name": "numbers",
        "first_seq": 0,
        "next_seq": 10,
        "last_ts": 1518951489106,
        "min_age": None,
        "max_age": None,
        "length": 10,
        "last_id": "1518951489106-9",
    }


def test_ls_continues_after_a_page(
    numbers: headrace.Headrace, each: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers.commit([(f"t{n}", {}) for n in range(7)])
    monkeypatch.setattr("headrace.cli.pages.PAGE_SIZE", 3)
    assert len(each("topic", "ls", "--json").json) == 8


def test_an_empty_list_is_reported_on_stderr(numbers: headrace.Headrace, each: Cli) -> None:
    answer = each("topic", "ls", "--prefix", "x")
    assert answer == (0, "", "there are no topics that begin with 'x'\n")
    assert each("topic", "ls", "--prefix", "x", "--json").json == []


def test_tail_prints_the_newest_oldest_first(numbers: headrace.Headrace, each: Cli) -> None:
    assert bodies(each("topic", "tail", "numbers", "-n", "3", "--json")) == [7, 8, 9]
    assert bodies(each("topic", "tail", "numbers", "--json")) == list(range(10))
    assert each("topic", "tail", "numbers", "--limit", "0") == (0, "", "")
    answer = each("topic", "tail", "numbers", "-n", "2")
    assert answer.out.splitlines() == [
        '1518951488106-8  2018-02-18T10:58:08.106Z  {"n":8}',
        '1518951489106-9  2018-02-18T10:58:09.106Z  {"n":9}  {"odd":"yes"}',
    ]


def test_a_record_in_json_has_everything(numbers: headrace.Headrace, each: Cli) -> None:
    [record] = each("topic", "tail", "numbers", "-n", "1", "--json").json_lines
    assert record == {
        "id": "1518951489106-9",
        "topic": "numbers",
        "seq": 9,
        "ts": 1518951489106,
        "headers": {"odd": "yes"},
        "body": {"n": 9},
    }


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], range(10)),
        (["--start", ":7"], [7, 8, 9]),
        (["--end", ":2"], [0, 1, 2]),
        (["--start", ":3", "--end", ":5"], [3, 4, 5]),
        (["--start", ":3", "--end", ":5", "--exclusive"], [4]),
        (["--start", "1518951488106-8"], [8, 9]),
        (["--start", "1518951488106"], [8, 9]),
        (["--start", "2018-02-18T10:58:07Z", "--end", "2018-02-18T11:58:08.106+01:00"], [7, 8]),
        (["--limit", "2"], [0, 1]),
        (["--reverse", "-n", "2"], [9, 8]),
        (["--reverse", "--start", ":5", "--end", ":4"], [5, 4]),
        (["--start", "2030-01-01T00:00Z"], []),
    ],
    ids=lambda value: " ".join(map(str, value)),
)
def test_range(
    numbers: headrace.Headrace, each: Cli, options: list[str], expected: list[int]
) -> None:
    assert bodies(each("topic", "range", "numbers", *options, "--json")) == list(expected)


def test_terminal_control_characters_are_escaped(cli: Cli) -> None:
    """In records and in headers. JSON output stays exact."""
    nasty = "\x1b[31m\x9b2J\u202e"
    cli("topic", "commit", "t", json.dumps({"x": nasty}), "--header", f"h={nasty}")
    shown = cli("topic", "tail", "t").out.rstrip("\n")
    assert shown.isprintable()
    [record] = cli("topic", "tail", "t", "--json").json_lines
    assert (record["body"]["x"], record["headers"]["h"]) == (nasty, nasty)


def test_stats(numbers: headrace.Headrace, each: Cli) -> None:
    numbers.procs.create("inc", "numbers").claim(3).ack()
    numbers.procs.create("new", "numbers", offset="$>")
    numbers.procs.create("other", "words")
    found = each("topic", "show", "numbers", "--json").json
    assert (found["length"], found["first_id"]) == (10, "1518951480106-0")
    lags = {proc["name"]: proc["lag"]["records"] for proc in found["procs"]}
    assert lags == {"inc": 7, "new": 0}
    shown = each("topic", "show", "numbers").out.splitlines()
    assert shown[:5] == [
        "topic    numbers",
        "records  10",
        "first    1518951480106-0  2018-02-18T10:58:00.106Z",
        "last     1518951489106-9  2018-02-18T10:58:09.106Z",
        "procs    2",
    ]
    assert shown[6].split()[:3] == ["inc", "active", "7"]


def test_commit_prints_the_id(each: Cli, durable_url: str) -> None:
    """It also creates the tables if there are none."""
    answer = each("topic", "commit", "t", '{"n": 1}', "--header", "a=b", "--header", "c=d=e")
    assert (answer.code, answer.err) == (0, "")
    with headrace.connect(durable_url) as hr:
        [record] = hr.range("t")
    assert answer.out == f"{record.id}\n"
    assert (record.body, record.headers) == ({"n": 1}, {"a": "b", "c": "d=e"})
    again = each("topic", "commit", "t", "[]", "--json")
    assert again.json["id"].endswith("-1")


def test_a_commit_with_a_key_is_applied_once(cli: Cli) -> None:
    first = cli("topic", "commit", "t", '{"n": 1}', "--key", "k")
    assert cli("topic", "commit", "t", '{"n": 1}', "--key", "k") == first
    other = cli("topic", "commit", "t", '{"n": 2}', "--key", "k")
    assert (other.code, other.out) == (1, "")
    assert "key 'k' was used before" in other.err


def numbered(count: int, start: int = 0) -> str:
    return "".join(f'{{"n":{n}}}\n' for n in range(start, start + count))


def test_lines_of_stdin_are_committed_in_batches(each: Cli, durable_url: str) -> None:
    """2500 lines are three commits. Every id is printed, in order."""
    with events_of("topics.commit") as commits:
        answer = each("topic", "commit", "t", "-", "--header", "from=file", input=numbered(2500))
    assert answer.code == 0
    assert len(commits) == 3
    assert "committed 2,500 records to 't'" in answer.err
    with headrace.connect(durable_url) as hr:
        records = hr.range("t")
    assert answer.out.split() == [record.id for record in records]
    assert [record.body["n"] for record in records] == list(range(2500))
    assert records[-1].headers == {"from": "file"}


def test_ids_of_stdin_in_json(cli: Cli) -> None:
    answer = cli("topic", "commit", "t", "-", "--json", input='{}\n\n  \n[1]\r\n{"last": 1}')
    assert [row["id"].rpartition("-")[2] for row in answer.json_lines] == ["0", "1", "2"]


def test_nothing_on_stdin_is_nothing_committed(cli: Cli) -> None:
    assert cli("topic", "commit", "t", "-", input="\n\n").code == 0
    assert cli("topic", "tail", "t").code == 3


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ('{"n": ', "truncated"),
        ("nonsense", "malformed"),
        ("5", "a body is a JSON object or list, not int"),
        ('{"x": "' + "a" * 2_000_000 + '"}', "over the limit of 1048576"),
    ],
    ids=["truncated", "malformed", "number", "large"],
)
def test_a_bad_line_is_named_and_its_batch_not_committed(cli: Cli, bad: str, why: str) -> None:
    """A bad line 7 means that nothing is written. Further on, the complete batches before it
    are."""
    answer = cli("topic", "commit", "t", "-", input=f"{numbered(6)}{bad}\n{numbered(5)}")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith("headrace: line 7: ")
    assert why in answer.err
    assert "nothing of its batch was committed; committed before it: 0 records." in answer.err
    assert cli("topic", "tail", "t").code == 3
    answer = cli("topic", "commit", "t", "-", input=f"{numbered(2006)}{bad}\n")
    assert answer.code == 1
    assert "line 2007" in answer.err
    assert "committed before it: 2,000 records." in answer.err
    assert cli("topic", "show", "t", "--json").json["length"] == 2000


def test_a_line_that_is_no_unicode_is_named(cli: Cli) -> None:
    answer = cli("topic", "commit", "t", "-", input=b'{}\n{"x": "\xff"}\n')
    assert answer.code == 1
    assert "line 2" in answer.err


def test_stdin_with_a_key_can_be_run_again(cli: Cli) -> None:
    """After a bad line was corrected, only the missing lines are committed."""
    broken = f"{numbered(1500)}oops\n"
    assert cli("topic", "commit", "t", "-", "--key", "k", input=broken).code == 1
    whole = numbered(1501)
    first = cli("topic", "commit", "t", "-", "--key", "k", input=whole)
    again = cli("topic", "commit", "t", "-", "--key", "k", input=whole)
    assert (first.code, again.code) == (0, 0)
    assert len(set(first.out.split())) == 1501
    assert again.out == first.out
    assert cli("topic", "show", "t", "--json").json["length"] == 1501


def test_a_failing_store_reports_the_progress(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    original = headrace.Headrace.commit_many
    left = iter([True, True, False])

    def fail(self: Any, *args: Any, **options: Any) -> list[str]:
        if not next(left):
            raise StoreUnavailable("the store is away: wait.")
        return original(self, *args, **options)

    monkeypatch.setattr(headrace.Headrace, "commit_many", fail)
    answer = cli("topic", "commit", "t", "-", input=numbered(3000))
    assert answer.code == 4
    assert "committed 2,000 records before this\n" in answer.err
    assert "headrace: the store is away" in answer.err


class Slow:
    """A stream that returns the available lines, and sometimes none."""

    def __init__(self, *chunks: bytes) -> None:
        self.chunks = [*chunks, b""]

    def read1(self, size: int) -> bytes:
        return self.chunks.pop(0)

    def fileno(self) -> int:
        return 0


def test_lines_do_not_wait_for_a_slow_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless there is a key: then batches must not depend on time."""
    monkeypatch.setattr(jsonl, "_has_more", lambda stream: len(stream.chunks) == 2)
    chunks = (b'{"n":0}\n{"n"', b":1}\n", b'{"n":2}\n{"n":3}')

    def cut(**options: bool) -> list[list[int]]:
        return [b.numbers for b in jsonl.batches(Slow(*chunks), **options)]

    assert cut(is_prompt=True) == [[1], [2, 3], [4]]
    assert cut(is_prompt=False) == [[1, 2, 3, 4]]


@pytest.mark.parametrize(("options", "commits"), [([], 4), (["--key", "k"], 1)])
def test_a_key_makes_commits_wait_for_full_batches(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, options: list[str], commits: int
) -> None:
    monkeypatch.setattr(jsonl, "CHUNK_BYTES", len('{"n":0}\n'))
    monkeypatch.setattr(jsonl, "_has_more", lambda stream: False)
    seen: list[str] = []
    unsubscribe = headrace.telemetry.subscribe(lambda event: seen.append(event.operation))
    assert cli("topic", "commit", "t", "-", *options, input=numbered(4)).code == 0
    unsubscribe()
    assert seen.count("topics.commit") == commits


def test_batches_are_cut_by_size_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "MAX_BATCH_BYTES", 20)
    stream = Slow(b'{"n":0}\n{"n":1}\n{"n":2}\n{"n":3}\n')
    assert [b.size for b in jsonl.batches(stream, is_prompt=False)] == [24, 8]


class Follow:
    """Replaces ``time`` in ``tail -f``: each pause does the next thing, and the last one
    interrupts."""

    def __init__(self, *acts: Any) -> None:
        self.acts = iter(acts)
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        act = next(self.acts, None)
        if act is None:
            raise KeyboardInterrupt
        act()


def test_tail_follows_until_interrupted(
    numbers: headrace.Headrace, each: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every record once, in order. Pauses grow while nothing comes."""
    follow = Follow(
        lambda: numbers.commit_many("numbers", [{"n": 10}, {"n": 11}]),
        *[lambda: None] * 8,
        lambda: numbers.commit("numbers", {"n": 12}),
        lambda: None,
    )
    monkeypatch.setattr(tail, "time", follow)
    answer = each("topic", "tail", "numbers", "-n", "1", "-f", "--json")
    assert (answer.code, answer.err) == (130, "")
    assert [row["body"]["n"] for row in answer.json_lines] == [9, 10, 11, 12]
    assert follow.pauses[:2] == [0.01, 0.01]
    assert follow.pauses[2:9] == [0.02, 0.04, 0.08, 0.16, 0.25, 0.25, 0.25]
    assert follow.pauses[-2:] == [0.01, 0.02]


def test_tail_can_follow_a_topic_before_its_first_record(
    numbers: headrace.Headrace, each: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow = Follow(lambda: None, lambda: numbers.commit("later", {"n": 1}), lambda: None)
    monkeypatch.setattr(tail, "time", follow)
    answer = each("topic", "tail", "later", "-f", "--json")
    assert answer.code == 130
    assert "topic 'later' has no records yet: waiting" in answer.err
    assert [row["body"]["n"] for row in answer.json_lines] == [1]


def test_tail_continues_after_pruned_records(
    numbers: headrace.Headrace, each: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records that are pruned between two polls are reported, not waited for."""
    original = headrace.Topic.info
    calls = itertools.count()

    def info(self: Any) -> Any:
        found = original(self)
        # tail polls once, then the follower: by then six records are pruned.
        if next(calls) == 0:
            return headrace.types.TopicInfo(self.name, 0, 3, 0)
        return headrace.types.TopicInfo(self.name, 6, found.next_seq, found.last_ts)

    monkeypatch.setattr(headrace.Topic, "info", info)
    monkeypatch.setattr(tail, "time", Follow())
    answer = each("topic", "tail", "numbers", "-n", "0", "-f", "--json")
    assert "records :3 to :5 were removed before they were read" in answer.err
    assert [row["seq"] for row in answer.json_lines] == [6, 7, 8, 9]


def test_tail_survives_pruning_during_a_poll(
    numbers: headrace.Headrace, each: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = headrace.Headrace.iterate
    calls = itertools.count()

    def iterate(self: Any, *args: Any, **options: Any) -> Any:
        if next(calls) == 0:
            raise UnknownSeq("it has gone")
        return original(self, *args, **options)

    monkeypatch.setattr(headrace.Headrace, "iterate", iterate)
    follow = Follow(lambda: numbers.commit("numbers", {"n": 10}), lambda: None, lambda: None)
    monkeypatch.setattr(tail, "time", follow)
    answer = each("topic", "tail", "numbers", "-n", "0", "-f", "--json")
    assert [row["body"]["n"] for row in answer.json_lines] == [10]


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["tail", "nope"], 3, "topic 'nope' has no records"),
        (["range", "nope"], 3, "topic 'nope' has no records"),
        (["show", "nope"], 3, "topic 'nope' has no records"),
        (["range", "numbers", "--start", ":99"], 3, "has no record :99: it holds :0 to :9"),
        (["range", "numbers", "--start", "x"], 2, "'x' is not a position"),
        (["range", "numbers", "--end", "2018-02-18T10:58"], 2, "has no time zone"),
        (["range", "numbers", "--end", "2018-02-30T10:58Z"], 2, "is not a time"),
        (["range", "numbers", "--end", "1918-02-18T10:58Z"], 2, "lies before 1970"),
        (["range", "numbers", "--limit", "0"], 2, "--limit"),
        (["tail", "no good"], 2, "cannot name a topic"),
        (["commit", "no good", "{}"], 2, "cannot name a topic"),
        (["commit", "no good", "-"], 2, "cannot name a topic"),
        (["commit", "t", "{"], 2, "BODY is not JSON"),
        (["commit", "t", "5"], 2, "a body is a JSON object or list"),
        (["commit", "t", "{}", "--header", "x"], 2, "header 'x' must be name=value"),
        (["commit", "t", "{}", "--header", "=x"], 2, "header '=x' must be name=value"),
        (["commit", "t", "{}", "--key", ""], 2, "key is ''"),
        (["commit", "t"], 2, "Missing argument 'BODY'. Try 'headrace topic commit --help'."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_are_one_line_and_a_code(
    numbers: headrace.Headrace, each: Cli, args: list[str], code: int, message: str
) -> None:
    answer = each("topic", *args)
    assert (answer.code, answer.out) == (code, "")
    assert message in answer.err
    assert answer.err.startswith("headrace: ")
    assert answer.err.count("\n") == 1
