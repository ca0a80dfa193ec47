"""``headrace proc``."""

from collections.abc import Iterator
from typing import Any

import pytest
from run_cli import Cli

import headrace
from headrace.errors import UnknownProc
from headrace.testing.clocks import FakeClock


@pytest.fixture
def hr(direct_url: str) -> Iterator[headrace.Headrace]:
    """Ten records in topic ``t``, one a second from 2018-02-18T10:58:00.106Z on, and proc ``p``
    that has acked three."""
    clock = FakeClock()
    with headrace.connect(direct_url, clock=clock) as client:
        for n in range(10):
            client.commit("t", {"n": n})
            clock.advance(1)
        claim = client.procs.create("p", "t").claim(3)
        assert claim is not None
        claim.ack()
        yield client


def test_ls_lists_procs(hr: headrace.Headrace, each: Cli) -> None:
    hr.procs.create("q", "u", offset="2000000000000")
    hr.proc("p").claim(2)
    answer = each("proc", "ls")
    assert (answer.code, answer.err) == (0, "")
    titles, first, second = (line.split() for line in answer.out.splitlines())
    assert titles == ["PROC", "TOPIC", "STATUS", "POSITION", "CLAIMED", "ATTEMPTS", "LAST", "ACK"]
    assert first[:6] == ["p", "t", "active", ":3", "1518951483106-3..1518951484106-4", "0"]
    assert second[:5] == ["q", "u", "active", "after", "2000000000000"]
    assert [proc["name"] for proc in each("proc", "ls", "--json").json] == ["p", "q"]
    assert [proc["name"] for proc in each("proc", "ls", "--topic", "u", "--json").json] == ["q"]


def test_an_empty_list_is_reported_on_stderr(hr: headrace.Headrace, each: Cli) -> None:
    assert each("proc", "ls", "--topic", "x") == (0, "", "there are no procs on topic 'x'\n")
    assert each("proc", "ls", "--topic", "x", "--json").json == []
    hr.proc("p").delete()
    assert each("proc", "lag") == (0, "", "there are no procs\n")


def test_show_prints_everything(hr: headrace.Headrace, each: Cli) -> None:
    found = each("proc", "show", "p", "--json").json
    assert (found["position"], found["lag"]["records"]) == (3, 7)
    assert found["created_at"] == "2018-02-18T10:58:10.106000Z"
    shown = dict(line.split(maxsplit=1) for line in each("proc", "show", "p").out.splitlines())
    assert shown["position"] == "3"
    assert shown["last_acked_range"] == "1518951480106-0..1518951482106-2"
    assert shown["created_at"] == "2018-02-18T10:58:10.106Z"
    assert shown["claimed"] == "-"
    assert shown["lag"].startswith("7 records, ")


def test_an_error_text_cannot_drive_the_terminal(hr: headrace.Headrace, each: Cli) -> None:
    claim = hr.proc("p").claim()
    assert claim is not None
    claim.nack(error="\x1b[2J\nposition  99")
    lines = each("proc", "show", "p").out.splitlines()
    assert "last_error              \\x1b[2J\\nposition  99" in lines


def test_create_makes_a_proc(each: Cli, durable_url: str) -> None:
    """It also creates the tables if there are none."""
    answer = each(
        *("proc", "create", "inc", "--topic", "t", "--offset", "$>", "--max-attempts", "-1"),
        *("--lease", "2.5", "--on-exhausted", "dead_letter", "--json"),
    )
    assert (answer.code, answer.err.splitlines()[0]) == (0, "created proc 'inc'")
    with headrace.connect(durable_url) as hr:
        info = hr.proc("inc").info()
    assert (info.topic, info.offset, info.max_attempts) == ("t", "$>", -1)
    assert (info.lease, info.on_exhausted) == (2.5, "dead_letter")
    assert answer.json["name"] == "inc"


def test_create_again_changes_settings_but_not_the_position(
    hr: headrace.Headrace, each: Cli
) -> None:
    args = ("proc", "create", "p", "--topic", "t", "--offset", "$>")
    answer = each(*args, "--lease", "never")
    assert (answer.code, answer.err) == (0, "proc 'p' existed already\n")
    info = hr.proc("p").info()
    assert (info.position, info.lease, info.max_attempts) == (3, None, 10)


def test_create_can_start_at_a_time(hr: headrace.Headrace, each: Cli) -> None:
    each("proc", "create", "new", "--topic", "t", "--offset", "2018-02-18T10:58:05Z")
    assert hr.proc("new").info().position == 5


@pytest.mark.parametrize(
    ("offset", "position", "forecast"),
    [
        (">", 0, "moves from :3 to :0: 3 records will be delivered again"),
        ("$>", 10, "moves from :3 to :10: 7 records will be skipped"),
        (":6", 7, "moves from :3 to :7: 4 records will be skipped"),
        (":2", 3, "moves from :3 to :3, its present position"),
        (":9", 10, "moves from :3 to :10: 7 records will be skipped"),
        ("1518951481106-1", 2, "moves from :3 to :2: 1 record will be delivered again"),
        ("1518951481106", 1, "moves from :3 to :1: 2 records will be delivered again"),
        ("2018-02-18T10:58:04.106Z", 4, "moves from :3 to :4: 1 record will be skipped"),
        ("2030-01-01T00:00Z", None, "to 1893456000000, beyond the topic's end"),
    ],
)
def test_seek_forecasts_its_effect(
    hr: headrace.Headrace, each: Cli, offset: str, position: int | None, forecast: str
) -> None:
    """The effect is the forecast one."""
    answer = each("proc", "seek", "p", offset, "--yes", "--json")
    assert answer.code == 0
    assert forecast in answer.err
    assert answer.json["position"] == position
    assert hr.proc("p").info().position == position


