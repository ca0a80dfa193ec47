"""``headrace lock``."""

from collections.abc import Iterator

import pytest
from calling import Cli

import headrace
from headrace.errors import LockLost


@pytest.fixture
def hr(sqlite_url: str) -> Iterator[headrace.Headrace]:
    with headrace.connect(sqlite_url) as client:
        yield client


def test_locks_are_listed(cli: Cli, hr: headrace.Headrace) -> None:
    assert cli("lock", "ls").err == "nobody has a lock\n"
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
    assert found["key_values"]["n"] == {"Type": 10, "Data": "3"}
    assert shop.session not in answer.out


def test_a_lock_is_taken_away(cli: Cli, hr: headrace.Headrace) -> None:
    """Not without a word of agreement, nor by another number."""
    lock = hr.lock({"site": "shop"}, heartbeat=False).acquire()
    assert cli("lock", "release", "site=shop").code == 2
    assert cli("lock", "release", "site=shop", "--yes", "--token", "99").code == 3
    lock.extend()
    answer = cli("lock", "release", "site=shop", "--yes", "--token", str(lock.token), "--json")
    assert (answer.code, answer.json["token"]) == (0, lock.token)
    assert "took the lock site=shop away" in answer.err
    with pytest.raises(LockLost):
        lock.extend()
    assert cli("lock", "release", "site=shop", "--yes").code == 3


@pytest.mark.parametrize("pairs", [["site"], ["_site=1"], []])
def test_wrong_key_values_are_a_usage_error(cli: Cli, hr: headrace.Headrace, pairs: list) -> None:
    assert hr
    assert cli("lock", "release", *pairs, "--yes").code == 2
