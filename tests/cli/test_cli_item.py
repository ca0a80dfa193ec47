"""``headrace item``."""

from collections.abc import Iterator

import pytest
from run_cli import Cli, on_terminal

import headrace


@pytest.fixture
def hr(sqlite_url: str) -> Iterator[headrace.Headrace]:
    """Queue ``q``: item 1 (a) in flight, 2 (b) pending, 3 planned, 4 (d) dead."""
    with headrace.connect(sqlite_url) as client:
        queue = client.queues.create("q", discipline="fifo", exist_ok=True)
        client.push("q", {"n": 1}, subject="a")
        client.push("q", {"n": 2}, subject="b", headers={"x": "y"})
        client.push("q", {"n": 3}, delay="1h")
        client.push("q", {"n": 4}, subject="d")
        first, second, fourth = queue.claim(3)
        assert (first.id, second.id, fourth.id) == (1, 2, 4)
        try:
            raise ValueError("no such user\nat all")
        except ValueError as error:
            fourth.kill(error)
        second.release()
        yield client


def shown(text: str) -> dict[str, str]:
    return dict(line.split(maxsplit=1) for line in text.splitlines())


def test_an_item_from_push_to_cancel(each: Cli, durable_url: str) -> None:
    """On every driver."""
    each("push", "q", '{"n": 1}', "--subject", "a", "--delay", "1h")
    [found] = each("item", "ls", "q", "--json").json_lines
    assert (found["subject"], found["state"], found["payload"]) == ("a", "planned", {"n": 1})
    assert each("item", "show", "q", "a", "--json").json == found
    assert each("item", "why", "q", "a", "--json").json["due_in"] > 3000
    edited = each("item", "edit", "q", "a", "--payload", "[2]", "--json").json
    assert edited["payload"] == [2]
    assert each("item", "retry", "q", "a", "--json").json["state"] == "pending"
    assert each("item", "cancel", "q", "a", "--json").json["payload"] == [2]
    assert each("item", "ls", "q").err == "queue 'q' has no live items\n"


def test_ls_lists_live_items(hr: headrace.Headrace, cli: Cli) -> None:
    answer = cli("item", "ls", "q")
    assert (answer.code, answer.err) == (0, "")
    titles, *rows = (line.split() for line in answer.out.splitlines())
    assert titles[:3] == ["ID", "STATE", "SUBJECT"]
    assert [row[:3] for row in rows] == [
        ["1", "active", "a"],
        ["2", "pending", "b"],
        ["3", "planned", "-"],
    ]
    assert rows[1][-1] == '{"n":2}'


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ([], [1, 2, 3]),
        (["-n", "2"], [1, 2]),
        (["--state", "dead"], [4]),
        (["--state", "planned"], [3]),
        (["--state", "completed"], []),
    ],
    ids=lambda value: " ".join(map(str, value)),
)
def test_ls_of_some(hr: headrace.Headrace, cli: Cli, options: list[str], ids: list[int]) -> None:
    found = cli("item", "ls", "q", *options, "--json")
    assert found.code == 0
    assert [row["id"] for row in found.json_lines] == ids


