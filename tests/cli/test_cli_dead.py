"""``headrace dead``."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from run_cli import Cli, on_terminal

import headrace
from headrace.drivers.sql_common.queues.dead_letters import QueueDeadLetters
from headrace.errors import StoreUnavailable
from headrace.testing.clocks import FakeClock


@pytest.fixture
def hr(sqlite_url: str) -> Iterator[headrace.Headrace]:
    """Six dead items in queue ``q``, one a second from 2018-02-18T10:58:00.106Z on.

    1 (s1) to 3 were killed by timeouts, 4 and 5 rejected for good, 6 lost its worker.
    """
    clock = FakeClock()
    with headrace.connect(sqlite_url, clock=clock) as client:
        queue = client.queues.create("q", discipline="fifo", max_attempts=1, exist_ok=True)
        client.push("q", {"n": 1}, subject="s1")
        client.push_many("q", [{"n": n} for n in range(2, 7)])
        for item in queue.claim(5, lease=60):
            if item.id <= 3:
                item.kill(f"timeout after {item.id} s")
            else:
                item.reject("no such user")
            clock.advance(1)
        queue.claim(1, lease=1)
        clock.advance(2)
        assert queue.claim() == []
        assert queue.dead.count() == 6
        yield client


def ids(answer: Any) -> list[int]:
    assert answer.code == 0, answer
    return [row["id"] for row in answer.json_lines]


def dead(hr: headrace.Headrace, queue: str = "q") -> list[int]:
    return [item.id for item in hr.queue(queue).dead.list()]


def test_dead_letters_on_every_engine(each: Cli, durable_url: str) -> None:
    with headrace.connect(durable_url) as hr:
        hr.push_many("q", [{"n": n} for n in range(6)])
        for item in hr.queue("q").claim(6):
            item.kill("oops")
        [group] = each("dead", "groups", "q", "--json").json
        assert (group["count"], group["title"]) == (6, "Rejected: oops")
        which = ("--fingerprint", group["fingerprint"], "--limit", "2", "--yes", "--json")
        assert each("dead", "redrive", "q", *which).json["done"] == 2
        assert each("dead", "move", "q", "other", *which).json["done"] == 2
        assert each("dead", "purge", "q", "--cause", "killed", "--yes", "--json").json["done"] == 2
        assert [(stats.queue, stats.pending) for stats in hr.queues.stats()] == [
            ("other", 2),
            ("q", 2),
        ]


def test_ls_lists_dead_items(hr: headrace.Headrace, cli: Cli) -> None:
    answer = cli("dead", "ls", "q")
    assert (answer.code, answer.err) == (0, "")
    titles, first, *others = answer.out.splitlines()
    assert titles.split() == [
        *("ID", "SUBJECT", "DIED", "CAUSE", "ATTEMPTS", "FINGERPRINT", "ERROR", "PAYLOAD"),
    ]
    assert len(others) == 5
    assert first.split()[:5] == ["1", "s1", "2018-02-18T10:58:00.106Z", "killed", "1"]
    assert "Rejected: timeout after 1 s " in first
    assert first.endswith(' {"n":1}')


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], [1, 2, 3, 4, 5, 6]),
        (["-n", "2"], [1, 2]),
        (["--cause", "rejected"], [4, 5]),
        (["--cause", "worker lost"], [6]),
        (["--subject", "s1"], [1]),
        (["--id", "2", "--id", "5", "--id", "99"], [2, 5]),
        (["--before", "2018-02-18T10:58:01Z"], [1]),
        (["--after", "2018-02-18T10:58:03Z"], [4, 5, 6]),
        (["--after", "1518951481106", "--cause", "killed"], [3]),
        (["--fingerprint", "nope"], []),
    ],
    ids=lambda value: " ".join(map(str, value)),
)
def test_dead_items_are_filtered(
    hr: headrace.Headrace, cli: Cli, options: list[str], expected: list[int]
) -> None:
    assert ids(cli("dead", "ls", "q", *options, "--json")) == expected
    if "-n" not in options:
        found = cli("dead", "purge", "q", *options, "--dry-run", "--json").json
        assert (found["matching"], found["done"]) == (len(expected), 0)


def test_ls_continues_after_a_page(
    hr: headrace.Headrace, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.cli.pages.PAGE_SIZE", 2)
    assert len(ids(cli("dead", "ls", "q", "--json"))) == 6
    assert len(ids(cli("dead", "ls", "q", "-n", "3", "--json"))) == 3


def test_groups(hr: headrace.Headrace, cli: Cli) -> None:
    titles, first, *_ = cli("dead", "groups", "q").out.splitlines()
    assert titles.split() == [
        *("FINGERPRINT", "COUNT", "CAUSE", "FIRST", "LAST", "EXAMPLE", "ERROR"),
    ]
    assert first.split()[1:6] == [
        *("3", "killed", "2018-02-18T10:58:00.106Z", "2018-02-18T10:58:02.106Z", "3"),
    ]
    assert first.endswith("Rejected: timeout after … s")
    found = cli("dead", "groups", "q", "--json").json
    assert [group["count"] for group in found] == [3, 2, 1]
    print = found[0]["fingerprint"]
    assert ids(cli("dead", "ls", "q", "--fingerprint", print, "--json")) == [1, 2, 3]


def test_show(hr: headrace.Headrace, cli: Cli) -> None:
    found = cli("dead", "show", "q", "s1", "--json").json
    assert (found["id"], found["cause"], found["state"]) == (1, "killed", "dead")
    assert found["ended_at"] == "2018-02-18T10:58:00.106000Z"
    assert "Rejected: no such user" in cli("dead", "show", "q", "5").out


def test_an_empty_list_is_reported_on_stderr(hr: headrace.Headrace, cli: Cli) -> None:
    hr.queues.create("empty")
    assert cli("dead", "ls", "empty") == (0, "", "queue 'empty' has no dead items\n")
    assert cli("dead", "groups", "empty") == (0, "", "queue 'empty' has no dead items\n")
    assert cli("dead", "ls", "q", "--id", "99").err == "queue 'q' has no matching dead items\n"
    answer = cli("dead", "redrive", "empty")
    assert answer == (0, "", "queue 'empty' has no dead items: there is nothing to do\n")
    answer = cli("dead", "purge", "q", "--subject", "x", "--json")
    assert answer.err == "queue 'q' has no matching dead items: there is nothing to do\n"
    assert answer.json == {
        "queue": "q",
        "action": "purge",
        "matching": 0,
        "done": 0,
        "is_dry_run": False,
    }


@pytest.mark.parametrize(
    ("args", "forecast"),
    [
        (["redrive", "q"], "all 6 dead items of queue 'q' will run again"),
        (["redrive", "q", "-n", "2"], "2 of the 6 dead items of queue 'q' will run again"),
        (
            ["redrive", "q", "--cause", "killed", "--rate", "1.5"],
            "3 matching dead items of queue 'q' will run again, 1.5 a second: 2 s",
        ),
        (
            ["purge", "q", "--cause", "killed", "--limit", "2"],
            "2 of the 3 matching dead items of queue 'q' will be removed permanently",
        ),
        (["purge", "q", "--id", "1"], "1 matching dead item of queue 'q' will be removed"),
        (
            ["move", "q", "new"],
            "all 6 dead items of queue 'q' will move to queue 'new', which will be created",
        ),
        (["move", "q", "old"], "all 6 dead items of queue 'q' will move to queue 'old'\n"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_dry_run_only_counts(
    hr: headrace.Headrace, cli: Cli, args: list[str], forecast: str
) -> None:
    """Nothing is done in a dry run, nor without a terminal to confirm."""
    hr.queues.create("old")
    dry = cli("dead", *args, "--dry-run")
    assert (dry.code, dry.out) == (0, "")
    assert dry.err.startswith(forecast)
    assert dry.err.endswith("this is a dry run: nothing was done\n")
    unasked = cli("dead", *args)
    assert (unasked.code, unasked.out) == (2, "")
    assert unasked.err.startswith(forecast)
    assert unasked.err.endswith("use --yes to go on without a question.\n")
    assert dead(hr) == [1, 2, 3, 4, 5, 6]
    assert [info.name for info in hr.queues.list()] == ["old", "q"]


@pytest.mark.usefixtures("person")
@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("n\n", 1), ("", 1)])
@pytest.mark.parametrize("args", [["redrive", "q"], ["purge", "q"], ["move", "q", "to"]])
def test_a_person_is_asked(
    hr: headrace.Headrace, cli: Cli, args: list[str], typed: str, code: int
) -> None:
    answer = cli("dead", *args, input=typed)
    assert answer.code == code
    assert "Go on? [y/N]" in answer.err
    assert len(dead(hr)) == (6 if code else 0)


def test_redrive(hr: headrace.Headrace, cli: Cli) -> None:
    answer = cli("dead", "redrive", "q", "--cause", "killed", "--yes")
    assert (answer.code, answer.out) == (0, "redriven: 3 dead items of queue 'q'\n")
    assert dead(hr) == [4, 5, 6]
    assert hr.queue("q").stats().pending == 3
    found = cli("dead", "redrive", "q", "--id", "5", "--rate", "1000", "--yes", "--json").json
    assert found == {
        "queue": "q",
        "action": "redrive",
        "matching": 1,
        "done": 1,
        "is_dry_run": False,
    }


def test_an_item_whose_subject_is_in_use_stays(hr: headrace.Headrace, cli: Cli) -> None:
    hr.push("q", {"n": 7}, subject="s1")
    answer = cli("dead", "redrive", "q", "--yes")
    assert answer.out == "redriven: 5 dead items of queue 'q'\n"
    assert "1 item stayed: a live item has the subject" in answer.err
    assert dead(hr) == [1]


def test_move(hr: headrace.Headrace, cli: Cli) -> None:
    answer = cli("dead", "move", "q", "to", "-n", "4", "--yes")
    assert (answer.code, answer.out) == (0, "moved to queue 'to': 4 dead items of queue 'q'\n")
    assert dead(hr) == [5, 6]
    assert [item.payload["n"] for item in hr.queue("to").items()] == [1, 2, 3, 4]


def test_purge(hr: headrace.Headrace, cli: Cli) -> None:
    answer = cli("dead", "purge", "q", "--after", "2018-02-18T10:58:02Z", "-y")
    assert (answer.code, answer.out) == (0, "removed: 4 dead items of queue 'q'\n")
    assert dead(hr) == [1, 2]


def test_an_interrupted_command_reports_its_progress(
    hr: headrace.Headrace, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.client.workflows.redrive.STEP", 2)
    original = QueueDeadLetters.purge_dead
    left = iter([True, True, False])

    def fail(self: Any, *args: Any) -> Any:
        if not next(left):
            raise StoreUnavailable("the store is away: wait.")
        return original(self, *args)

    monkeypatch.setattr(QueueDeadLetters, "purge_dead", fail)
    answer = cli("dead", "purge", "q", "--yes")
    assert (answer.code, answer.out) == (4, "")
    assert "removed: 4 dead items of queue 'q', before this\n" in answer.err
    assert dead(hr) == [5, 6]


def test_a_progress_bar_needs_a_terminal(hr: headrace.Headrace, sqlite_url: str) -> None:
    """Even if the result goes to the screen: nothing else is printed meanwhile."""
    args = ("-u", sqlite_url, "dead", "redrive", "q", "--yes", "--rate", "20")
    code, _, screen = on_terminal(*args, is_data_shown=True)
    assert code == 0
    assert re.search(r"[1-6] items, \d+/s", screen)
    assert "redriven: 6 dead items of queue 'q'" in screen


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["ls", "nope"], 3, "there is no queue 'nope'"),
        (["groups", "nope"], 3, "there is no queue 'nope'"),
        (["show", "nope", "1"], 3, "there is no queue 'nope'"),
        (["redrive", "nope", "--yes"], 3, "there is no queue 'nope'"),
        (["purge", "nope", "--yes"], 3, "there is no queue 'nope'"),
        (["move", "nope", "to", "--yes"], 3, "there is no queue 'nope'"),
        (["ls", "no/good"], 2, "cannot name a queue"),
        (["move", "q", "no/good", "--yes"], 2, "cannot name a queue"),
        (["move", "q", "q", "--yes"], 2, "the items are in queue 'q' already: use redrive"),
        (["move", "q", "--yes"], 2, "Missing argument 'TO'"),
        (["show", "q", "99"], 3, "queue 'q' has no item 99"),
        (["show", "q", "7"], 3, "item 7 of queue 'q' is pending, not dead"),
        (["ls", "q", "-n", "-5"], 2, "Invalid value for '--limit' / '-n'"),
        (["redrive", "q", "--limit", "-5", "--yes"], 2, "Invalid value for '--limit' / '-n'"),
        (["purge", "q", "--limit", "0", "--yes"], 2, "Invalid value for '--limit' / '-n'"),
        (["redrive", "q", "--rate", "0", "--yes"], 2, "rate is 0: use items per second above zero"),
        (["redrive", "q", "--rate", "-1", "--yes"], 2, "rate is -1"),
        (["redrive", "q", "--rate", "nan", "--yes"], 2, "rate is nan"),
        (["redrive", "q", "--rate", "x", "--yes"], 2, "Invalid value for '--rate'"),
        (["purge", "q", "--rate", "5", "--yes"], 2, "No such option"),
        (["purge", "q", "--cause", "x", "--yes"], 2, "cause is 'x': use rejected, killed, worker"),
        (["purge", "q", "--id", "x", "--yes"], 2, "Invalid value for '--id'"),
        (["purge", "q", "--id", "9" * 30, "--yes"], 2, "Invalid value for '--id'"),
        (["purge", "q", "--subject", "", "--yes"], 2, "'' cannot be a subject"),
        (["purge", "q", "--before", "soon", "--yes"], 2, "before is 'soon': write a time like"),
        (["purge", "q", "--after", "2018-02-18", "--yes"], 2, "has no time zone"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_are_one_line_and_a_code(
    hr: headrace.Headrace, cli: Cli, args: list[str], code: int, message: str
) -> None:
    """Nothing is done."""
    hr.push("q", {"n": 7})
    answer = cli("dead", *args)
    assert (answer.code, answer.out) == (code, "")
    assert message in answer.err
    assert answer.err.startswith("headrace: ")
    assert answer.err.count("\n") == 1
    assert dead(hr) == [1, 2, 3, 4, 5, 6]
    assert [info.name for info in hr.queues.list()] == ["q"]
