"""``headrace replay``."""

import json

import pytest
from run_cli import Cli

import headrace


@pytest.fixture(autouse=True)
def topic(sqlite_url: str) -> None:
    with headrace.connect(sqlite_url) as hr:
        hr.commit_many("orders", [{"n": n, "who": f"w{n % 2}"} for n in range(5)])


def test_a_range_is_replayed_once(cli: Cli, sqlite_url: str) -> None:
    """A second call reports that nothing was left."""
    answer = cli("replay", "orders", ":1", ":3", "--to", "mail")
    assert (answer.code, answer.out) == (0, "3 of 3 records moved to queue 'mail'\n")
    again = cli("replay", "orders", ":1", ":3", "--to", "mail")
    assert again.out == "0 of 3 records moved to queue 'mail'\n"
    with headrace.connect(sqlite_url) as hr:
        assert [item.payload["n"] for item in hr.queue("mail").claim(9)] == [1, 2, 3]


def test_json_output_and_subjects(cli: Cli, sqlite_url: str) -> None:
    """Another name makes it another replay."""
    answer = cli(
        *("replay", "orders", "--to", "mail", "--subject", "who", "--name", "monday", "--json")
    )
    assert json.loads(answer.out) == {"name": "replay-monday-0-4", "moved": 5, "total": 5}
    with headrace.connect(sqlite_url) as hr:
        assert [item.subject for item in hr.queue("mail").claim(9)] == ["w0", "w1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing", "--to", "mail"], "topic 'nothing' has no records"),
        (["orders", "--to", "no/good"], "'no/good' cannot name a queue"),
        (["orders", "--to", "mail", "--rate", "0"], "rate is 0.0"),
        (["orders", ":x", "--to", "mail"], ":x"),
        (["orders"], "--to"),
    ],
)
def test_a_mistake_is_one_line(cli: Cli, arguments: list[str], message: str) -> None:
    answer = cli("replay", *arguments)
    assert answer.code != 0
    assert message in answer.err
    assert "Traceback" not in answer.err
