"""Rates, and what limits of several queues and measures say together."""

from hypothesis import given
from hypothesis import strategies as st

from headrace import ANY, KeyValues
from headrace.model import rates
from headrace.model.limiting import Bucket, Limits, Room
from headrace.model.limits import ALL, EVERYTHING, Rule

MAC = KeyValues.of({"os": "mac"}).form
SYSTEMS = KeyValues.of({"os": ANY}, allow_any=True)


@given(
    st.integers(1, 5000),
    st.integers(1, 5),
    st.lists(st.integers(0, 1000), min_size=1, max_size=40),
)
def test_a_rate_is_never_exceeded(period, limit, steps):
    """Whoever takes as much as there is room, whenever it is told that there is."""
    now, marks, taken = 1_000_000, (), []
    for step in steps:
        now += step
        marks = rates.standing(marks, period, now)
        room = limit - rates.total(marks)
        if room > 0:
            marks = rates.with_more(marks, period, now, room)
            taken += [now] * room
        assert rates.total(marks) == limit
        assert sum(now - period < moment for moment in taken) <= limit
        free = rates.room_at(marks, period, limit)
        assert rates.total(rates.standing(marks, period, free)) < limit
        assert rates.total(rates.standing(marks, period, free - 1)) == limit
        # A hundredth of the period too late at the most, and a millisecond.
        oldest = max(moment for moment in taken if moment <= now)
        assert free <= oldest + period + -(-period // rates.SLOTS)
        assert rates.read_marks(rates.text_of(marks)) == marks


def test_scopes_and_measures_are_apart():
    limits = Limits(
        [
            Rule(id="all", pattern=SYSTEMS, limit=1),
            Rule(id="mine", pattern=SYSTEMS, limit=2, queue="q"),
            Rule(id="rate", pattern=SYSTEMS, limit=3, period_ms=1000),
            Rule(id="held", pattern=SYSTEMS, limit=4, on="enqueued"),
            Rule(id="any", pattern=EVERYTHING, limit=5, queue="q"),
        ]
    )
    found = {bound.rule: bound for bound in limits.bounds("q", MAC, "running").checked}
    assert set(found) == {"all", "mine", "rate", "any"}
    assert found["rate"].bucket == Bucket(ALL, "rate/1000", MAC)
    assert found["rate"].bucket.period_ms == 1000
    assert Bucket.read(found["mine"].bucket.name) == Bucket("q", "running", MAC)
    others = limits.bounds("other", MAC, "running").checked
    assert {bound.rule for bound in others} == {"all", "rate"}
    assert [bound.rule for bound in limits.bounds("q", MAC, "enqueued").checked] == ["held"]
    assert [bound.rule for bound in limits.bounds("q", None, "running").checked] == ["any"]
    assert limits.concerns("q", has_channels=False)
    assert not limits.concerns("other", has_channels=False)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), max_size=6),
    st.lists(st.integers(-1, 6), min_size=3, max_size=3),
    st.integers(0, 3),
)
def test_all_have_room_together_if_each_has_after_the_others(wanted, numbers, used):
    """What is taken at once is what would have been taken one by one."""
    patterns = {"x": SYSTEMS, "y": EVERYTHING, "z": KeyValues.of({"os": "a"})}
    limits = Limits(
        Rule(id=id, pattern=pattern, limit=limit)
        for (id, pattern), limit in zip(patterns.items(), numbers, strict=True)
    )
    names = {word: KeyValues.of({"os": word}).form for word in "abc"}
    some = [(limits.bounds("q", names[word], "running"), count) for word, count in wanted if count]
    totals = {bucket: used for bounds, _ in some for bucket in bounds.counted}
    together, apart = Room(totals), Room(totals)
    fits = True
    for bounds, count in some:
        fits = fits and apart.fits(bounds) >= count
        apart.take(bounds, count)
    assert together.take_all(some) == fits
    assert (together.used, together.taken) == ((apart.used, apart.taken) if fits else (totals, {}))


def test_room_is_what_the_narrowest_limit_leaves():
    limits = Limits(
        [Rule(id="a", pattern=SYSTEMS, limit=3), Rule(id="b", pattern=EVERYTHING, limit=5)]
    )
    bounds = limits.bounds("q", MAC, "running")
    [bucket] = [bound.bucket for bound in bounds.checked if bound.rule == "a"]
    room = Room({bucket: 1})
    assert room.fits(bounds) == 2
    assert room.refusal(bounds, 3).rule == "a"
    room.take(bounds, 2)
    assert (room.fits(bounds), [bound.rule for bound in room.full.values()]) == (0, ["a"])
    room.give_back()
    assert room.fits(bounds) == 2