def test_ls_continues_after_a_page(
    hr: headrace.Headrace, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    hr.push_many("q", [{"n": n} for n in range(7)])
    monkeypatch.setattr("headrace.cli.pages.PAGE_SIZE", 3)
    assert len(cli("item", "ls", "q", "--json").json_lines) == 10
    assert len(cli("item", "ls", "q", "-n", "5", "--json").json_lines) == 5


def test_a_long_payload_is_truncated_in_the_list_on_a_terminal_only(
    hr: headrace.Headrace, cli: Cli, sqlite_url: str
) -> None:
    hr.push("q", "x" * 10_000, subject="long")
    _, _, screen = on_terminal("-u", sqlite_url, "item", "ls", "q", is_data_shown=True)
    assert "xx…" in screen
    assert "x" * 100 not in screen
    assert "x" * 10_000 in cli("item", "ls", "q", "--state", "pending").out
    assert "x" * 10_000 in cli("item", "show", "q", "long").out


def test_show_prints_everything(hr: headrace.Headrace, cli: Cli) -> None:
    found = shown(cli("item", "show", "q", "2").out)
    assert (found["id"], found["state"], found["subject"]) == ("2", "pending", "b")
    assert (found["payload"], found["headers"]) == ('{"n":2}', '{"x":"y"}')
    assert found["last_error"] == "-"
    assert cli("item", "show", "q", "b", "--json").json["id"] == 2
    flying = cli("item", "show", "q", "a", "--json").json
    assert flying["state"] == "active"
    assert flying["worker"]
    assert flying["deadline"] > flying["claimed_at"]


def test_show_prints_the_traceback(hr: headrace.Headrace, cli: Cli) -> None:
    out = cli("item", "show", "q", "d").out
    found = shown("\n".join(line for line in out.splitlines() if not line.startswith("  ")))
    assert (found["state"], found["cause"]) == ("dead", "killed")
    assert found["last_error"] == "ValueError: no such user"
    assert '  raise ValueError("no such user' in out
    error = cli("item", "show", "q", "d", "--json").json["last_error"]
    assert error["message"] == "no such user\nat all"


def test_bytes_are_shown_as_such(hr: headrace.Headrace, cli: Cli) -> None:
    hr.push("q", b"\x00\xff", subject="raw")
    found = cli("item", "show", "q", "raw", "--json").json
    assert (found["payload"], found["is_bytes"]) == ("AP8=", True)
    assert shown(cli("item", "show", "q", "raw").out)["payload"] == '"AP8="'


def test_content_cannot_drive_the_terminal(hr: headrace.Headrace, cli: Cli) -> None:
    nasty = "\x9b2J\u202e"
    hr.push("q", nasty, subject=nasty, headers={"x": nasty})
    for args in (("item", "ls", "q"), ("item", "show", "q", nasty), ("item", "why", "q", nasty)):
        answer = cli(*args)
        assert answer.code == 0
        assert all(line.isprintable() for line in answer.out.splitlines())
    assert cli("item", "show", "q", nasty, "--json").json["payload"] == nasty


def test_a_subject_may_look_like_an_id(hr: headrace.Headrace, cli: Cli) -> None:
    hr.push("q", {"n": 5}, subject="2")
    assert cli("item", "show", "q", "2", "--json").json["subject"] == "b"
    assert cli("item", "show", "q", "2", "--by-subject", "--json").json["payload"] == {"n": 5}
    assert cli("item", "cancel", "q", "2", "--by-subject", "--json").json["id"] == 5


def test_why(hr: headrace.Headrace, cli: Cli) -> None:
    hr.queue("q").pause(by="ann")
    assert "item 2 (b) of queue 'q' is pending: the queue is paused by ann" in (
        cli("item", "why", "q", "b").out
    )
    found = cli("item", "why", "q", "b", "--json").json
    assert (found["is_paused"], found["before"]) == (True, 0)
    assert "its lease ends in" in cli("item", "why", "q", "1").out
    assert "killed" in cli("item", "why", "q", "d").out


def test_cancel_prints_the_deleted_item(hr: headrace.Headrace, cli: Cli) -> None:
    answer = cli("item", "cancel", "q", "b")
    assert answer.err == "item 2 of queue 'q' is removed\n"
    assert shown(answer.out)["payload"] == '{"n":2}'
    assert cli("item", "show", "q", "b").code == 3


def test_cancel_deletes_a_dead_item(hr: headrace.Headrace, cli: Cli) -> None:
    assert cli("item", "cancel", "q", "d", "--json").json["state"] == "dead"
    assert hr.queue("q").dead.count() == 0


def test_retry_runs_a_dead_item_again(hr: headrace.Headrace, cli: Cli) -> None:
    answer = cli("item", "retry", "q", "4", "--json")
    assert (answer.code, answer.json["state"], answer.json["attempts"]) == (0, "pending", 0)
    assert hr.queue("q").dead.count() == 0


def test_edit_changes_what_is_given(hr: headrace.Headrace, cli: Cli) -> None:
    cli("item", "edit", "q", "b", "--payload", "null")
    cli("item", "edit", "q", "b", "--priority", "7")
    item = hr.queue("q").item("b")
    assert (item.payload, item.priority, item.state) == (None, 7, headrace.types.State.PENDING)
    later = cli("item", "edit", "q", "b", "--delay", "1h", "--json").json
    assert later["state"] == "planned"
    at = cli("item", "edit", "q", "b", "--at", "2099-01-01T00:00Z", "--json").json
    assert at["due_at"] == "2099-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["ls", "nope"], 3, "there is no queue 'nope'"),
        (["show", "nope", "1"], 3, "there is no queue 'nope'"),
        (["why", "nope", "1"], 3, "there is no queue 'nope'"),
        (["cancel", "nope", "1"], 3, "there is no queue 'nope'"),
        (["retry", "nope", "x"], 3, "there is no queue 'nope'"),
        (["edit", "nope", "1", "--priority", "1"], 3, "there is no queue 'nope'"),
        (["ls", "no/good"], 2, "cannot name a queue"),
        (["ls", "q", "--state", "x"], 2, "Invalid value for '--state'"),
        (["ls", "q", "-n", "-1"], 2, "Invalid value for '--limit' / '-n'"),
        (["show", "q", "99"], 3, "queue 'q' has no item 99"),
        (["show", "q", "x"], 3, "queue 'q' has no item 'x'"),
        (["show", "q", "9" * 30], 2, "is too large for an id"),
        (["show", "q", ""], 2, "'' cannot be a subject"),
        (["show", "q"], 2, "Missing argument 'ID_OR_SUBJECT'"),
        (["why", "q", "99"], 3, "not kept: `headrace queue set QUEUE keep=all` keeps completed"),
        (["cancel", "q", "99"], 3, "queue 'q' has no item 99"),
        (["cancel", "q", "a"], 1, "item 1 of queue 'q' is in flight"),
        (["retry", "q", "a"], 1, "item 1 of queue 'q' is in flight"),
        (["edit", "q", "a", "--priority", "1"], 1, "item 1 of queue 'q' is in flight"),
        (["edit", "q", "b"], 2, "name a change"),
        (["edit", "q", "b", "--payload", "{"], 2, "--payload is not JSON"),
        (["edit", "q", "b", "--priority", "x"], 2, "Invalid value for '--priority'"),
        (["edit", "q", "b", "--priority", "99999999999"], 2, "priority is 99999999999"),
        (["edit", "q", "b", "--at", "soon"], 2, "at is 'soon'"),
        (["edit", "q", "b", "--delay", "soon"], 2, "delay is 'soon'"),
        (["edit", "q", "b", "--at", "5", "--delay", "5"], 2, "give at or delay, not both"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_are_one_line_and_a_code(
    hr: headrace.Headrace, cli: Cli, args: list[str], code: int, message: str
) -> None:
    before = [hr.queue("q").item(id) for id in (1, 2, 3, 4)]
    answer = cli("item", *args)
    assert (answer.code, answer.out) == (code, "")
    assert message in answer.err
    assert answer.err.startswith("headrace: ")
    assert answer.err.count("\n") == 1
    assert [hr.queue("q").item(id) for id in (1, 2, 3, 4)] == before
    assert [info.name for info in hr.queues.list()] == ["q"]
