"""``headrace counter``."""

from collections.abc import Iterator

import pytest
from run_cli import Cli

import headrace


@pytest.fixture
def hr(sqlite_url: str) -> Iterator[headrace.Headrace]:
    with headrace.connect(sqlite_url) as client:
        yield client


def test_counters_are_listed(
    cli: Cli, hr: headrace.Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them, over several pages."""
    monkeypatch.setattr("headrace.cli.pages.PAGE_SIZE", 1)
    assert cli("counter", "ls").err == "there are no counters\n"
    hr.slots({"api": "maps", "n": 3}, 2).acquire()
    hr.counters.set({"api": "mail"}, 5)
    assert cli("counter", "ls").out.splitlines() == [
        "COUNT  HOLDERS  COUNTER",
        "    5        0  api=mail",
        "    2        1  api=maps n=3",
    ]
    [found] = cli("counter", "ls", "--where", "n=3", "--json").json_lines
    assert (found["count"], found["holders"]) == (2, 1)
    assert found["key_values"]["n"] == 3
    assert cli("counter", "ls", "-w", "api=none").err == "there are no matching counters\n"


def test_a_counter_is_set(cli: Cli, hr: headrace.Headrace) -> None:
    answer = cli("counter", "set", "api=maps", "--count", "2")
    assert (answer.code, answer.err) == (0, "set api=maps to 2; before it was 0\n")
    answer = cli("counter", "set", "api=maps", "--count", "0", "--json")
    assert (answer.json["count"], answer.json["before"]) == (0, 2)
    assert hr.counters.list() == []


@pytest.mark.parametrize(
    "given", [["api", "--count", "1"], ["_api=1", "--count", "1"], ["api=1", "--count", "-1"]]
)
def test_wrong_input_is_a_usage_error(cli: Cli, hr: headrace.Headrace, given: list) -> None:
    answer = cli("counter", "set", *given)
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert hr.counters.list() == []
