"""``headrace queue``."""

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from run_cli import Cli

import headrace
from headrace.contract.items import ClientInfo, WorkerRow
from headrace.testing.clocks import FakeClock


@pytest.fixture
def hr(sqlite_url: str) -> Iterator[headrace.Headrace]:
    """Queue ``mail`` with two items, and one planned."""
    with headrace.connect(sqlite_url) as client:
        client.push("mail", {"to": "ann"}, subject="ann")
        client.push("mail", {"to": "bob"})
        client.push("mail", {"to": "cem"}, delay="1h")
        yield client


@contextmanager
def worker(hr: headrace.Headrace, queue: str = "mail", *, obeys: bool) -> Iterator[None]:
    """A worker that sends heartbeats. An obedient one stops when asked to."""
    store = hr._store
    client = ClientInfo(id="c1", name="app", host="box", pid=7)
    row = WorkerRow(id="w1", client="c1", queue=queue, rate=2.0)
    store.run(store.queues.heartbeat(client, [row]))
    ended = threading.Event()

    def beats() -> None:
        current = "running"
        while not ended.wait(0.01):
            its = WorkerRow(id="w1", client="c1", queue=queue, current=current)
            current = store.run(store.queues.heartbeat(client, [its])).desired["w1"]

    thread = threading.Thread(target=beats)
    if obeys:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        if obeys:
            thread.join()


def fields(text: str) -> dict[str, str]:
    """Names and values of a vertical list."""
    return dict(line.split("  ", 1) for line in text.splitlines() if "  " in line)


def test_a_queue_from_create_to_drop(each: Cli, durable_url: str) -> None:
    """On every driver. It also creates the tables if there are none."""
    made = each("queue", "create", "mail", "--set", "max_attempts=2", "--json")
    assert (made.code, made.err) == (0, "created queue 'mail'\n")
    assert made.json["settings"]["max_attempts"] == 2
    assert each("push", "mail", '{"n": 1}').code == 0
    assert each("queue", "set", "mail", "keep=2 days").code == 0
    assert each("queue", "pause", "mail").code == 0
    shown = each("queue", "show", "mail", "--json").json
    assert (shown["version"], shown["settings"]["keep"]) == (2, 172800)
    assert (shown["is_paused"], shown["stats"]["pending"]) == (True, 1)
    assert each("queue", "resume", "mail").code == 0
    with headrace.connect(durable_url) as hr:
        [item] = hr.queue("mail").claim()
        item.reject("no\nuse")
    [error] = each("queue", "errors", "mail", "--json").json_lines
    assert (error["item"], error["failure"]["message"]) == (item.id, "no\nuse")
    assert each("queue", "stats", "mail", "--store", "--json").json["planned"] == 1
    assert each("queue", "drop", "mail", "--yes", "--json").json["live"] == 1
    assert each("queue", "ls", "--json").json == []


def test_ls_lists_queues(hr: headrace.Headrace, cli: Cli) -> None:
    hr.queues.create("post").pause(by="ann")
    answer = cli("queue", "ls")
    assert (answer.code, answer.err) == (0, "")
    titles, mail, post = (line.split() for line in answer.out.splitlines())
    assert titles[:5] == ["QUEUE", "PENDING", "PLANNED", "ACTIVE", "DEAD"]
    assert mail[:5] == ["mail", "2", "1", "0", "0"]
    assert mail[6:] == ["s", "no"]
    assert post == ["post", "0", "0", "0", "0", "-", "by", "ann"]
    [found] = cli("queue", "ls", "--prefix", "m", "--json").json
    assert (found["name"], found["version"], found["stats"]["pending"]) == ("mail", 1, 2)


