"""``headrace push``."""

import json
from typing import Any

import pytest
from run_cli import Cli, events_of, on_terminal

import headrace
from headrace.cli import jsonl
from headrace.errors import StoreUnavailable


def numbered(count: int) -> str:
    return "".join(f'{{"n":{n}}}\n' for n in range(count))


def items(url: str, state: str = "pending") -> list[headrace.ClaimedItem]:
    with headrace.connect(url) as hr:
        return hr.queue("q").items(state, limit=10_000)


def test_push_prints_the_id(each: Cli, durable_url: str) -> None:
    """It also creates the tables and the queue if there are none."""
    answer = each("push", "q", '{"n": 1}', "--subject", "a", "--priority", "5", "--header", "x=y")
    assert (answer.code, answer.err) == (0, "")
    [item] = items(durable_url)
    assert answer.out == f"{item.id}\n"
    assert (item.payload, item.subject, item.priority) == ({"n": 1}, "a", 5)
    assert item.headers == {"x": "y"}
    found = each("push", "q", "null", "--json").json
    assert found == {"id": item.id + 1, "outcome": "pushed", "reason": None}


@pytest.mark.parametrize("payload", ["5", '"text"', "[1]", "true", "null", '{"ä": "€"}'])
def test_any_json_value_is_a_payload(cli: Cli, sqlite_url: str, payload: str) -> None:
    assert cli("push", "q", payload).code == 0
    [item] = items(sqlite_url)
    assert item.payload == json.loads(payload)


def test_push_can_delay(cli: Cli, sqlite_url: str) -> None:
    cli("push", "q", "1", "--at", "2099-01-01T00:00Z")
    cli("push", "q", "2", "--at", "4070908800000")
    cli("push", "q", "3", "--delay", "2 days")
    cli("push", "q", "4", "--delay", "172800")
    first, second, third, fourth = items(sqlite_url, "planned")
    assert first.due_at == second.due_at
    assert first.due_at.isoformat() == "2099-01-01T00:00:00+00:00"
    for item in (third, fourth):
        assert (item.due_at - item.created_at).days == 2


def test_an_existing_subject_is_reported(cli: Cli, sqlite_url: str) -> None:
    first = cli("push", "q", "1", "--subject", "a")
    again = cli("push", "q", "2", "--subject", "a")
    assert again == (0, first.out, "skipped: a live item has this subject\n")
    [line] = cli("push", "q", "2", "--subject", "a", "--json").json_lines
    assert (line["outcome"], line["reason"]) == ("skipped", "exists")
    newer = cli("push", "q", "3", "--subject", "a", "--upsert")
    assert newer == (0, first.out, "updated item 1\n")
    assert [item.payload for item in items(sqlite_url)] == [3]


def test_an_item_that_cannot_be_replaced_is_reported(cli: Cli, sqlite_url: str) -> None:
    with headrace.connect(sqlite_url) as hr:
        queue = hr.queues.create("q", unique="forever", exist_ok=True)
        hr.push("q", 1, subject="fixed", updateable=False)
        hr.push("q", 2, subject="flying", priority=5)
        hr.push("q", 3, subject="over", priority=9)
        queue.claim()[0].complete()
        queue.claim()
        upsert = ("push", "q", "4", "--upsert", "--subject")
        assert cli(*upsert, "fixed").err.endswith("may not be updated\n")
        assert cli(*upsert, "flying").err.endswith("is in flight\n")
        over = cli(*upsert, "over")
        assert (over.out, over.err) == ("-\n", "skipped: this subject was used before\n")
        queue.update(while_active="next")
        assert cli(*upsert, "flying").err == "item 2 is in flight: this one runs after it\n"


def test_a_push_with_a_key_is_applied_once(cli: Cli) -> None:
    first = cli("push", "q", '{"n": 1}', "--key", "k")
    assert cli("push", "q", '{"n": 1}', "--key", "k") == first
    other = cli("push", "q", '{"n": 2}', "--key", "k")
    assert (other.code, other.out) == (1, "")
    assert "key 'k' was used before" in other.err


@pytest.mark.parametrize("way", [["-"], ["--lines"], ["-", "--lines"]], ids=" ".join)
def test_lines_of_stdin_are_pushed_in_batches(each: Cli, durable_url: str, way: list[str]) -> None:
    """2500 lines are three pushes. Every id is printed, in order."""
    with events_of("queues.push") as pushes:
        answer = each("push", "q", *way, "--priority", "3", input=numbered(2500))
    assert answer.code == 0
    assert len(pushes) == 3
    assert answer.err.startswith("pushed 2,500 items to 'q' in ")
    found = items(durable_url)
    assert answer.out.split() == [str(item.id) for item in found]
    assert [item.payload["n"] for item in found] == list(range(2500))
    assert {item.priority for item in found} == {3}


def test_lines_may_be_documents(cli: Cli, sqlite_url: str) -> None:
    given = [
        {"payload": 1, "subject": "a", "priority": 7},
        {"payload": 2, "subject": "b", "delay": "1h"},
        {"payload": 3, "subject": "a"},
    ]
    text = "\n".join(map(json.dumps, given))
    answer = cli("push", "q", "--docs", "--json", input=text)
    assert [row["outcome"] for row in answer.json_lines] == ["pushed", "pushed", "skipped"]
    assert answer.err.startswith("pushed 2 items to 'q', skipped 1 in ")
    [item] = items(sqlite_url)
    assert (item.payload, item.subject, item.priority) == (1, "a", 7)
    again = cli("push", "q", "-", "--docs", "--upsert", input=text)
    assert again.err.startswith("upserted 3 items to 'q', 3 of them existed in ")
    assert sorted(item.payload for item in items(sqlite_url)) == [3]


