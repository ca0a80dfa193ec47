"""Rules and overrides: the worked example of the seed, and Willow's own way to count."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import ANY, KeyValues
from headrace.errors import InvalidKeyValues, InvalidOption
from headrace.model.limits.rules import LimitOverride, LimitRule, Rules, check_limit, check_override


def pattern(**pairs):
    return KeyValues.of(pairs, allow_any=True)


class LimitCounters:
    """Limit counters, as a store keeps them."""

    def __init__(self, rules):
        self.rules = Rules(rules)
        self.used = {}

    def add(self, subject, count=1):
        bounds = self.rules.bounds(subject)
        if count > 0 and bounds.refusal(self.used, count):
            return False
        for counter in bounds.counted:
            self.used[counter] = self.used.get(counter, 0) + count
        return True


BRANCHES = LimitRule(
    id="A",
    pattern=pattern(repo=ANY, branch=ANY),
    limit=1,
    overrides=(LimitOverride(id="main", pattern=pattern(repo="willow", branch="main"), limit=-1),),
)
SYSTEMS = LimitRule(
    id="B",
    pattern=pattern(os=ANY),
    limit=0,
    overrides=(
        LimitOverride(id="linux", pattern=pattern(os="linux"), limit=-1),
        LimitOverride(id="windows", pattern=pattern(os="windows", branch="main"), limit=-1),
        LimitOverride(id="mac", pattern=pattern(os="mac", branch="main"), limit=-1),
    ),
)


def build(branch=None, os=None):
    pairs = {"repo": "willow", "branch": branch} if branch else {}
    return KeyValues.of({**pairs, **({"os": os} if os else {})})


def test_the_farm_of_the_seed():
    """Four runners; one build per branch but main; only main on Windows and Mac."""
    farm = LimitCounters([BRANCHES, SYSTEMS])
    outcomes = [
        (build("main", "windows"), True),
        (build("main", "windows"), True),
        (build("main", "mac"), True),
        (build("main", "linux"), True),
        (build("f72", "windows"), False),
        (build("f72", "mac"), False),
        (build("f72", "linux"), True),
        (build("f72", "linux"), False),
        (build("f73", "linux"), True),
        (build("main", "bsd"), False),
        (build("f99"), True),
        (build("f99"), False),
        (build(os="linux"), True),
        (build(os="mac"), False),
    ]
    assert [farm.add(subject) for subject, _ in outcomes] == [wanted for _, wanted in outcomes]
    farm.add(build("f72", "linux"), -1)
    assert farm.add(build("f72", "linux"))


def test_an_item_that_an_override_allows_still_counts():
    """For those that the rule itself limits."""
    rule = LimitRule(
        id="r",
        pattern=pattern(repo=ANY),
        limit=2,
        overrides=(LimitOverride(id="o", pattern=pattern(repo=ANY, vip="yes"), limit=-1),),
    )
    counters = LimitCounters([rule])
    important = KeyValues.of({"repo": "willow", "vip": "yes"})
    assert all(counters.add(important) for _ in range(3))
    assert not counters.add(KeyValues.of({"repo": "willow"}))
    assert counters.add(KeyValues.of({"repo": "other"}), 2)
    assert not counters.add(KeyValues.of({"repo": "other"}), 1)


def test_more_than_fits_is_refused_as_a_whole():
    counters = LimitCounters([LimitRule(id="r", pattern=pattern(os=ANY), limit=5)])
    linux = KeyValues.of({"os": "linux"})
    assert counters.add(linux, 4)
    assert not counters.add(linux, 2)
    assert counters.add(linux, 1)


def test_a_refusal_names_the_rule_and_the_counter():
    bounds = Rules([SYSTEMS]).bounds(build("f72", "mac"))
    refused = bounds.refusal({})
    assert (refused.rule, refused.override, refused.limit) == ("B", None, 0)
    assert refused.counter == KeyValues.of({"os": "mac"}).form
    assert bounds.counted == ()


def test_rules_over_the_same_keys_share_a_total():
    rules = Rules(
        [
            LimitRule(id="any", pattern=pattern(os=ANY), limit=9),
            LimitRule(id="mac", pattern=pattern(os="mac"), limit=3),
        ]
    )
    bounds = rules.bounds(KeyValues.of({"os": "mac", "x": 1}))
    assert bounds.counted == (KeyValues.of({"os": "mac"}).form,)
    assert [check.limit for check in bounds.checked] == [3, 9]


def test_one_total_may_have_other_limits_for_others():
    """So a limit belongs to the check, and not to the total."""
    rules = Rules(
        [
            LimitRule(id="any", pattern=pattern(os=ANY), limit=9),
            LimitRule(
                id="mac",
                pattern=pattern(os="mac"),
                limit=3,
                overrides=(
                    LimitOverride(id="vip", pattern=pattern(os="mac", vip="yes"), limit=-1),
                ),
            ),
        ]
    )
    plain, important = (KeyValues.of({"os": "mac", "vip": vip}) for vip in ("no", "yes"))
    assert rules.bounds(plain).counted == rules.bounds(important).counted
    assert [check.limit for check in rules.bounds(plain).checked] == [3, 9]
    assert [check.limit for check in rules.bounds(important).checked] == [9]


KEYS = st.sampled_from("abc")
EVERY_SUBJECT = [
    KeyValues.of({key: value for key, value in zip("abc", each, strict=True) if value})
    for each in product((0, 1, 2), repeat=3)
    if any(each)
]
SUBJECTS = st.sampled_from(EVERY_SUBJECT)
PATTERNS = st.dictionaries(KEYS, st.integers(1, 2) | st.just(ANY), min_size=1).map(
    lambda pairs: KeyValues.of(pairs, allow_any=True)
)
LIMITS = st.integers(-1, 4)


@st.composite
def rules(draw):
    found = []
    for number, group in enumerate(draw(st.lists(PATTERNS, max_size=4, unique=True))):
        more = draw(st.lists(PATTERNS, max_size=3, unique=True))
        whole = {KeyValues({**group.all, **each.all}) for each in more}
        overrides = [
            LimitOverride(id=f"{number}.{index}", pattern=each, limit=draw(LIMITS))
            for index, each in enumerate(sorted(whole, key=lambda each: each.form))
        ]
        found.append(
            LimitRule(id=str(number), pattern=group, limit=draw(LIMITS), overrides=tuple(overrides))
        )
    return found


def applies(group, subject):
    return all(subject.get(key) == value or (value == ANY and key in subject) for key, value in group.items())  # fmt: skip


def willow_allows(rules, counters, subject, count):
    """All counters are summed for each limit, by the words of the reference."""
    for rule in rules:
        if not applies(rule.pattern, subject):
            continue
        overriding = [each for each in rule.overrides if applies(each.pattern, subject)]
        for limited in overriding or [rule]:
            total = sum(
                number
                for counter, number in counters.items()
                if all(counter.get(key) == subject[key] for key in limited.pattern)
            )
            if limited.limit != -1 and total + count > limited.limit:
                return False
    return True


@given(rules(), st.lists(st.tuples(SUBJECTS, st.sampled_from([1, 1, 1, 2, -1])), max_size=25))
def test_limit_counters_decide_as_sums_over_all_counters_do(rules, changes):
    counters, limit_counters = {}, LimitCounters(rules)
    for subject, asked in changes:
        count = max(asked, -counters.get(subject, 0))
        if count == 0:
            continue
        wanted = count < 0 or willow_allows(rules, counters, subject, count)
        assert limit_counters.add(subject, count) == wanted
        if wanted:
            counters[subject] = counters.get(subject, 0) + count
    for subject in EVERY_SUBJECT:
        for count in (1, 2):
            is_refused = limit_counters.rules.bounds(subject).refusal(limit_counters.used, count)
            assert (is_refused is None) == willow_allows(rules, counters, subject, count)
    for subject, number in counters.items():
        limit_counters.add(subject, -number)
    assert not any(limit_counters.used.values())


@pytest.mark.parametrize("wrong", [-2, -(10**9), True, None, 1.0, "1"], ids=repr)
def test_an_invalid_limit_is_refused(wrong):
    with pytest.raises(InvalidOption, match=r"Limit: .* is not a valid limit") as caught:
        check_limit("Properties.Limit", wrong)
    assert caught.value.option == "Properties.Limit"


def test_limits():
    assert [check_limit("limit", value) for value in (-1, 0, 5)] == [-1, 0, 5]


def test_an_override_has_the_keys_of_its_rule():
    check_override(pattern(os=ANY), pattern(os="mac", branch="main"))
    with pytest.raises(InvalidKeyValues) as caught:
        check_override(pattern(os=ANY, repo=ANY), pattern(os="mac"), "GroupByKeyValues")
    assert caught.value.path == "GroupByKeyValues[repo]"
