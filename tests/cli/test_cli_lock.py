"""``headrace lock``."""

from collections.abc import Iterator

import pytest
from run_cli import Cli

import headrace
from headrace.errors import LockLost


@pytest.fixture
def hr(sqlite_url: str) -> Iterator[headrace.Headrace]:
    with headrace.connect(sqlite_url) as client:
        yield client


def test_locks_are_listed(cli: Cli, hr: headrace.Headrace) -> None:
    assert cli("lock", "ls").err == "there are no locks\n"
    shop = hr.lock({"site": "shop", "n": 3}).acquire()
    hr.lock({"site": "blog"}).acquire()
    answer = cli("lock", "ls", "--where", "site=shop")
    titles, row = answer.out.splitlines()
    assert titles.split() == ["TOKEN", "HOLDER", "SINCE", "UNTIL", "WAITING", "LOCK"]
    assert row.split()[0] == str(shop.token)
    assert row.endswith("n=3 site=shop")
    assert len(cli("lock", "ls").out.splitlines()) == 3
    [found] = cli("lock", "ls", "--where", "n=3", "--json").json_lines
    assert (found["token"], found["waiting"], found["is_overdue"]) == (shop.token, 0, False)
    assert found["key_values"]["n"] == 3
    assert shop.session not in answer.out


def test_a_lock_is_force_released(cli: Cli, hr: headrace.Headrace) -> None:
    """Only with a confirmation, and only by its own number."""
    lock = hr.lock({"site": "shop"}, heartbeat=False).acquire()
    assert cli("lock", "force-release", "site=shop").code == 2
    assert cli("lock", "force-release", "site=shop", "--yes", "--token", "99").code == 3
    lock.extend()
    answer = cli(
        "lock", "force-release", "site=shop", "--yes", "--token", str(lock.token), "--json"
    )
    assert (answer.code, answer.json["token"]) == (0, lock.token)
    assert "released lock site=shop of" in answer.err
    with pytest.raises(LockLost):
        lock.extend()
    assert cli("lock", "force-release", "site=shop", "--yes").code == 3


@pytest.mark.parametrize("pairs", [["site"], ["_site=1"], []])
def test_wrong_key_values_are_a_usage_error(cli: Cli, hr: headrace.Headrace, pairs: list) -> None:
    assert hr
    assert cli("lock", "force-release", *pairs, "--yes").code == 2