def test_nothing_on_stdin_is_nothing_pushed(cli: Cli) -> None:
    answer = cli("push", "q", "-", input="\n\n")
    assert (answer.code, answer.out) == (0, "")
    assert "pushed 0 items to 'q'" in answer.err
    assert cli("queue", "show", "q").code == 3


@pytest.mark.parametrize(
    ("bad", "why", "way"),
    [
        ('{"n": ', "truncated", "--lines"),
        ("nonsense", "malformed", "--lines"),
        ('{"x": "' + "a" * 2_000_000 + '"}', "over the limit of 1048576", "--lines"),
        ("5", "is not a document", "--docs"),
        ('{"nope": 5}', "a document has no field 'nope'", "--docs"),
        ('{"priority": "x"}', "priority is 'x'", "--docs"),
        ('{"subject": ""}', "cannot be a subject", "--docs"),
        ('{"at": 5, "delay": 5}', "has both at and delay", "--docs"),
    ],
    ids=["truncated", "malformed", "large", "number", "field", "priority", "subject", "due"],
)
def test_a_bad_line_is_named_and_its_batch_not_pushed(
    cli: Cli, bad: str, why: str, way: str
) -> None:
    """A bad line 7 means that nothing is written. Further on, the complete batches before it
    are."""
    good = '{"payload": 1}\n'
    answer = cli("push", "q", way, input=f"{good * 6}{bad}\n{good * 5}")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith("headrace: line 7: ")
    assert why in answer.err
    assert "nothing of its batch was pushed; pushed before it: 0 items." in answer.err
    assert cli("queue", "show", "q").code == 3
    answer = cli("push", "q", way, input=f"{good * 1006}{bad}\n")
    assert "line 1007" in answer.err
    assert "pushed before it: 1,000 items." in answer.err
    assert cli("queue", "stats", "q", "--json").json["pending"] == 1000


def test_stdin_with_a_key_can_be_run_again(cli: Cli) -> None:
    """After a bad line was corrected, only the missing lines are pushed."""
    assert cli("push", "q", "-", "--key", "k", input=f"{numbered(1500)}oops\n").code == 1
    first = cli("push", "q", "-", "--key", "k", input=numbered(1501))
    again = cli("push", "q", "-", "--key", "k", input=numbered(1501))
    assert (first.code, again.code) == (0, 0)
    assert len(set(first.out.split())) == 1501
    assert again.out == first.out
    assert cli("queue", "stats", "q", "--json").json["pending"] == 1501


def test_a_failing_store_reports_the_progress(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    original = headrace.Headrace.push_many
    left = iter([True, True, False])

    def fail(self: Any, *args: Any, **options: Any) -> headrace.types.PushResult:
        if not next(left):
            raise StoreUnavailable("the store is away: wait.")
        return original(self, *args, **options)

    monkeypatch.setattr(headrace.Headrace, "push_many", fail)
    answer = cli("push", "q", "-", input=numbered(3000))
    assert answer.code == 4
    assert "pushed 2,000 items before this\n" in answer.err
    assert "headrace: the store is away" in answer.err


def test_lines_do_not_wait_for_a_slow_producer(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "CHUNK_BYTES", len('{"n":0}\n'))
    monkeypatch.setattr(jsonl, "_has_more", lambda stream: False)
    seen: list[str] = []
    unsubscribe = headrace.telemetry.subscribe(lambda event: seen.append(event.operation))
    assert cli("push", "q", "-", input=numbered(4)).code == 0
    unsubscribe()
    assert seen.count("queues.push") == 4


def test_a_progress_bar_goes_to_stderr(sqlite_url: str) -> None:
    code, out, screen = on_terminal("-u", sqlite_url, "push", "q", "-", input=numbered(3000))
    assert (code, len(out.splitlines())) == (0, 3000)
    assert " items, " in screen
    assert "pushed 3,000 items" in screen


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["no/good", "{}"], "cannot name a queue"),
        (["no/good", "-"], "cannot name a queue"),
        (["q", "{"], "PAYLOAD is not JSON"),
        (["q", "text"], "PAYLOAD is not JSON"),
        (["q"], "give a PAYLOAD, or - for lines on stdin"),
        ([], "Missing argument 'QUEUE'"),
        (["q", "{}", "--lines"], "--lines and --docs read stdin: leave PAYLOAD out"),
        (["q", "-", "--subject", "a"], "a subject is for one item"),
        (["q", "--docs", "--priority", "5"], "with --docs each line has its own fields"),
        (["q", "{}", "--subject", ""], "cannot be a subject"),
        (["q", "{}", "--priority", "x"], "Invalid value for '--priority'"),
        (["q", "{}", "--priority", "99999999999"], "priority is 99999999999"),
        (["q", "-", "--priority", "99999999999"], "priority is 99999999999"),
        (["q", "{}", "--delay", "soon"], "delay is 'soon'"),
        (["q", "-", "--delay", "soon"], "delay is 'soon'"),
        (["q", "{}", "--delay", "-5"], "delay is -5.0"),
        (["q", "{}", "--at", "soon"], "at is 'soon': write a time like 2026-11-01T10:00Z"),
        (["q", "{}", "--at", "2030-01-01T10:00"], "has no time zone"),
        (["q", "{}", "--at", "2030-01-01T10:00Z", "--delay", "5"], "has both at and delay"),
        (["q", "{}", "--header", "x"], "header 'x' must be name=value"),
        (["q", "{}", "--key", ""], "key is ''"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_are_one_line_and_a_code(cli: Cli, args: list[str], message: str) -> None:
    """No queue is created."""
    cli("migrate")
    answer = cli("push", *args, input=numbered(3))
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.err
    assert answer.err.startswith("headrace: ")
    assert answer.err.count("\n") == 1
    assert cli("queue", "ls", "--json").json == []
