"""Due times where clocks are changed, and what is refused."""

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

import pytest

from headrace.errors import InvalidOption
from headrace.model.schedules.due_times import (
    MAX_COUNTED,
    At,
    Cron,
    Every,
    check_cron,
    count_due,
    due_after,
    due_times,
    is_either_day,
    last_due,
)
from headrace.model.schedules.zones import check_zone, zone_data, zone_names, zone_of

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"
SPRING, AUTUMN = "2026-03-29", "2026-10-25"
MINUTE_MS, DAY_MS = 60_000, 86_400_000


def ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def times(expression: str, zone: str, day: str, count: int = 50, days: int = 1) -> list[str]:
    """The due times of one day, as its clocks show them."""
    start = datetime.fromisoformat(day).replace(tzinfo=zone_of(zone))
    found = []
    for due in islice(due_times(Cron(expression, zone), ms(start) - 1, 0), count):
        local = datetime.fromtimestamp(due / 1000, UTC).astimezone(zone_of(zone))
        if local.date() >= start.date() + timedelta(days=days):
            break
        found.append(local.strftime("%H:%M"))
    return found


class TestClockChanges:
    """Clocks go forward at 02:00 to 03:00 and back at 03:00 to 02:00 in Berlin; in New York they
    go back at 02:00 to 01:00."""

    @pytest.mark.parametrize(
        ("expression", "zone", "day", "expected"),
        [
            # A time that does not exist comes right after the change; one that comes twice, first.
            ("30 2 * * *", BERLIN, SPRING, ["03:00"]),
            ("30 2 * * *", BERLIN, AUTUMN, ["02:30"]),
            ("30 1 * * *", NEW_YORK, "2026-11-01", ["01:30"]),
            ("15 1-3 * * *", BERLIN, SPRING, ["01:15", "03:00", "03:15"]),
            ("15 1-3 * * *", BERLIN, AUTUMN, ["01:15", "02:15", "03:15"]),
            # Midnight does not exist there, or half an hour does not.
            ("0 0 * * *", "America/Santiago", "2026-09-06", ["01:00"]),
            ("0 0 * * *", "Africa/Cairo", "2026-04-24", ["01:00"]),
            ("0 0 * * *", "Asia/Beirut", "2026-03-29", ["01:00"]),
            ("15 2 * * *", "Australia/Lord_Howe", "2026-10-04", ["02:30"]),
        ],
    )
    def test_a_fixed_time_comes_once(
        self, expression: str, zone: str, day: str, expected: list[str]
    ) -> None:
        assert times(expression, zone, day) == expected

    @pytest.mark.parametrize(("expression", "minutes"), [("*/30 * * * *", 30), ("0 * * * *", 60)])
    @pytest.mark.parametrize(("day", "hours"), [(SPRING, 23), (AUTUMN, 25)])
    def test_an_interval_is_of_real_minutes(
        self, expression: str, minutes: int, day: str, hours: int
    ) -> None:
        start = ms(datetime.fromisoformat(day).replace(tzinfo=zone_of(BERLIN)))
        count = hours * 60 // minutes
        found = list(islice(due_times(Cron(expression, BERLIN), start - 1, 0), count + 1))
        steps = {after - before for before, after in pairwise(found)}
        assert steps == {minutes * MINUTE_MS}
        assert len(times(expression, BERLIN, day, 100)) == count

    @pytest.mark.parametrize("zone", [BERLIN, NEW_YORK, "Australia/Lord_Howe", "Africa/Cairo"])
    @pytest.mark.parametrize(
        "expression", ["30 2 * * *", "15 1-3 * * *", "*/15 * * * *", "7 * * * *"]
    )
    def test_times_grow_and_do_not_depend_on_the_moment_of_asking(
        self, zone: str, expression: str
    ) -> None:
        """Asked from any minute around a change, the next time is the next of the series."""
        timing = Cron(expression, zone)
        for day in (SPRING, AUTUMN, "2026-11-01", "2026-10-04", "2026-04-05", "2026-04-24"):
            start = ms(datetime.fromisoformat(day).replace(tzinfo=UTC)) - DAY_MS
            series = []
            for due in due_times(timing, start, 0):
                if due > start + 3 * DAY_MS:
                    break
                series.append(due)
            assert series == sorted(set(series))
            upcoming = iter(series)
            due = next(upcoming)
            for moment in range(start, series[-1], 10 * MINUTE_MS):
                while due <= moment:
                    due = next(upcoming)
                assert due_after(timing, moment, 0) == due, (day, moment)

    def test_the_last_time_is_found_across_changes(self) -> None:
        timing = Cron("15 1-3 * * *", BERLIN)
        start = ms(datetime(2026, 10, 23, tzinfo=UTC))
        series = list(islice(due_times(timing, start, 0), 12))
        for until in range(series[0], series[-1], 17 * MINUTE_MS):
            assert last_due(timing, series[0], until, 0) == max(d for d in series if d <= until)
            assert count_due(timing, series[0], until, 0) == sum(d < until for d in series)


