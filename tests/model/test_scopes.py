"""Scopes: what they allow, and how wrong ones are refused."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import InvalidOption
from headrace.model.scopes import MAX_STARS, AdminNeed, Need, check_scopes, matches, parse_scopes


@pytest.mark.parametrize(
    ("scope", "need", "is_allowed"),
    [
        ("push:queue/mail", Need("push", "queue", "mail"), True),
        ("push:queue/mail", Need("push", "queue", "mails"), False),
        ("push:queue/mail", Need("work", "queue", "mail"), False),
        ("push:queue/mail", Need("read", "queue", "mail"), False),
        ("push:queue/git commits", Need("push", "queue", "git commits"), True),
        ("work:queue/mail-*", Need("work", "queue", "mail-eu"), True),
        ("work:queue/mail-*", Need("work", "queue", "mail-"), True),
        ("work:queue/mail-*", Need("work", "queue", "mail"), False),
        ("work:queue/mail-*", Need("read", "queue", "mail-eu"), True),
        ("manage:topic/*", Need("read", "topic", "t"), True),
        ("manage:topic/*", Need("commit", "topic", "t"), False),
        ("commit:topic/*", Need("read", "topic", "t"), False),
        ("read:topic/*", Need("read", "queue", "t"), False),
        ("read:*/*", Need("read", "queue", "t"), True),
        ("read:*/*", Need("push", "queue", "t"), False),
        ("read:topic/*", Need("read", "topic", "_audit"), False),
        ("read:*/*", Need("read", "topic", "_audit"), False),
        ("read:topic/_*", Need("read", "topic", "_audit"), True),
        ("read:topic/_audit", Need("read", "topic", "_audit"), True),
        ("read:topic/*", Need("read", "topic", "", reach="prefix"), True),
        ("read:topic/a*", Need("read", "topic", "", reach="prefix"), False),
        ("read:topic/a*", Need("read", "topic", "ab", reach="prefix"), True),
        ("read:topic/a*b*", Need("read", "topic", "ab", reach="prefix"), False),
        ("read:topic/ab", Need("read", "topic", "ab", reach="prefix"), False),
        ("push:queue/a", Need("push", "queue", "", reach="some"), True),
        ("push:queue/a", Need("work", "queue", "", reach="some"), False),
        ("manage:queue/a", Need("work", "queue", "a", instead=("manage",)), True),
        ("push:queue/a", Need("work", "queue", "a", instead=("manage",)), False),
        ("manage:*/*", AdminNeed(), False),
        ("admin", AdminNeed(), True),
        ("admin", Need("read", "topic", "_audit"), True),
    ],
)
def test_what_a_scope_allows(scope: str, need: Need | AdminNeed, is_allowed: bool) -> None:
    missing = parse_scopes([scope]).missing([need])
    assert missing == (None if is_allowed else need)


def test_all_needs_must_be_met() -> None:
    scopes = parse_scopes(["push:queue/a", "commit:topic/t"])
    met = [Need("push", "queue", "a"), Need("commit", "topic", "t")]
    assert scopes.missing(met) is None
    assert scopes.missing([*met, Need("push", "queue", "b")]) == Need("push", "queue", "b")
    assert str(Need("read", "topic", "a", reach="prefix")) == "read:topic/a*"


@given(
    st.text("ab*", max_size=6).filter(lambda text: text.count("*") <= MAX_STARS),
    st.text("ab", max_size=8),
)
def test_patterns_match_as_regular_expressions_do(pattern: str, name: str) -> None:
    expression = ".*".join(re.escape(part) for part in pattern.split("*"))
    assert matches(pattern, name) == (re.fullmatch(expression, name) is not None)


def test_a_pattern_does_not_backtrack() -> None:
    started = time.process_time()
    assert not matches("*a" * MAX_STARS + "*b", "a" * 100_000)
    assert time.process_time() - started < 10


@pytest.mark.parametrize(
    ("scope", "words"),
    [
        ("everything", "write scopes like push:queue/mail"),
        ("pushes:queue/mail", "did you mean 'push'?"),
        ("Admin", "did you mean 'admin'?"),
        ("push:queu/mail", "push applies to queue; did you mean 'queue'?"),
        ("push:topic/mail", "push applies to queue"),
        ("push:queue", "names no queue: push:queue/NAME, or push:queue/* for all."),
        ("push:queue/", "names no queue"),
        ("work:lock/site", "a lock has no name, write work:lock/*."),
        ("push:queue/a\n", "printable"),
        ("push:queue/" + "a" * 300, "printable"),
        ("push:queue/" + "*a" * 9, "too many '*'"),
        ("", "write scopes like"),
    ],
)
def test_a_wrong_scope_is_refused_with_the_next_step(scope: str, words: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        parse_scopes([scope])
    assert words in str(caught.value)
    assert caught.value.option == "scopes"


def test_repeated_scopes_count_once() -> None:
    assert check_scopes(["admin", "read:topic/*", "admin"]) == ("admin", "read:topic/*")
    with pytest.raises(InvalidOption, match="too many"):
        check_scopes(f"push:queue/q{n}" for n in range(101))
