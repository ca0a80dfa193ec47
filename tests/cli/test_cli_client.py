"""``headrace client``."""

from collections.abc import Iterator

import pytest
from calling import Cli

import headrace
from headrace.contract.items import ClientRow, WorkerRow
from headrace.testing.clocks import FakeClock


@pytest.fixture
def hr(durable_url: str) -> Iterator[headrace.Headrace]:
    """Two clients, one with two workers, at 2018-02-18T10:58:00.106Z."""
    with headrace.connect(durable_url, clock=FakeClock()) as client:
        store = client._store
        client.queue("mail")
        client.queue("idle")
        app = ClientRow(id="c1", name="app", host="box", pid=7)
        rows = [
            WorkerRow(id="w1", client="c1", queue="mail", busy=1, done=5, rate=2.5),
            WorkerRow(id="w2", client="c1", queue="post", current="paused", error="\x1b[2J"),
        ]
        store.run(store.beat(app, rows))
        other = ClientRow(id="c2", name="other", host="bax", pid=8)
        store.run(store.beat(other, [WorkerRow(id="w3", client="c2", queue="mail")]))
        yield client


def test_ls_lists_clients(hr: headrace.Headrace, each: Cli) -> None:
    answer = each("client", "ls")
    assert (answer.code, answer.err) == (0, "")
    titles, first, second = (line.split() for line in answer.out.splitlines())
    assert titles == ["CLIENT", "ID", "HOST", "PID", "WORKERS", "STARTED", "SEEN"]
    assert first[:5] == ["app", "c1", "box", "7", "2"]
    assert first[5:] == ["2018-02-18T10:58:00.106Z"] * 2
    assert second[:5] == ["other", "c2", "bax", "8", "1"]
    found = each("client", "ls", "--json").json
    assert [(one["name"], one["pid"], one["workers"]) for one in found] == [
        ("app", 7, 2),
        ("other", 8, 1),
    ]


def test_workers_of_all_queues_and_of_one(hr: headrace.Headrace, each: Cli) -> None:
    titles, *rows = (line.split() for line in each("client", "workers").out.splitlines())
    assert titles[:6] == ["WORKER", "QUEUE", "CLIENT", "HOST", "PID", "STATE"]
    assert sorted(row[0] for row in rows) == ["w1", "w2", "w3"]
    found = each("client", "workers", "mail", "--json").json
    assert sorted(one["id"] for one in found) == ["w1", "w3"]
    assert {one["queue"] for one in found} == {"mail"}


def test_a_state_that_shall_change_says_so(hr: headrace.Headrace, each: Cli) -> None:
    lines = each("client", "workers", "post").out.splitlines()
    assert "paused, shall be running" in lines[1]
    assert lines[1].endswith("\\x1b[2J")


def test_nobody_there_is_said_on_stderr(hr: headrace.Headrace, each: Cli) -> None:
    assert each("client", "workers", "idle") == (0, "", "there are no workers of queue 'idle'\n")
    assert each("client", "workers", "idle", "--json").json == []
    for client in ("c1", "c2"):
        hr._store.run(hr._store.leave(client))
    assert each("client", "ls") == (0, "", "there are no clients with workers\n")
    assert each("client", "ls", "--json").json == []


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["workers", "nope"], 3, "there is no queue 'nope'"),
        (["workers", "no good"], 2, "cannot name a queue"),
        (["ls", "x"], 2, "unexpected extra argument"),
    ],
)
def test_mistakes_are_one_line_and_a_code(
    hr: headrace.Headrace, each: Cli, args: list[str], code: int, message: str
) -> None:
    answer = each("client", *args)
    assert (answer.code, answer.out) == (code, "")
    assert message in answer.err
    assert answer.err.startswith("headrace: ")