def test_ls_continues_after_a_page(
    hr: headrace.Headrace, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(6):
        hr.queues.create(f"q{n}")
    monkeypatch.setattr("headrace.cli.pages.PAGE_SIZE", 3)
    assert len(cli("queue", "ls", "--json").json) == 7


def test_an_empty_list_is_reported_on_stderr(hr: headrace.Headrace, cli: Cli) -> None:
    assert cli("queue", "ls", "--prefix", "x") == (
        *(0, ""),
        "there are no queues that begin with 'x'\n",
    )
    assert cli("queue", "ls", "--prefix", "x", "--json").json == []
    assert cli("queue", "errors", "mail").err == "queue 'mail' has no logged errors\n"
    said = cli("queue", "errors", "mail", "--item", "1").err
    assert said == "queue 'mail' has no logged errors of item 1\n"
    hr.queue("mail").drop()
    assert cli("queue", "stats") == (0, "", "there are no queues\n")


def test_show_prints_everything(hr: headrace.Headrace, cli: Cli) -> None:
    hr.queue("mail").pause(by="ann")
    with worker(hr, obeys=False):
        answer = cli("queue", "show", "mail")
        found = cli("queue", "show", "mail", "--json").json
    shown = fields(answer.out)
    assert shown["queue"].strip() == "mail"
    assert shown["paused"].strip() == "by ann"
    assert shown["backlog"].strip() == "2 pending, 1 planned, 0 active"
    assert shown["oldest due"].endswith(" s")
    assert shown["workers"].strip() == "1 live, 2.0/s"
    assert shown["clears in"].strip() == "1 s"
    assert shown["version"].strip() == "1"
    assert shown["lease"].strip() == "300"
    assert answer.out.splitlines()[-1].split()[:5] == ["w1", "mail", "app", "box", "7"]
    assert (found["paused_by"], found["oldest_due"] >= 0) == ("ann", True)
    assert [one["id"] for one in found["workers"]] == ["w1"]


def test_silent_workers_are_marked(sqlite_url: str, cli: Cli) -> None:
    with headrace.connect(sqlite_url, clock=FakeClock()) as hr:
        hr.queues.create("mail")
        with worker(hr, obeys=False):
            shown = fields(cli("queue", "show", "mail").out)
    assert shown["workers"].strip() == "none; 1 silent"


def test_defaults_apply_to_new_queues(hr: headrace.Headrace, cli: Cli) -> None:
    stored = cli("queue", "set", "--defaults", "discipline=fifo", "errors=off", "--json").json
    assert (stored["discipline"], stored["errors"]) == ("fifo", False)
    assert cli("queue", "show", "--defaults", "--json").json == stored
    assert fields(cli("queue", "show", "--defaults").out)["discipline"].strip() == "fifo"
    assert cli("queue", "create", "new", "--json").json["settings"] == stored
    assert hr.queue("mail").info().settings.discipline == "priority"


@pytest.mark.parametrize(
    ("pair", "option", "value"),
    [
        ("max_attempts=-1", "max_attempts", -1),
        ("lease=90", "lease", 90.0),
        ("lease=1h 30m", "lease", 5400.0),
        ("reject_delay=5s", "reject_delay", 5.0),
        ("keep=all", "keep", "all"),
        ("keep=1d", "keep", 86400.0),
        ("keep_dead=1w", "keep_dead", 604800.0),
        ("dead_to=a,b", "dead_to", ("a", "b")),
        ("keep_superseded=old", "keep_superseded", "old"),
        ("metrics=no", "metrics", False),
        ("metrics=false", "metrics", False),
        ('backoff={"first": 3}', "backoff", headrace.Backoff(first=3.0)),
    ],
)
def test_settings_as_people_write_them(
    hr: headrace.Headrace, cli: Cli, pair: str, option: str, value: object
) -> None:
    """The form in which they are shown sets them again."""
    before = getattr(hr.queue("mail").info().settings, option)
    assert cli("queue", "set", "mail", pair).code == 0
    assert getattr(hr.queue("mail").info().settings, option) == value
    lines = cli("queue", "show", "mail").out.splitlines()
    [shown] = [line.split(maxsplit=1)[1] for line in lines if line.startswith(f"{option} ")]
    hr.queue("mail").update(**{option: before})
    assert cli("queue", "set", "mail", f"{option}={shown}").code == 0
    assert getattr(hr.queue("mail").info().settings, option) == value


@pytest.mark.parametrize(
    ("option", "first", "none"),
    [
        ("reject_delay", "5", "null"),
        ("keep_dead", "5", "forever"),
        ("keep_dead", "5", "null"),
        ("keep_superseded", "old", "null"),
        ("keep_superseded", "old", ""),
    ],
)
def test_a_setting_can_be_reset(
    hr: headrace.Headrace, cli: Cli, option: str, first: str, none: str
) -> None:
    cli("queue", "set", "mail", f"{option}={first}")
    assert getattr(hr.queue("mail").info().settings, option) is not None
    assert cli("queue", "set", "mail", f"{option}={none}").code == 0
    assert getattr(hr.queue("mail").info().settings, option) is None


def test_set_says_what_changed(hr: headrace.Headrace, cli: Cli) -> None:
    answer = cli("queue", "set", "mail", "max_attempts=2", "keep=all")
    assert answer == (
        0,
        "OPTION        BEFORE  NOW\nmax_attempts  5       2\nkeep          none    all\n",
        "the settings of queue 'mail' are at version 2\n",
    )
    again = cli("queue", "set", "mail", "max_attempts=2", "--json")
    assert again.err == "queue 'mail' has these settings already\n"
    assert (again.json["is_changed"], again.json["queue"]["version"]) == (False, 2)


def test_set_names_the_workers_that_stopped(hr: headrace.Headrace, cli: Cli) -> None:
    with worker(hr, obeys=True):
        answer = cli("queue", "set", "mail", "keep=all")
        found = cli("queue", "set", "mail", "keep=none", "--json")
    assert answer.code == 0
    assert answer.out.splitlines()[-1].split() == ["w1", "app", "box", "7", "stopped"]
    assert answer.err.startswith("waiting up to 10 s for 1 worker to stop\n")
    assert "1 worker stopped for it" in answer.err
    assert [one["id"] for one in found.json["stopped"]] == ["w1"]
    assert found.json["unanswered"] == []


def test_set_names_the_workers_that_did_not_answer(hr: headrace.Headrace, cli: Cli) -> None:
    with worker(hr, obeys=False):
        answer = cli("queue", "set", "mail", "keep=all", "--time-limit", "0.05")
    assert answer.code == 0
    assert answer.out.splitlines()[-1].endswith("did not answer")
    assert "0 workers stopped for it" in answer.err
    assert "1 worker did not stop in time" in answer.err
    assert hr.queue("mail").info().settings.keep == "all"


def test_strict_changes_nothing_if_a_worker_does_not_answer(
    hr: headrace.Headrace, cli: Cli
) -> None:
    with worker(hr, obeys=False):
        answer = cli("queue", "set", "mail", "keep=all", "--time-limit", "0", "--strict")
    assert (answer.code, answer.out) == (4, "")
    assert "w1 of client app (box, pid 7)" in answer.err
    assert hr.queue("mail").info().settings.keep == "none"


def test_pause_records_the_user(
    hr: headrace.Headrace, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "ann")
    monkeypatch.setattr("socket.gethostname", lambda: "box")
    assert cli("queue", "pause", "mail") == (0, "queue   mail\npaused  by ann@box\n", "")
    assert hr.queue("mail").claim() == []
    resumed = cli("queue", "resume", "mail", "--json").json
    assert (resumed["name"], resumed["is_paused"]) == ("mail", False)
    assert cli("queue", "pause", "mail", "--by", "a deploy", "--json").json["paused_by"] == (
        "a deploy"
    )
    assert cli("queue", "resume", "mail").out == "queue   mail\npaused  no\n"


def test_pause_works_without_a_user_name(
    hr: headrace.Headrace, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody() -> str:
        raise OSError("no such user")

    monkeypatch.setattr("getpass.getuser", nobody)
    monkeypatch.setattr("socket.gethostname", lambda: "box")
    assert cli("queue", "pause", "mail", "--json").json["paused_by"] == "box"


@pytest.mark.usefixtures("person")
@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("n\n", 1), ("", 1)])
def test_drop_asks(hr: headrace.Headrace, cli: Cli, typed: str, code: int) -> None:
    hr.queue("mail").claim()
    answer = cli("queue", "drop", "mail", input=typed)
    assert (
        "queue 'mail' will be removed; its 3 live items (1 in flight), 0 dead and 0 completed "
        "are removed with it\n" in answer.err
    )
    assert (answer.code, answer.out) == (code, "")
    assert [info.name for info in hr.queues.list()] == (["mail"] if code else [])