class TestExpressions:
    @pytest.mark.parametrize(
        ("word", "fields"),
        [
            ("@daily", "0 0 * * *"),
            ("@midnight", "0 0 * * *"),
            ("@Hourly", "0 * * * *"),
            ("@weekly", "0 0 * * 0"),
            ("@monthly", "0 0 1 * *"),
            ("@yearly", "0 0 1 1 *"),
            ("@annually", "0 0 1 1 *"),
            ("  30  2 * * * ", "30 2 * * *"),
        ],
    )
    def test_words_stand_for_fields(self, word: str, fields: str) -> None:
        assert check_cron(word) == fields

    @pytest.mark.parametrize(
        ("expression", "expected"),
        [
            ("0 0 L * *", "2026-02-28"),
            ("0 0 LW * *", "2026-02-27"),
            ("0 0 * * 5L", "2026-02-27"),
            ("0 0 * * MON#2", "2026-02-09"),
        ],
    )
    def test_last_and_nth_days(self, expression: str, expected: str) -> None:
        due = due_after(Cron(check_cron(expression)), ms(datetime(2026, 2, 2, tzinfo=UTC)), 0)
        assert datetime.fromtimestamp((due or 0) / 1000, UTC).date().isoformat() == expected

    @pytest.mark.parametrize(
        "expression",
        [
            "0 22-2 * * *",
            "? * * * *",
            "0 0 30 2 *",
            "0 0 1 1 1 *",
            "* * *",
            "",
            "@reboot",
            "x",
            None,
        ],
    )
    def test_what_has_no_meaning_is_refused(self, expression: object) -> None:
        with pytest.raises(InvalidOption, match="use five fields") as caught:
            check_cron(expression)
        assert caught.value.details["option"] == "cron"

    def test_seconds_are_refused_with_the_reason(self) -> None:
        with pytest.raises(InvalidOption, match=r"six fields .* every="):
            check_cron("0 30 2 * * *")

    def test_either_day_is_recognized(self) -> None:
        assert is_either_day("0 0 1-7 * MON")
        assert not any(map(is_either_day, ["0 0 */2 * MON", "0 0 1 * *", "0 0 * * MON#1"]))


class TestOtherTimings:
    def test_intervals_are_counted_from_their_anchor(self) -> None:
        timing = Every(1000)
        assert [due_after(timing, after, 500) for after in (0, 500, 1499, 1500)] == [
            1500,
            1500,
            1500,
            2500,
        ]
        assert last_due(timing, 1500, 9999, 500) == 9500
        assert count_due(timing, 1500, 9500, 500) == 8

    def test_a_single_time_comes_once(self) -> None:
        assert (due_after(At(5), 4, 0), due_after(At(5), 5, 0)) == (5, None)
        assert (last_due(At(5), 5, 9, 0), count_due(At(5), 5, 9, 0)) == (5, 1)

    def test_counting_ends_somewhere(self) -> None:
        assert count_due(Cron("* * * * *"), 0, 10**12, 0) == MAX_COUNTED
        assert count_due(Every(1), 1, 10**12, 0) == 10**12 - 1

    def test_nothing_is_due_after_the_year_2999(self) -> None:
        assert due_after(Every(10**12), 32_503_000_000_000, 0) is None


