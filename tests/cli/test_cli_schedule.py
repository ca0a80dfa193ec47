"""``headrace schedule``."""

import json
import signal
import subprocess
import sys
import time

from run_cli import Cli

import headrace


def add(cli: Cli, name: str, *options: str) -> None:
    answer = cli("schedule", "add", name, *options)
    assert answer.code == 0, answer.err


def test_a_schedule_is_added_paused_and_removed(each: Cli) -> None:
    """The coming times are on stdout, as the clocks of the zone show them and in UTC."""
    nightly = ("--cron", "30 2 * * *", "--zone", "Europe/Berlin", "--push", "jobs")
    answer = each("schedule", "add", "nightly", '{"n": 1}', *nightly)
    title, *rows = answer.out.splitlines()
    assert title.split() == ["LOCAL", "UTC"]
    assert len(rows) == 3
    assert all(" 02:30:00 CE" in row and row.endswith("30:00.000Z") for row in rows)
    assert each("schedule", "add", "nightly", '{"n": 1}', *nightly).code == 0
    refused = each("schedule", "add", "nightly", "--every", "10m", "--push", "jobs")
    assert refused.code != 0
    assert "--replace" in refused.err
    [listed] = each("schedule", "ls", "--json").json_lines
    assert (listed["name"], listed["state"], listed["cron"]) == ("nightly", "active", "30 2 * * *")
    assert each("schedule", "pause", "nightly").err == "schedule 'nightly' is paused\n"
    assert each("schedule", "next", "nightly").err == "it is not due again, or paused\n"
    assert each("schedule", "resume", "nightly", "--json").json["state"] == "active"
    shown = each("schedule", "show", "nightly").out
    assert [word in shown for word in ("push to queue jobs", "Europe/Berlin", "02:30:00")] == [
        True
    ] * 3
    assert each("schedule", "rm", "nightly").code == 2, "it asks first"
    assert each("schedule", "rm", "nightly", "--yes").err.endswith("removed schedule 'nightly'\n")
    assert each("schedule", "ls").err == "there are no schedules\n"


def test_triggering_obeys_overlaps(cli: Cli, sqlite_url: str) -> None:
    add(cli, "s", '"hello"', "--every", "1h", "--push", "jobs", "--subject", "mine")
    assert cli("schedule", "trigger", "s").err == "fired 's': item 1\n"
    assert cli("schedule", "trigger", "s").err.startswith("skipped: item 1 ")
    with headrace.connect(sqlite_url) as hr:
        [item] = hr.queue("jobs").items()
        assert (item.payload, item.subject) == ("hello", "mine")


def test_every_action_can_be_added(cli: Cli) -> None:
    options = ("--every", "1h", "--spread", "5m", "--misfire", "all", "--max-fires", "3")
    actions = {
        "push to queue q": ("--push", "q", "--overlap", "allow"),
        "upsert to queue q": ("--upsert", "q"),
        "commit to topic t": ("--commit", "t", "--header", "a=b"),
        "pause queue q": ("--pause", "q"),
        "resume queue q": ("--resume", "q"),
    }
    for number, (action, given) in enumerate(actions.items()):
        made = cli("schedule", "add", f"s{number}", *options, *given, "--json").json
        assert (made["action"], made["every"], made["max_fires"]) == (action, 3600.0, 3)


def test_a_single_moment_and_bounds(cli: Cli) -> None:
    at = cli("schedule", "add", "a", "--at", "2099-11-01T10:00Z", "--push", "q")
    assert "2099-11-01T10:00:00.000Z" in at.out
    bounds = ("--starts-at", "2099-01-01T00:00Z", "--ends-at", "2099-01-01T00:30Z")
    bounded = cli("schedule", "add", "b", "--every", "10m", *bounds, "--push", "q")
    assert [line.split()[-1] for line in bounded.out.splitlines()[1:]] == [
        "2099-01-01T00:00:00.000Z",
        "2099-01-01T00:10:00.000Z",
        "2099-01-01T00:20:00.000Z",
    ]


def test_what_surprises_is_noted(cli: Cli) -> None:
    answer = cli("schedule", "add", "s", "--cron", "0 0 1-7 * MON", "--push", "q")
    assert (answer.code, "MON#1" in answer.err) == (0, True)


def test_the_coming_times_of_an_expression_are_shown(cli: Cli) -> None:
    add(cli, "s", "--every", "1h", "--push", "q")
    shown = cli("schedule", "next", "--cron", "@daily", "--zone", "America/New_York", "-n", "2")
    assert [" 00:00:00 E" in row for row in shown.out.splitlines()[1:]] == [True, True]
    [line] = cli("schedule", "next", "--at", "2099-11-01T10:00Z", "--json").json_lines
    assert line == {"local": "2099-11-01T10:00:00Z", "utc": "2099-11-01T10:00:00Z"}


def test_mistakes_are_explained_in_words_of_the_command_line(cli: Cli) -> None:
    add(cli, "s", "--every", "1h", "--push", "q")
    for step, args in (
        ("headrace schedule ls", ("show", "nope")),
        ("--every", ("add", "x", "--cron", "0 0 0 * * *", "--push", "q")),
        ("--cron", ("add", "x", "--push", "q")),
        ("--push", ("add", "x", "{}", "--every", "1h", "--pause", "q")),
        ("Europe/Berlin", ("add", "x", "--cron", "@daily", "--zone", "Berlin", "--push", "q")),
        ("0.1 seconds", ("add", "x", "--every", "0.01", "--push", "q")),
        ("--replace", ("add", "s", "--every", "2h", "--push", "q")),
        ("push", ("add", "x", "--every", "1h")),
    ):
        answer = cli("schedule", *args)
        assert answer.code != 0
        assert step in answer.err, answer.err
        assert "Traceback" not in answer.err
    assert len(cli("schedule", "ls", "--json").json_lines) == 1


def test_schedules_are_fired_until_a_signal(sqlite_url: str) -> None:
    """By a process that does nothing else, woken by those that add schedules."""
    with headrace.connect(sqlite_url) as hr:
        hr.queues.create("q")
        command = [sys.executable, "-m", "headrace", "--url", sqlite_url, "schedule", "run"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            assert process.stderr.readline() == "firing schedules\n"
            hr.schedules.add(
                "s", at=int(time.time() * 1000) + 100, push=headrace.Push("q", {"n": 1})
            )
            [item] = hr.queue("q").claim(wait=20)
            assert (item.payload, item.subject) == ({"n": 1}, "s")
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
            assert process.stderr.read() == "stopped: 1 firing\n"


def test_json_is_complete(cli: Cli) -> None:
    add(cli, "s", "--every", "1h", "--push", "q")
    shown = cli("schedule", "show", "s", "--json").json
    assert set(shown) == set(headrace.types.ScheduleInfo.__struct_fields__)
    assert json.dumps(shown["skipped"]) == '{"misfire": 0, "overlap": 0, "paused": 0, "failed": 0}'