def test_drop_names_the_workers(hr: headrace.Headrace, cli: Cli) -> None:
    with worker(hr, obeys=False):
        answer = cli("queue", "drop", "mail")
    assert "; it has 1 worker\n" in answer.err
    assert answer.err.endswith("use --yes to go on without a question.\n")
    assert answer.code == 2


def test_drop_can_keep_the_items(hr: headrace.Headrace, cli: Cli) -> None:
    answer = cli("queue", "drop", "mail", "--keep-data", "--yes", "--json")
    assert answer.json == {"queue": "mail", "live": 3, "is_data_kept": True}
    assert "stay for a later queue of that name" in answer.err
    assert answer.err.endswith("removed queue 'mail'; kept 3 live items\n")
    assert hr.queues.create("mail").stats().total == 3


def test_stats_of_all_and_of_one(hr: headrace.Headrace, cli: Cli) -> None:
    hr.queues.create("post")
    assert [one["queue"] for one in cli("queue", "stats", "--json").json] == ["mail", "post"]
    one = cli("queue", "stats", "mail", "--json").json
    assert (one["pending"], one["planned"], one["is_computed"]) == (2, 1, False)
    assert cli("queue", "stats", "mail", "--exact", "--json").json["is_computed"]
    titles, mail, _ = (line.split() for line in cli("queue", "stats").out.splitlines())
    assert dict(zip(titles, mail, strict=False))["ENTERED"] == "3"
    assert fields(cli("queue", "stats", "mail").out)["entered"].strip() == "3"