def test_seek_from_a_place_beyond_the_end(hr: headrace.Headrace, each: Cli) -> None:
    hr.proc("p").seek("2000000000000")
    answer = each("proc", "seek", "p", ">", "-y")
    assert "moves from after 2000000000000 to :0" in answer.err
    assert hr.proc("p").info().position == 0


def test_seek_on_a_topic_without_records(hr: headrace.Headrace, each: Cli) -> None:
    hr.procs.create("q", "later")
    assert "from :0 to :0, its present position" in each("proc", "seek", "q", "$>", "--yes").err
    assert "beyond the topic's end" in each("proc", "seek", "q", "2030-01-01T00:00Z", "--yes").err


@pytest.mark.usefixtures("person")
@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("n\n", 1), ("\n", 1), ("", 1)])
def test_seek_asks(hr: headrace.Headrace, each: Cli, typed: str, code: int) -> None:
    hr.proc("p").claim()
    answer = each("proc", "seek", "p", ">", input=typed)
    assert answer.code == code
    assert "its claim 1518951483106-3..1518951483106-3 is dropped" in answer.err
    assert "Go on? [y/N]" in answer.err
    assert ("nothing was done" in answer.err) == bool(code)
    info = hr.proc("p").info()
    assert (info.position, info.claimed is None) == ((0, True) if code == 0 else (3, False))


@pytest.mark.usefixtures("person")
@pytest.mark.parametrize(("typed", "is_there"), [("y\n", False), ("n\n", True)])
def test_delete_asks(hr: headrace.Headrace, each: Cli, typed: str, is_there: bool) -> None:
    hr.proc("p").claim(2)
    answer = each("proc", "delete", "p", input=typed)
    assert (
        "proc 'p' on topic 't' will be removed with its position :3 and its claim "
        "1518951483106-3..1518951484106-4; 7 records not acked" in answer.err
    )
    assert [proc.name for proc in hr.procs.list()] == (["p"] if is_there else [])


@pytest.mark.parametrize("args", [["seek", "p", ">"], ["delete", "p"]])
def test_without_a_terminal_yes_is_required(
    hr: headrace.Headrace, each: Cli, args: list[str]
) -> None:
    answer = each("proc", *args)
    assert (answer.code, answer.out) == (2, "")
    assert "nothing was done: stdin is not a terminal; use --yes" in answer.err
    assert hr.proc("p").info().position == 3


def test_delete_with_yes(hr: headrace.Headrace, each: Cli) -> None:
    answer = each("proc", "delete", "p", "--yes", "--json")
    assert (answer.code, answer.json["position"]) == (0, 3)
    assert answer.err.endswith("proc 'p' is removed\n")
    assert hr.procs.list() == []


def test_disable_and_resume(hr: headrace.Headrace, each: Cli) -> None:
    assert each("proc", "disable", "p", "--json").json["status"] == "disabled"
    again = each("proc", "disable", "p")
    assert (again.code, again.err) == (1, "headrace: proc 'p' is disabled already.\n")
    assert each("proc", "resume", "p", "--json").json["status"] == "active"
    assert each("proc", "resume", "p").code == 1


def test_lag_of_all_and_of_one(hr: headrace.Headrace, each: Cli) -> None:
    hr.procs.create("q", "t", offset="$>")
    rows = each("proc", "lag", "--json").json
    assert [(row["name"], row["records"]) for row in rows] == [("p", 7), ("q", 0)]
    one = each("proc", "lag", "p", "--json").json
    assert (one["topic"], one["status"], one["records"]) == ("t", "active", 7)
    assert one["seconds"] > 1_000_000
    titles, first, second = each("proc", "lag").out.splitlines()
    assert titles.split() == ["PROC", "TOPIC", "STATUS", "BEHIND", "SECONDS"]
    assert first.split()[:4] == ["p", "t", "active", "7"]
    assert second.split() == ["q", "t", "active", "0", "0"]


def test_a_proc_deleted_meanwhile_is_left_out(
    hr: headrace.Headrace, each: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(self: Any) -> headrace.types.Lag:
        raise UnknownProc("it has gone")

    monkeypatch.setattr(headrace.Proc, "lag", gone)
    assert each("proc", "lag", "--json").json == []
    assert each("topic", "show", "t", "--json").json["procs"] == []


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["show", "nope"], 3, "there is no proc 'nope'"),
        (["seek", "nope", ">"], 3, "there is no proc 'nope'"),
        (["lag", "nope"], 3, "there is no proc 'nope'"),
        (["delete", "nope", "--yes"], 3, "there is no proc 'nope'"),
        (["disable", "no good"], 2, "cannot name a proc"),
        (["seek", "p", "x"], 2, "'x' is not an offset"),
        (["seek", "p", "2018-02-18"], 2, "has no time zone"),
        (["seek", "p", ":99", "--yes"], 3, "has no record :99"),
        (["create", "p", "--topic", "u"], 1, "proc 'p' reads topic 't', not 'u'"),
        (["create", "q"], 2, "--topic"),
        (["create", "q", "--topic", "t", "--max-attempts", "0"], 2, "max_attempts is 0"),
        (["create", "q", "--topic", "t", "--lease", "x"], 2, "lease is 'x'"),
        (["create", "q", "--topic", "t", "--on-exhausted", "x"], 2, "dead_letter"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_are_one_line_and_a_code(
    hr: headrace.Headrace, each: Cli, args: list[str], code: int, message: str
) -> None:
    answer = each("proc", *args)
    assert (answer.code, answer.out) == (code, "")
    assert message in answer.err
    assert answer.err.splitlines()[-1].startswith("headrace: ")
    assert [proc.name for proc in hr.procs.list()] == ["p"]
