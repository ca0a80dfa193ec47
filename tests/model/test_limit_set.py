"""Rates, and limits of several queues and measures together."""

from hypothesis import given
from hypothesis import strategies as st

from headrace import ANY, KeyValues
from headrace.model.limits import rates
from headrace.model.limits.limit_set import CounterKey, FreeSlots, LimitSet
from headrace.model.limits.rules import ALL, EVERYTHING, LimitRule

MAC = KeyValues.of({"os": "mac"}).form
SYSTEMS = KeyValues.of({"os": ANY}, allow_any=True)


@given(
    st.integers(1, 5000),
    st.integers(1, 5),
    st.lists(st.integers(0, 1000), min_size=1, max_size=40),
)
def test_a_rate_is_never_exceeded(period, limit, steps):
    """A client that takes all free slots whenever there are some stays within the limit."""
    now, marks, taken = 1_000_000, (), []
    for step in steps:
        now += step
        marks = rates.current(marks, period, now)
        slots = limit - rates.total(marks)
        if slots > 0:
            marks = rates.added(marks, period, now, slots)
            taken += [now] * slots
        assert rates.total(marks) == limit
        assert sum(now - period < moment for moment in taken) <= limit
        free = rates.free_at(marks, period, limit)
        assert rates.total(rates.current(marks, period, free)) < limit
        assert rates.total(rates.current(marks, period, free - 1)) == limit
        # A hundredth of the period too late at the most, and a millisecond.
        oldest = max(moment for moment in taken if moment <= now)
        assert free <= oldest + period + -(-period // rates.BUCKETS)
        assert rates.read_marks(rates.text_of(marks)) == marks


def test_scopes_and_measures_are_apart():
    limits = LimitSet(
        [
            LimitRule(id="all", pattern=SYSTEMS, limit=1),
            LimitRule(id="mine", pattern=SYSTEMS, limit=2, queue="q"),
            LimitRule(id="rate", pattern=SYSTEMS, limit=3, period_ms=1000),
            LimitRule(id="held", pattern=SYSTEMS, limit=4, on="enqueued"),
            LimitRule(id="any", pattern=EVERYTHING, limit=5, queue="q"),
        ]
    )
    found = {check.rule: check for check in limits.bounds("q", MAC, "running").checked}
    assert set(found) == {"all", "mine", "rate", "any"}
    assert found["rate"].counter == CounterKey(ALL, "rate/1000", MAC)
    assert found["rate"].counter.period_ms == 1000
    assert CounterKey.read(found["mine"].counter.name) == CounterKey("q", "running", MAC)
    others = limits.bounds("other", MAC, "running").checked
    assert {check.rule for check in others} == {"all", "rate"}
    assert [check.rule for check in limits.bounds("q", MAC, "enqueued").checked] == ["held"]
    assert [check.rule for check in limits.bounds("q", None, "running").checked] == ["any"]
    assert limits.concerns("q", has_channels=False)
    assert not limits.concerns("other", has_channels=False)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), max_size=6),
    st.lists(st.integers(-1, 6), min_size=3, max_size=3),
    st.integers(0, 3),
)
def test_slots_are_used_together_if_they_could_be_one_by_one(wanted, numbers, used):
    """Acquiring slots together equals acquiring them one by one."""
    patterns = {"x": SYSTEMS, "y": EVERYTHING, "z": KeyValues.of({"os": "a"})}
    limits = LimitSet(
        LimitRule(id=id, pattern=pattern, limit=limit)
        for (id, pattern), limit in zip(patterns.items(), numbers, strict=True)
    )
    names = {word: KeyValues.of({"os": word}).form for word in "abc"}
    some = [(limits.bounds("q", names[word], "running"), count) for word, count in wanted if count]
    counters = {counter: used for bounds, _ in some for counter in bounds.counted}
    together, apart = FreeSlots(counters), FreeSlots(counters)
    fits = True
    for bounds, count in some:
        fits = fits and apart.available(bounds) >= count
        apart.acquire(bounds, count)
    assert together.acquire_all(some) == fits
    assert (together.used, together.acquired) == (
        (apart.used, apart.acquired) if fits else (counters, {})
    )


def test_the_narrowest_limit_decides():
    limits = LimitSet(
        [
            LimitRule(id="a", pattern=SYSTEMS, limit=3),
            LimitRule(id="b", pattern=EVERYTHING, limit=5),
        ]
    )
    bounds = limits.bounds("q", MAC, "running")
    [counter] = [check.counter for check in bounds.checked if check.rule == "a"]
    slots = FreeSlots({counter: 1})
    assert slots.available(bounds) == 2
    assert slots.first_exceeded(bounds, 3).rule == "a"
    slots.acquire(bounds, 2)
    assert (slots.available(bounds), [check.rule for check in slots.full.values()]) == (0, ["a"])
    slots.release()
    assert slots.available(bounds) == 2
