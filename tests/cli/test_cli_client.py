"""``headrace client``."""

import re
from collections.abc import Iterator

import pytest
from run_cli import Cli

import headrace
from headrace.contract.items import ClientInfo, WorkerRow
from headrace.testing.clocks import FakeClock


@pytest.fixture
def hr(direct_url: str) -> Iterator[headrace.Headrace]:
    """Two clients, one with two workers, at 2018-02-18T10:58:00.106Z."""
    with headrace.connect(direct_url, clock=FakeClock()) as client:
        store = client._store
        client.queues.create("mail")
        client.queues.create("idle")
        app = ClientInfo(id="c1", name="app", host="box", pid=7)
        rows = [
            WorkerRow(id="w1", client="c1", queue="mail", busy=1, done=5, rate=2.5),
            WorkerRow(id="w2", client="c1", queue="post", current="paused", error="\x1b[2J"),
        ]
        store.run(store.queues.heartbeat(app, rows))
        other = ClientInfo(id="c2", name="other", host="bax", pid=8)
        store.run(store.queues.heartbeat(other, [WorkerRow(id="w3", client="c2", queue="mail")]))
        yield client


def test_ls_lists_clients(hr: headrace.Headrace, each: Cli) -> None:
    answer = each("client", "ls")
    assert (answer.code, answer.err) == (0, "")
    titles, first, second = (re.split(" {2,}", line) for line in answer.out.splitlines())
    assert titles == ["CLIENT", "ID", "HOST", "PID", "WORKERS", "STARTED", "SEEN"]
    # The clock of the command is years ahead.
    assert first[:5] == ["app", "c1", "box", "7", "2, all silent"]
    assert first[5:] == ["2018-02-18T10:58:00.106Z"] * 2
    assert second[:5] == ["other", "c2", "bax", "8", "1, all silent"]
    found = each("client", "ls", "--json").json
    assert [(one["name"], one["pid"], one["workers"], one["silent_workers"]) for one in found] == [
        ("app", 7, 2, 2),
        ("other", 8, 1, 1),
    ]


def test_workers_of_all_queues_and_of_one(hr: headrace.Headrace, each: Cli) -> None:
    titles, *rows = (line.split() for line in each("client", "workers").out.splitlines())
    assert titles[:6] == ["WORKER", "QUEUE", "CLIENT", "HOST", "PID", "STATE"]
    assert sorted(row[0] for row in rows) == ["w1", "w2", "w3"]
    found = each("client", "workers", "mail", "--json").json
    assert sorted(one["id"] for one in found) == ["w1", "w3"]
    assert {one["queue"] for one in found} == {"mail"}


def test_a_state_that_will_change_is_marked(durable_url: str, each: Cli) -> None:
    with headrace.connect(durable_url) as client:
        store = client._store
        app = ClientInfo(id="c1", name="app", host="box", pid=7)
        row = WorkerRow(id="w2", client="c1", queue="post", current="paused", error="\x1b[2J")
        store.run(store.queues.heartbeat(app, [row]))
    lines = each("client", "workers", "post").out.splitlines()
    assert "paused, should be running" in lines[1]
    assert lines[1].endswith("\\x1b[2J")


def test_a_worker_without_a_heartbeat_is_silent(
    hr: headrace.Headrace, each: Cli, durable_url: str
) -> None:
    """Its row says running until maintenance removes it: its process cannot say more."""
    with headrace.connect(durable_url) as now:
        store = now._store
        alive = ClientInfo(id="c3", name="new", host="box", pid=9)
        store.run(store.queues.heartbeat(alive, [WorkerRow(id="w4", client="c3", queue="mail")]))
        titles, *rows = each("client", "workers", "mail").out.splitlines()
        assert re.split(" {2,}", each("client", "ls").out.splitlines()[-1])[4] == "1"
    states = {row.split()[0]: row[titles.index("STATE") :].split("  ")[0] for row in rows}
    assert states.pop("w4") == "running"
    assert sorted(states) == ["w1", "w3"]
    assert all(re.fullmatch(r"silent for [\d,]+ s", state) for state in states.values())


def test_an_empty_list_is_reported_on_stderr(hr: headrace.Headrace, each: Cli) -> None:
    assert each("client", "workers", "idle") == (0, "", "there are no workers of queue 'idle'\n")
    assert each("client", "workers", "idle", "--json").json == []
    for client in ("c1", "c2"):
        hr._store.run(hr._store.queues.unregister(client))
    assert each("client", "ls") == (0, "", "there are no clients with workers\n")
    assert each("client", "ls", "--json").json == []


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["workers", "nope"], 3, "there is no queue 'nope'"),
        (["workers", "no/good"], 2, "cannot name a queue"),
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
