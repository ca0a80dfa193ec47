"""The guarantees of schedules: what is due, fires once, however many ask."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from headrace.core.documents import Commit, Push
from headrace.core.schedules import ScheduleInfo, define
from headrace.errors import (
    HeadraceError,
    InvalidOption,
    InvalidQueueName,
    NotConnected,
    QueueFull,
    ReservedName,
    ScheduleExists,
    UnknownQueue,
    UnknownSchedule,
)
from headrace.model.codec import DEFAULT_MAX_BODY
from headrace.model.schedules import schedule as rules
from headrace.model.schedules import zones
from headrace.model.schedules.schedule import Firing, Schedule, Skipped
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Connect, Contract, bodies
from headrace.testing.contract.queue_base import StoreOps

JOB = Push("q", {"do": "it"})
MINUTE = 60
HOUR = 60 * MINUTE


def add(ops: StoreOps, name: str = "s", *, replace: bool = False, **options: Any) -> Schedule:
    does = options.keys() & {"push", "upsert", "commit", "pause", "resume"}
    given = {**({} if does else {"push": JOB}), **options}
    definition = define(given, max_body=DEFAULT_MAX_BODY)
    schedule: Schedule = ops.schedules.add(name, definition, replace)
    return schedule


def fire(ops: StoreOps, limit: int = 100) -> list[Firing]:
    firings: list[Firing] = ops.schedules.fire(limit)
    return firings


def dues(firings: list[Firing]) -> list[int]:
    return [firing.due for firing in firings]


def iso(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


class ScheduleContract(Contract):
    """When schedules fire, what they do, and what is counted."""

    needed_parts = frozenset({"schedules"})

    @pytest.fixture
    def ops(self, hr: Any) -> StoreOps:
        return StoreOps(hr)

    def test_an_added_schedule_is_kept(
        self, ops: StoreOps, clock: FakeClock, connect: Connect
    ) -> None:
        added = add(ops, every="10m")
        assert added.created_at == added.after == clock.now
        assert added.due == added.fire_at == clock.now + 600_000
        assert (added.state, added.fires, added.version) == ("active", 0, 1)
        assert StoreOps(connect()).schedules.info("s") == added

    def test_the_same_content_again_changes_nothing(self, ops: StoreOps, clock: FakeClock) -> None:
        """An app adds its schedules whenever it starts; an interval is not begun again by that."""
        added = add(ops, every="10m")
        clock.advance(MINUTE)
        assert add(ops, every="10m") == added
        assert add(ops, every="10m", replace=True) == added

    def test_another_content_is_refused_unless_it_replaces(
        self, ops: StoreOps, clock: FakeClock
    ) -> None:
        add(ops, every="10m")
        with pytest.raises(ScheduleExists, match="another timing"):
            add(ops, every="5m")
        clock.advance(MINUTE)
        after = add(ops, every="5m", replace=True)
        assert (after.due, after.version) == (clock.now + 300_000, 2)
        assert ops.schedules.info("s") == after

    def test_a_due_schedule_fires_once(self, hr: Any, ops: StoreOps, clock: FakeClock) -> None:
        """Nothing before its time, and nothing twice at it."""
        schedule = add(ops, every="10m")
        clock.advance(10 * MINUTE - 0.001)
        assert (fire(ops), ops.schedules.until_due()) == ([], 1)
        clock.advance(0.001)
        assert ops.schedules.until_due() == 0
        [firing] = fire(ops)
        assert firing == Firing(
            schedule="s", due=schedule.due or 0, outcome="fired", item=firing.item
        )
        assert fire(ops) == []
        assert ops.schedules.until_due() == 600_000
        after = ops.schedules.info("s")
        assert (after.fires, after.prev_due, after.fired_at) == (1, schedule.due, clock.now)
        [item] = hr.queue("q").items()
        assert (item.payload, item.subject) == ({"do": "it"}, "s")

    def test_a_commit_carries_the_name_of_the_firing(
        self, hr: Any, ops: StoreOps, clock: FakeClock
    ) -> None:
        commit = Commit("t", {"n": 1}, {"kind": "tick"})
        schedule = add(ops, at=datetime(2030, 1, 31, 2, 30, tzinfo=UTC), commit=commit)
        clock.now = schedule.due or 0
        fire(ops)
        [record] = hr.range("t")
        assert record.body == {"n": 1}
        assert record.headers == {"schedule": "s@2030-01-31T02:30:00Z", "kind": "tick"}

    def test_a_queue_is_paused_and_resumed(self, hr: Any, ops: StoreOps, clock: FakeClock) -> None:
        hr.queues.create("q")
        add(ops, "night", every="2m", pause="q")
        add(ops, "day", every="3m", resume="q")
        for paused_by in ("schedule night", None):
            clock.advance(2 * MINUTE if paused_by else MINUTE)
            fire(ops)
            info = ops.queues.info("q")
            assert (info.is_paused, info.paused_by) == (paused_by is not None, paused_by)

    def test_a_single_time_ends_its_schedule(self, ops: StoreOps, clock: FakeClock) -> None:
        """Also after its content is added again: it does not fire a second time."""
        at = datetime.fromtimestamp(clock.now / 1000 + 5, UTC)
        add(ops, at=at)
        clock.advance(5)
        assert len(fire(ops)) == 1
        ended = ops.schedules.info("s")
        assert (ended.state, ended.due, ended.fire_at) == ("ended", None, None)
        assert add(ops, at=at) == ended
        changed = add(ops, at=at, push=Push("other", 1), replace=True)
        assert changed.state == "ended"
        later = add(ops, at=at + timedelta(seconds=9), replace=True)
        assert (later.state, later.due) == ("active", clock.now + 9000)

    def test_a_single_time_that_has_passed_is_due_now(
        self, ops: StoreOps, clock: FakeClock
    ) -> None:
        add(ops, at=clock.now - 5000)
        assert dues(fire(ops)) == [clock.now - 5000]

    def test_start_end_and_a_maximum_bound_it(self, ops: StoreOps, clock: FakeClock) -> None:
        start = clock.now + 7000
        bounded = add(ops, "b", every="1m", starts_at=start, ends_at=start + 120_000)
        add(ops, "m", every="1m", max_fires=2, overlap="allow")
        assert bounded.due == start
        fired: list[tuple[str, int]] = []
        for _ in range(300):
            clock.advance(1)
            fired += [(firing.schedule, firing.due) for firing in fire(ops)]
        assert [due for name, due in fired if name == "b"] == [start + n * 60_000 for n in range(3)]
        assert len([due for name, due in fired if name == "m"]) == 2
        assert {ops.schedules.info(name).state for name in ("b", "m")} == {"ended"}

    def test_clocks_that_are_set_back_repeat_nothing(self, ops: StoreOps, clock: FakeClock) -> None:
        """The store's clock, by any time: what was fired is not fired again, by an edit neither."""
        add(ops, every="10m", push=JOB)
        clock.advance(10 * MINUTE)
        [first] = fire(ops)
        clock.advance(-3 * HOUR)
        assert fire(ops) == []
        edited = add(ops, every="1m", push=JOB, replace=True)
        assert (edited.due or 0) > first.due
        clock.advance(3 * HOUR)
        assert fire(ops) == []
        clock.advance(2 * MINUTE)
        assert all(due > first.due for due in dues(fire(ops)))

    def test_summer_time_is_the_zones_matter(self, ops: StoreOps, clock: FakeClock) -> None:
        """02:30 in Berlin: when the clocks go forward at 03:00, when they go back the first one."""
        clock.now = iso("2026-03-28T12:00:00Z")
        schedule = add(ops, cron="30 2 * * *", zone="Europe/Berlin", misfire="all", overlap="allow")
        assert schedule.zone_data == zones.zone_data()
        for before, at in (("2026-03-28", "01:00"), ("2026-10-24", "00:30")):
            clock.now = iso(f"{before}T12:00:00Z")
            fire(ops, 1000)
            clock.advance(24 * HOUR)
            day = str(datetime.fromisoformat(before).date() + timedelta(days=1))
            assert dues(fire(ops)) == [iso(f"{day}T{at}:00Z")]

    def test_misfires_once(self, ops: StoreOps, clock: FakeClock) -> None:
        """After an outage it fires once for all that was missed, the last of it."""
        start = clock.now
        add(ops, every="10m")
        clock.advance(65 * MINUTE)
        assert dues(fire(ops)) == [start + 6 * 600_000]
        assert ops.schedules.info("s").skipped == Skipped(misfire=5)
        assert ops.schedules.until_due() == 5 * 60_000

    def test_misfires_skip(self, ops: StoreOps, clock: FakeClock) -> None:
        start = clock.now
        add(ops, every="10m", misfire="skip")
        clock.advance(65 * MINUTE)
        assert fire(ops) == []
        assert ops.schedules.info("s").skipped == Skipped(misfire=6)
        clock.advance(6 * MINUTE)
        assert dues(fire(ops)) == [start + 7 * 600_000], "a minute late is not too late"

    def test_misfires_all(self, ops: StoreOps, clock: FakeClock) -> None:
        """In order, in as many calls as it takes."""
        start = clock.now
        add(ops, every="10m", misfire="all", overlap="allow")
        clock.advance(65 * MINUTE)
        times = dues(fire(ops, 4)) + dues(fire(ops, 4)) + dues(fire(ops, 4))
        assert times == [start + n * 600_000 for n in range(1, 7)]
        assert ops.schedules.info("s").skipped == Skipped()

    def test_a_thousand_misfires_are_made_up_for(self, ops: StoreOps, clock: FakeClock) -> None:
        add(ops, every="1m", misfire="all", overlap="skip")
        clock.advance(1200 * MINUTE)
        assert len(fire(ops, 10)) == 10
        assert ops.schedules.info("s").skipped.misfire == 200

    def test_up_to_a_minute_late_is_no_misfire(self, ops: StoreOps, clock: FakeClock) -> None:
        add(ops, every="10s", misfire="skip", overlap="allow")
        clock.advance(65)
        assert len(fire(ops)) == 6
        assert ops.schedules.info("s").skipped == Skipped()

    @pytest.mark.parametrize(
        ("overlap", "waiting", "running", "skipped"),
        [("skip", 1, 1, 4), ("queue", 1, 2, 0), ("replace", 1, 1, 2), ("allow", 3, 3, 0)],
    )
    def test_overlaps(
        self,
        hr: Any,
        ops: StoreOps,
        clock: FakeClock,
        overlap: str,
        waiting: int,
        running: int,
        skipped: int,
    ) -> None:
        """Three firings while nothing runs, and three with the first one in flight."""
        add(ops, every="10s", overlap=overlap, push=JOB)
        for _ in range(3):
            clock.advance(10)
            fire(ops)
        queue = hr.queue("q")
        assert len(queue.items()) == waiting
        held = queue.claim(10)
        for _ in range(2):
            clock.advance(10)
            fire(ops)
        queue.complete(held)
        ends = len(held) + len(queue.items())
        assert ends == (waiting + 2 if overlap == "allow" else running)
        assert ops.schedules.info("s").skipped == Skipped(overlap=skipped)

    def test_an_upsert_is_as_it_was_written(self, hr: Any, ops: StoreOps, clock: FakeClock) -> None:
        hr.push("q", "old", subject="mine")
        add(ops, every="10s", upsert=Push("q", "new", subject="mine"))
        clock.advance(10)
        assert [firing.outcome for firing in fire(ops)] == ["fired"]
        assert [item.payload for item in hr.queue("q").items()] == ["new"]

    def test_a_failing_action_stops_no_other(
        self, hr: Any, ops: StoreOps, clock: FakeClock
    ) -> None:
        """It is tried again three times; then its time is skipped. Its error is kept."""
        start = clock.now
        add(ops, "a", every="10m", pause="nowhere")
        add(ops, "b", every="10m")
        clock.advance(10 * MINUTE)
        firings = fire(ops)
        assert [(f.schedule, f.outcome) for f in firings] == [("a", "failed"), ("b", "fired")]
        assert "nowhere" in (firings[0].error or "")
        for seconds in (1, 5, 25):
            clock.advance(seconds - 0.001)
            assert fire(ops) == []
            clock.advance(0.001)
            [again] = fire(ops)
            assert (again.outcome, again.due) == ("failed", start + 600_000)
        after = ops.schedules.info("a")
        assert (after.skipped, after.fires, after.attempts) == (Skipped(failed=1), 0, 0)
        assert "nowhere" in (after.error or "")
        assert after.due == start + 2 * 600_000
        hr.queues.create("nowhere")
        clock.now = after.due or 0
        assert [firing.outcome for firing in fire(ops)] == ["fired", "skipped"]
        assert ops.schedules.info("a").error is None

    def test_a_retry_is_no_misfire(self, hr: Any, ops: StoreOps, clock: FakeClock) -> None:
        start = clock.now
        add(ops, "a", every="10m", pause="nowhere", misfire="skip")
        clock.advance(10 * MINUTE)
        fire(ops)
        hr.queues.create("nowhere")
        clock.advance(5 * MINUTE)
        [firing] = fire(ops)
        assert (firing.outcome, firing.due) == ("fired", start + 600_000)

    def test_a_failed_push_leaves_nothing(self, hr: Any, ops: StoreOps, clock: FakeClock) -> None:
        """Nor a queue. It fires when it has capacity again."""
        hr.queues.set_defaults(max_items=0)
        add(ops, "new", at=clock.now, push=Push("new", 1))
        assert [firing.outcome for firing in fire(ops)] == ["failed"]
        assert hr.queues.list() == []
        hr.queues.set_defaults(max_items=-1)
        ops.schedules.remove("new")
        hr.queues.create("q", max_items=1)
        hr.push("q", "full")
        add(ops, every="10m", overlap="allow")
        add(ops, "other", every="10m", push=Push("else", 1))
        clock.advance(10 * MINUTE)
        outcomes = {firing.schedule: firing.outcome for firing in fire(ops)}
        assert outcomes == {"s": "failed", "other": "fired"}
        assert len(hr.queue("q").items()) == 1
        hr.queue("q").complete(hr.queue("q").claim())
        clock.advance(1)
        assert [firing.outcome for firing in fire(ops)] == ["fired"]
        assert [item.payload for item in hr.queue("q").items()] == [{"do": "it"}]

    def test_a_queue_with_little_room_gets_what_fits(
        self, hr: Any, ops: StoreOps, clock: FakeClock
    ) -> None:
        """Of schedules that are due together, those fire that can."""
        hr.queues.create("q", max_items=2)
        for name in "abc":
            add(ops, name, every="10m", overlap="allow", push=Push("q", name))
        clock.advance(10 * MINUTE)
        outcomes = [(firing.schedule, firing.outcome) for firing in fire(ops)]
        assert outcomes == [("a", "fired"), ("b", "fired"), ("c", "failed")]
        assert [item.payload for item in hr.queue("q").items()] == ["a", "b"]

    def test_actions_of_all_kinds_fire_together(
        self, hr: Any, ops: StoreOps, clock: FakeClock
    ) -> None:
        """Each firing names its own item; of two with one subject only the first pushes."""
        hr.queues.create("q")
        actions: dict[str, dict[str, Any]] = {
            "a": {"push": Push("q", "a")},
            "b": {"commit": Commit("t", {"of": "b"})},
            "c": {"push": Push("other", "c")},
            "d": {"push": Push("q", "d", subject="a")},
            "e": {"upsert": Push("q", "e")},
            "f": {"commit": Commit("t", {"of": "f"})},
            "g": {"pause": "q"},
        }
        for name, action in actions.items():
            add(ops, name, every="10m", **action)
        clock.advance(10 * MINUTE)
        firings = {firing.schedule: firing for firing in fire(ops)}
        assert list(firings) == list(actions)
        skipped = [name for name, firing in firings.items() if firing.outcome != "fired"]
        assert (skipped, firings["d"].item) == (["d"], firings["a"].item)
        items = {
            item.id: item.payload for name in ("q", "other") for item in hr.queue(name).items()
        }
        assert items == {firings[name].item: name for name in "ace"}
        assert bodies(hr.range("t")) == [{"of": "b"}, {"of": "f"}]
        assert ops.queues.info("q").is_paused

    def test_a_paused_schedule_does_not_fire(self, ops: StoreOps, clock: FakeClock) -> None:
        """What it missed meanwhile is counted, and not made up for."""
        start = clock.now
        add(ops, every="10m", misfire="all")
        assert ops.schedules.pause("s").state == "paused"
        assert ops.schedules.until_due() is None
        clock.advance(35 * MINUTE)
        assert fire(ops) == []
        assert add(ops, every="10m", max_fires=9, replace=True).state == "paused"
        clock.advance(20 * MINUTE)
        resumed = ops.schedules.resume("s")
        assert (resumed.state, resumed.due) == ("active", start + 6 * 600_000)
        assert resumed.skipped == Skipped(paused=2), "since it was replaced"
        assert ops.schedules.resume("s") == resumed

    def test_triggering_obeys_overlaps(self, hr: Any, ops: StoreOps, clock: FakeClock) -> None:
        """Its due times stay, and nothing is counted."""
        schedule = add(ops, every="10m")
        ops.schedules.pause("s")
        clock.advance(MINUTE)
        first, second = ops.schedules.trigger("s"), ops.schedules.trigger("s")
        assert (first.outcome, first.due) == ("fired", clock.now)
        assert (second.outcome, second.reason, second.item) == ("skipped", "overlap", first.item)
        after = ops.schedules.info("s")
        assert (after.due, after.fires, after.skipped) == (schedule.due, 0, Skipped())
        add(ops, "bad", every="10m", pause="nowhere")
        with pytest.raises(UnknownQueue):
            ops.schedules.trigger("bad")
        hr.queues.create("full", max_items=0)
        add(ops, "full", every="10m", push=Push("full", 1))
        with pytest.raises(QueueFull):
            ops.schedules.trigger("full")

    def test_spread_moves_a_schedule_always_by_the_same(
        self, ops: StoreOps, clock: FakeClock
    ) -> None:
        names = [f"s{n}" for n in range(20)]
        added = [add(ops, name, every="10m", spread="5m") for name in names]
        moved = [(one.fire_at or 0) - (one.due or 0) for one in added]
        assert all(0 <= by < 300_000 for by in moved)
        assert len(set(moved)) > 10
        for _ in range(2):
            clock.advance(15 * MINUTE)
            fire(ops)
        after = [ops.schedules.info(name) for name in names]
        assert [(one.fire_at or 0) - (one.due or 0) for one in after] == moved

    def test_newer_time_zone_data_moves_due_times(
        self, ops: StoreOps, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Those that follow a time zone; older data does not move them back."""
        monkeypatch.setattr(rules, "zone_data", lambda: "2020a")
        berlin = add(ops, "berlin", cron="30 2 * * *", zone="Europe/Berlin")
        add(ops, "utc", cron="30 2 * * *")
        add(ops, "every", every="1m")
        assert berlin.zone_data == "2020a"
        monkeypatch.undo()
        assert ops.schedules.update_zones() == 1
        after = ops.schedules.info("berlin")
        assert (after.zone_data, after.due) == (zones.zone_data(), berlin.due)
        assert ops.schedules.update_zones() == 0

    def test_schedules_are_listed_by_name(self, ops: StoreOps) -> None:
        for name in ("b", "a2", "a1", "c"):
            add(ops, name, every="1m")
        listed = [one.name for one in ops.schedules.list("", "", 3)]
        assert listed == ["a1", "a2", "b"]
        assert [one.name for one in ops.schedules.list("", "b", 9)] == ["c"]
        assert [one.name for one in ops.schedules.list("a", "a1", 9)] == ["a2"]

    def test_a_removed_schedule_is_gone(self, ops: StoreOps, clock: FakeClock) -> None:
        added = add(ops, every="1m")
        assert ops.schedules.remove("s") == added
        clock.advance(HOUR)
        assert (fire(ops), ops.schedules.until_due()) == ([], None)

    def test_an_unknown_schedule_is_named(self, ops: StoreOps) -> None:
        for act in ("info", "pause", "resume", "trigger", "remove"):
            with pytest.raises(UnknownSchedule, match="'nightly'"):
                getattr(ops.schedules, act)("nightly")

    def test_the_longest_due_fire_first(self, ops: StoreOps, clock: FakeClock) -> None:
        for name, seconds in (("late", 30), ("early", 10), ("middle", 20)):
            add(ops, name, every=seconds, overlap="allow")
        clock.advance(30)
        assert [firing.schedule for firing in fire(ops, 1)] == ["early"]
        assert {firing.schedule for firing in fire(ops)} == {"early", "middle", "late"}


class ScheduleClientContract(Contract):
    """Schedules as users add and see them."""

    needed_parts = frozenset({"schedules"})

    def test_a_schedule_is_shown_in_its_zone(self, hr: Any, clock: FakeClock) -> None:
        info: ScheduleInfo = hr.schedules.add(
            "nightly", cron="@daily", zone="America/New_York", push=JOB, spread=0, max_fires=3
        )
        assert (info.cron, info.zone, info.every) == ("0 0 * * *", "America/New_York", None)
        assert info.next == datetime(2018, 2, 19, tzinfo=ZoneInfo("America/New_York"))
        assert str(info.next) == "2018-02-19 00:00:00-05:00"
        assert (info.action, info.overlap) == ("push to queue q", "skip")
        assert hr.schedules.get("nightly") == info
        assert hr.schedules.list(prefix="n") == [info]
        assert hr.schedules.list(prefix="x") == []

    def test_the_coming_times_are_shown(self, hr: Any, clock: FakeClock) -> None:
        hr.schedules.add("s", every="10m", push=JOB, max_fires=2)
        start = datetime.fromtimestamp(clock.now / 1000, UTC)
        wanted = [start + timedelta(minutes=10), start + timedelta(minutes=20)]
        assert hr.schedules.next("s", 5) == wanted
        assert hr.schedules.next("s", 1) == wanted[:1]
        hr.schedules.pause("s")
        assert hr.schedules.next("s") == []
        berlin = hr.schedules.next(cron="0 12 * * *", zone="Europe/Berlin", count=3)
        assert [moment.hour for moment in berlin] == [12, 12, 12]
        assert hr.schedules.next(at="2030-01-31T12:00:00Z") == [
            datetime(2030, 1, 31, 12, tzinfo=UTC)
        ]
        assert hr.schedules.next(at="2020-01-31T12:00:00Z") == []
        with pytest.raises(InvalidOption):
            hr.schedules.next()
        with pytest.raises(InvalidOption):
            hr.schedules.next("s", every=1)

    def test_it_is_paused_resumed_triggered_and_removed(self, hr: Any) -> None:
        hr.schedules.add("s", every="10m", commit=Commit("t", {"n": 1}))
        assert hr.schedules.pause("s").state == "paused"
        assert hr.schedules.trigger("s").outcome == "fired"
        assert bodies(hr.range("t")) == [{"n": 1}]
        assert hr.schedules.resume("s").state == "active"
        assert hr.schedules.remove("s").name == "s"
        with pytest.raises(UnknownSchedule):
            hr.schedules.get("s")

    @pytest.mark.parametrize(
        ("option", "options"),
        [
            ("cron", {"cron": "* * * *"}),
            ("cron", {"cron": "0 30 2 * * *"}),
            ("cron", {"cron": "61 2 * * *"}),
            ("cron", {"cron": "0 22-2 * * *"}),
            ("cron", {"cron": "0 0 30 2 *"}),
            ("cron", {"cron": "@reboot"}),
            ("cron", {"cron": ""}),
            ("cron", {"cron": 5}),
            ("cron", {}),
            ("cron", {"cron": "* * * * *", "every": 5}),
            ("zone", {"cron": "* * * * *", "zone": "Europe/Berlim"}),
            ("zone", {"cron": "* * * * *", "zone": "../../etc/passwd"}),
            ("zone", {"cron": "* * * * *", "zone": 1}),
            ("zone", {"every": 5, "zone": "Europe/Berlin"}),
            ("every", {"every": -5}),
            ("every", {"every": 0}),
            ("every", {"every": 0.01}),
            ("every", {"every": "often"}),
            ("at", {"at": "2030-01-31T12:00:00"}),
            ("at", {"at": -5}),
            ("at", {"at": 2**45}),
            ("at", {"at": "2030-01-31T12:00:00Z", "ends_at": "2030-01-31T12:00:00Z"}),
            ("misfire", {"every": 5, "misfire": "never"}),
            ("overlap", {"every": 5, "overlap": "maybe"}),
            ("spread", {"every": 5, "spread": -1}),
            ("max_fires", {"every": 5, "max_fires": 0}),
            ("ends_at", {"every": 5, "starts_at": 2000, "ends_at": 1000}),
            ("push", {"every": 5, "push": {"to": "ann"}}),
            ("push", {"every": 5, "commit": Commit("t", {})}),
            ("commit", {"every": 5, "commit": "t", "push": None}),
            ("overlap", {"every": 5, "commit": Commit("t", {}), "push": None, "overlap": "skip"}),
            ("overlap", {"every": 5, "push": Push("q", 1, subject="x"), "overlap": "allow"}),
            ("overlap", {"every": 5, "push": None, "upsert": JOB, "overlap": "queue"}),
            ("at", {"every": 5, "push": Push("q", 1, at=5)}),
            ("colour", {"every": 5, "colour": "red"}),
        ],
    )
    def test_wrong_options_are_refused_by_name(
        self, hr: Any, option: str, options: dict[str, Any]
    ) -> None:
        with pytest.raises(InvalidOption) as caught:
            hr.schedules.add("s", **{"push": JOB, **options})
        assert caught.value.details["option"] == option
        assert hr.schedules.list() == []

    @pytest.mark.parametrize(
        ("error", "options"),
        [
            (InvalidQueueName, {"pause": "a/b"}),
            (ReservedName, {"pause": "_own"}),
            (ReservedName, {"push": Push("_own", 1)}),
            (ReservedName, {"commit": Commit("_own", {})}),
        ],
    )
    def test_wrong_names_are_refused(
        self, hr: Any, error: type[HeadraceError], options: dict[str, Any]
    ) -> None:
        with pytest.raises(error):
            hr.schedules.add("s", every=5, **options)
        assert hr.schedules.list() == []

    @pytest.mark.parametrize("name", ["", "a/b", " ", "..", 7, None, "x" * 201])
    def test_a_name_that_cannot_name_a_schedule_is_refused(self, hr: Any, name: Any) -> None:
        uses = (hr.schedules.get, hr.schedules.pause, hr.schedules.trigger, hr.schedules.remove)
        for use in (*uses, lambda name: hr.schedules.add(name, every=5, push=JOB)):
            with pytest.raises(InvalidOption):
                use(name)

    def test_reserved_names_are_refused(self, hr: Any) -> None:
        for use in (hr.schedules.pause, hr.schedules.resume, hr.schedules.remove):
            with pytest.raises(ReservedName):
                use("_own")
        with pytest.raises(ReservedName):
            hr.schedules.add("_own", every=5, push=JOB)

    def test_days_of_the_month_and_of_the_week_are_warned_of(self, hr: Any) -> None:
        """Either suffices, as in all crons, which surprises."""
        with pytest.warns(UserWarning, match="either"):
            hr.schedules.add("s", cron="0 0 1-7 * MON", push=JOB)

    def test_a_closed_client_refuses(self, hr: Any) -> None:
        hr.close()
        for use in (
            hr.schedules.list,
            lambda: hr.schedules.add("s", every=5, push=JOB),
            lambda: hr.schedules.get("s"),
            lambda: hr.schedules.next("s"),
            lambda: hr.schedules.trigger("s"),
        ):
            with pytest.raises(NotConnected):
                use()