class TestZones:
    def test_zones_come_from_the_package(self) -> None:
        """All machines with the same one agree; a newer version is greater."""
        assert "2024a" < zone_data() < "3"
        assert len(zone_names()) > 400
        assert zone_of("UTC") is UTC

    @pytest.mark.parametrize("zone", ["Europe/Berlim", "", "../zones", "europe/berlin", None, 3])
    def test_an_unknown_zone_is_refused_with_a_near_one(self, zone: object) -> None:
        with pytest.raises(InvalidOption, match=r"like 'Europe/Berlin'"):
            check_zone(zone)


HOUR_MS = 3_600_000


def changes_of_clocks() -> list[tuple[str, int]]:
    """Of all zones from 2020 to 2035: one change for each size and time of day."""
    start, end = (ms(datetime(year, 1, 1, tzinfo=UTC)) for year in (2020, 2036))
    found: dict[tuple[timedelta, str], tuple[str, int]] = {}
    for zone in sorted(zone_names()):
        before = offset_at(zone, start)
        for day in range(start, end, 7 * DAY_MS):
            after = offset_at(zone, day)
            if after != before:
                at = change_between(zone, day - 7 * DAY_MS, day)
                size = offset_at(zone, at) - offset_at(zone, at - 1)
                clock = (datetime.fromtimestamp(at / 1000, UTC) + before).strftime("%H:%M")
                found.setdefault((size, clock), (zone, at))
            before = after
    return list(found.values())


def offset_at(zone: str, moment: int) -> timedelta:
    offset = datetime.fromtimestamp(moment / 1000, zone_of(zone)).utcoffset()
    assert offset is not None
    return offset


def change_between(zone: str, low: int, high: int) -> int:
    """The first minute after a change."""
    low, high = low // MINUTE_MS, high // MINUTE_MS
    before = offset_at(zone, low * MINUTE_MS)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (middle, high) if offset_at(zone, middle * MINUTE_MS) == before else (low, middle)
        )
    return high * MINUTE_MS


def fixed_times(zone: str, start: int, end: int, clock: tuple[int, int]) -> list[int]:
    """A time of day, by walking: its first minute, or the first one behind the gap that it is in."""
    found: dict[object, int] = {}
    last_clock = None
    for moment in range(start, end, MINUTE_MS):
        local = datetime.fromtimestamp(moment / 1000, zone_of(zone))
        now = (local.date(), (local.hour, local.minute))
        is_first = last_clock is None or now > last_clock
        for day in (local.date() - timedelta(days=1), local.date()):
            wanted = (day, clock)
            is_skipped = last_clock is not None and last_clock < wanted < now
            if is_first and wanted not in found and (now == wanted or is_skipped):
                found[wanted] = moment
        last_clock = now if last_clock is None else max(last_clock, now)
    return sorted(found.values())


def test_all_changes_of_clocks_agree_with_a_walk_by_minutes() -> None:
    changes = changes_of_clocks()
    assert len(changes) > 20
    for zone, at in changes:
        start, end = at - 30 * HOUR_MS, at + 30 * HOUR_MS
        for hour, minute in ((2, 30), (0, 0), (1, 15), (23, 45)):
            timing = Cron(f"{minute} {hour} * * *", zone)
            expected = fixed_times(zone, start, end, (hour, minute))
            found = []
            for due in due_times(timing, start - 1, 0):
                if due >= end:
                    break
                found.append(due)
            assert found == expected, (zone, datetime.fromtimestamp(at / 1000, UTC), hour, minute)
        quarters = list(islice(due_times(Cron("*/15 * * * *", zone), start - 1, 0), 240))
        assert {b - a for a, b in pairwise(quarters)} == {15 * MINUTE_MS}, zone