def test_errors_are_listed_newest_first(hr: headrace.Headrace, cli: Cli) -> None:
    queue = hr.queue("mail")
    for item, word in zip(queue.claim(2), itertools.count(), strict=False):
        item.reject(f"\x1b[2J{word}\nand more", delay=0)
    titles, first, second = cli("queue", "errors", "mail").out.splitlines()
    assert titles.split() == ["TIME", "ITEM", "SUBJECT", "ATTEMPT", "WORKER", "ERROR"]
    assert first.endswith("Rejected: \\x1b[2J1")
    assert second.endswith("Rejected: \\x1b[2J0")
    assert second.split()[1:4] == ["1", "ann", "1"]
    assert len(cli("queue", "errors", "mail", "-n", "1", "--json").json_lines) == 1
    [only] = cli("queue", "errors", "mail", "--item", "1", "--json").json_lines
    assert (only["item"], only["subject"]) == (1, "ann")


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["show", "nope"], 3, "there is no queue 'nope'"),
        (["pause", "nope"], 3, "there is no queue 'nope'"),
        (["resume", "nope"], 3, "there is no queue 'nope'"),
        (["drop", "nope", "--yes"], 3, "there is no queue 'nope'"),
        (["stats", "nope"], 3, "there is no queue 'nope'"),
        (["errors", "nope"], 3, "there is no queue 'nope'"),
        (["set", "nope", "keep=all"], 3, "there is no queue 'nope'"),
        (["show", "no/good"], 2, "cannot name a queue"),
        (["create", "no/good"], 2, "cannot name a queue"),
        (["create", "mail"], 1, "queue 'mail' exists already"),
        (["create", "new", "--set", "nope=1"], 2, "a queue has no option 'nope': use discipline, "),
        (["create", "new", "--set", "keep"], 2, "'keep' must be option=value"),
        (["set", "mail", "nope=1"], 2, "a queue has no option 'nope': use discipline, "),
        (["set", "mail", "keep=x"], 2, "keep is 'x': use all, none, seconds or a duration like 5m"),
        (["set", "mail", "discipline=x"], 2, "discipline is 'x': use fifo, lifo or priority"),
        (["set", "mail", "max_attempts=x"], 2, "max_attempts is 'x': use a whole number"),
        (["set", "mail", "max_attempts=0"], 2, "max_attempts is 0: use 1 or more, or -1"),
        (["set", "mail", "errors=x"], 2, "errors is 'x': use yes or no"),
        (["set", "mail", "lease=nan"], 2, "lease is nan"),
        (["set", "mail", "lease=5 moons"], 2, "lease is '5 moons': use seconds"),
        (["set", "mail", "keep_dead=x"], 2, "keep_dead is 'x'"),
        (["set", "mail", "backoff=5"], 2, "backoff is '5': use JSON like"),
        (["set", "mail", "backoff={"], 2, "backoff is '{': use JSON like"),
        (["set", "mail", "dead_to=no/good"], 2, "cannot name a queue"),
        (["set", "mail", "=5"], 2, "'=5' must be option=value"),
        (["set", "mail"], 2, "give the NAME of a queue and then OPTION=VALUE, or --defaults"),
        (["set", "keep=all"], 2, "give the NAME of a queue and then OPTION=VALUE"),
        (["set", "mail", "keep=all", "--time-limit", "-1"], 2, "--time-limit"),
        (["set", "--defaults", "keep=all", "--strict"], 2, "no worker stops for --defaults"),
        (["set", "--defaults", "mail", "keep=all"], 2, "'mail' must be option=value"),
        (["show"], 2, "give the NAME of a queue, or --defaults"),
        (["show", "mail", "--defaults"], 2, "give the NAME of a queue, or --defaults"),
        (["errors", "mail", "-n", "-5"], 2, "Invalid value for '--limit' / '-n'"),
        (["errors", "mail", "--item", "x"], 2, "Invalid value for '--item'"),
        (["errors", "mail", "--item", "9" * 30], 2, "Invalid value for '--item'"),
        (["drop", "mail"], 2, "stdin is not a terminal"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_are_one_line_and_a_code(
    hr: headrace.Headrace, cli: Cli, args: list[str], code: int, message: str
) -> None:
    """Nothing is created or changed."""
    before = hr.queues.list()
    answer = cli("queue", *args)
    assert (answer.code, answer.out) == (code, "")
    assert message in answer.err
    assert answer.err.splitlines()[-1].startswith("headrace: ")
    assert hr.queues.list() == before
    assert hr.queues.stats()[0].total == 3
