"""The contract on a store with only topics, procs and queues.

Tests that need another part are expected failures. The client refuses to use such a part.
"""

import threading
from collections.abc import Callable, Iterator

import pytest
from msgspec import structs

import headrace
from headrace.contract.missing_part import add_missing_parts
from headrace.drivers.memory import store as memory_store
from headrace.drivers.memory.store import MemorySession, MemoryStore
from headrace.errors import UnsupportedStore
from headrace.testing import contract


class BareStore(MemoryStore):
    """A store in memory without the parts that a driver may lack."""

    name = "bare"
    capabilities = structs.replace(MemoryStore.capabilities, parts=frozenset())

    def _compose(self) -> None:
        super()._compose()
        add_missing_parts(self)


class BareSession(MemorySession):
    """The session of a bare store."""

    name = "bare"
    capabilities = BareStore.capabilities

    def _compose(self) -> None:
        super()._compose()
        add_missing_parts(self)


class Bare:
    @pytest.fixture
    def store_url(self, memory_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
        monkeypatch.setattr(memory_store, "MemoryStore", BareStore)
        monkeypatch.setattr(memory_store, "MemorySession", BareSession)
        return memory_url


class TestMissingParts(Bare):
    """The client refuses a part that the driver lacks before it sends anything."""

    @pytest.fixture
    def hr(self, store_url: str) -> Iterator[headrace.Headrace]:
        with headrace.connect(store_url) as hr:
            yield hr

    def test_a_noun_that_the_store_lacks_is_refused_at_its_first_attribute(
        self, hr: headrace.Headrace
    ) -> None:
        for noun in ("limits", "locks", "counters", "sinks", "pipelines", "tokens", "schedules"):
            with pytest.raises(UnsupportedStore, match=f"the bare store has no {noun}"):
                getattr(hr, noun).list  # noqa: B018
        queue = hr.queue("q")
        for noun in (queue.channels, queue.selections):
            with pytest.raises(UnsupportedStore, match="the bare store has no channels"):
                noun.list  # noqa: B018

    @pytest.mark.parametrize(
        ("part", "use"),
        [
            ("channels", lambda hr: hr.queue("q").channels.list()),
            ("limits", lambda hr: hr.limits.create({"os": "mac"}, 1)),
            ("locks", lambda hr: hr.lock({"site": "shop"}).acquire()),
            ("counters", lambda hr: hr.slots({"api": "maps"}).acquire()),
            ("sinks", lambda hr: hr.sinks.list()),
            ("pipelines", lambda hr: hr.pipelines.list()),
            ("tokens", lambda hr: hr.tokens.list()),
            ("schedules", lambda hr: hr.schedules.list()),
            ("admin", lambda hr: hr.admin.diagnose()),
        ],
    )
    def test_the_error_names_the_missing_part(
        self, hr: headrace.Headrace, part: str, use: Callable[[headrace.Headrace], object]
    ) -> None:
        hr.queues.create("q")
        with pytest.raises(UnsupportedStore) as caught:
            use(hr)
        assert caught.value.part == part
        assert str(caught.value).startswith(f"the bare store has no {part}: ")

    def test_capabilities_list_the_parts(self, hr: headrace.Headrace) -> None:
        assert hr.capabilities.parts == frozenset()

    def test_a_session_refuses_a_missing_part(self, hr: headrace.Headrace) -> None:
        with hr._store.transaction() as session, pytest.raises(UnsupportedStore):
            session.locks.guard("site=shop", "me")

    def test_a_worker_needs_topics_procs_and_queues_only(self, hr: headrace.Headrace) -> None:
        done = threading.Event()
        with hr.queue("q").start_worker(lambda item: done.set()):
            hr.push("q", 1)
            assert done.wait(20)


class TestCommit(Bare, contract.CommitContract): ...


class TestIdempotencyKey(Bare, contract.IdempotencyKeyContract): ...


class TestRange(Bare, contract.RangeContract): ...


class TestProcOffset(Bare, contract.ProcOffsetContract): ...


class TestProcClaim(Bare, contract.ProcClaimContract): ...


class TestProcFailure(Bare, contract.ProcFailureContract): ...


class TestProcLifecycle(Bare, contract.ProcLifecycleContract): ...


class TestPartialAck(Bare, contract.PartialAckContract): ...


class TestClaimSpan(Bare, contract.ClaimSpanContract): ...


class TestPipeline(Bare, contract.PipelineContract): ...


class TestClient(Bare, contract.ClientContract): ...


class TestTransaction(Bare, contract.TransactionContract): ...


class TestLiveProc(Bare, contract.LiveProcContract): ...


class TestRetention(Bare, contract.RetentionContract): ...


class TestDiagnosis(Bare, contract.DiagnosisContract): ...


class TestPush(Bare, contract.PushContract): ...


class TestUpsert(Bare, contract.UpsertContract): ...


class TestItemClaim(Bare, contract.ItemClaimContract): ...


class TestOutcome(Bare, contract.OutcomeContract): ...


class TestItemFailure(Bare, contract.ItemFailureContract): ...


class TestDeadItem(Bare, contract.DeadItemContract): ...


class TestItem(Bare, contract.ItemContract): ...


class TestQueueLifecycle(Bare, contract.QueueLifecycleContract): ...


class TestQueueCount(Bare, contract.QueueCountContract): ...


class TestWorker(Bare, contract.WorkerContract): ...


class TestQueueMaintenance(Bare, contract.QueueMaintenanceContract): ...


class TestQueueTransaction(Bare, contract.QueueTransactionContract): ...


class TestAckPush(Bare, contract.AckPushContract): ...


class TestReplay(Bare, contract.ReplayContract): ...


class TestHeartbeat(Bare, contract.HeartbeatContract): ...


class TestQueueClient(Bare, contract.QueueClientContract): ...


class TestItemOutcome(Bare, contract.ItemOutcomeContract): ...


class TestQueueInspection(Bare, contract.QueueInspectionContract): ...


class TestDeadLetter(Bare, contract.DeadLetterContract): ...


class TestQueueSettingsUpdate(Bare, contract.QueueSettingsUpdateContract): ...


class TestChannel(Bare, contract.ChannelContract): ...


class TestChannelClient(Bare, contract.ChannelClientContract): ...


class TestChannelUpdate(Bare, contract.ChannelUpdateContract): ...


class TestSelection(Bare, contract.SelectionContract): ...


class TestWaitingPush(Bare, contract.WaitingPushContract): ...


class TestChannelDelay(Bare, contract.ChannelDelayContract): ...


class TestChannelDelayClient(Bare, contract.ChannelDelayClientContract): ...


class TestQueueCapacity(Bare, contract.QueueCapacityContract): ...


class TestLimitRule(Bare, contract.LimitRuleContract): ...


class TestLimitClaim(Bare, contract.LimitClaimContract): ...


class TestParkedChannel(Bare, contract.ParkedChannelContract): ...


class TestLimitPush(Bare, contract.LimitPushContract): ...


class TestLimitClient(Bare, contract.LimitClientContract): ...


class TestSink(Bare, contract.SinkContract): ...


class TestLock(Bare, contract.LockContract): ...


class TestLockClient(Bare, contract.LockClientContract): ...


class TestCounter(Bare, contract.CounterContract): ...


class TestCounterClient(Bare, contract.CounterClientContract): ...


class TestToken(Bare, contract.TokenContract): ...


class TestTokenClient(Bare, contract.TokenClientContract): ...


class TestSchedule(Bare, contract.ScheduleContract): ...


class TestScheduleClient(Bare, contract.ScheduleClientContract): ...


class TestReservedName(Bare, contract.ReservedNameContract): ...


class TestNotification(Bare, contract.NotificationContract): ...
