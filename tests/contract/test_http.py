"""The contract through a node, over HTTP: each client talks to a server in the test's process.

Transactions of several operations are left out: a node keeps none open.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.testing import contract
from headrace.testing.clocks import FakeClock
from served_node import ServedNode, Way

ALWAYS = [Way("tcp", "json", "memory"), Way("unix", "msgpack", "sqlite")]
THOROUGH = [
    Way("unix", "msgpack", "memory"),
    Way("tcp", "json", "sqlite"),
    Way("tcp", "json", "postgres"),
    Way("unix", "msgpack", "postgres"),
]
WAYS = [
    *(pytest.param(way, id=str(way)) for way in ALWAYS),
    *(pytest.param(way, id=str(way), marks=pytest.mark.thorough) for way in THOROUGH),
]


class Http:
    @pytest.fixture(params=WAYS)
    def node_way(self, request: pytest.FixtureRequest) -> Way:
        way: Way = request.param
        return way

    @pytest.fixture
    def store_url(
        self, request: pytest.FixtureRequest, served: ServedNode, node_way: Way, clock: FakeClock
    ) -> Iterator[str]:
        behind = request.getfixturevalue(f"{node_way.store}_url")
        with served.serving(behind, clock=clock):
            yield node_way.url(served)

    @pytest.fixture
    def client_options(self) -> dict[str, Any]:
        """The node has the clock."""
        return {}


class TestCommit(Http, contract.CommitContract): ...


class TestIdempotencyKey(Http, contract.IdempotencyKeyContract): ...


class TestRange(Http, contract.RangeContract): ...


class TestProcOffset(Http, contract.ProcOffsetContract): ...


class TestProcClaim(Http, contract.ProcClaimContract): ...


class TestProcFailure(Http, contract.ProcFailureContract): ...


class TestProcLifecycle(Http, contract.ProcLifecycleContract): ...


class TestPartialAck(Http, contract.PartialAckContract): ...


class TestClaimSpan(Http, contract.ClaimSpanContract): ...


class TestPipeline(Http, contract.PipelineContract): ...


class TestClient(Http, contract.ClientContract): ...


class TestTransaction(Http, contract.TransactionContract): ...


class TestLiveProc(Http, contract.LiveProcContract): ...


class TestRetention(Http, contract.RetentionContract): ...


class TestDiagnosis(Http, contract.DiagnosisContract): ...


class TestPush(Http, contract.PushContract): ...


class TestUpsert(Http, contract.UpsertContract): ...


class TestItemClaim(Http, contract.ItemClaimContract): ...


class TestOutcome(Http, contract.OutcomeContract): ...


class TestItemFailure(Http, contract.ItemFailureContract): ...


class TestDeadItem(Http, contract.DeadItemContract): ...


class TestItem(Http, contract.ItemContract): ...


class TestQueueLifecycle(Http, contract.QueueLifecycleContract): ...


class TestQueueCount(Http, contract.QueueCountContract): ...


class TestWorker(Http, contract.WorkerContract): ...


class TestQueueMaintenance(Http, contract.QueueMaintenanceContract): ...


class TestQueueTransaction(Http, contract.QueueTransactionContract): ...


class TestAckPush(Http, contract.AckPushContract): ...


class TestReplay(Http, contract.ReplayContract): ...


class TestHeartbeat(Http, contract.HeartbeatContract): ...


class TestQueueClient(Http, contract.QueueClientContract): ...


class TestItemOutcome(Http, contract.ItemOutcomeContract): ...


class TestQueueInspection(Http, contract.QueueInspectionContract): ...


class TestDeadLetter(Http, contract.DeadLetterContract): ...


class TestQueueSettingsUpdate(Http, contract.QueueSettingsUpdateContract): ...


class TestChannel(Http, contract.ChannelContract): ...


class TestChannelClient(Http, contract.ChannelClientContract): ...


class TestChannelUpdate(Http, contract.ChannelUpdateContract): ...


class TestSelection(Http, contract.SelectionContract): ...


class TestWaitingPush(Http, contract.WaitingPushContract): ...


class TestChannelDelay(Http, contract.ChannelDelayContract): ...


class TestChannelDelayClient(Http, contract.ChannelDelayClientContract): ...


class TestQueueCapacity(Http, contract.QueueCapacityContract): ...


class TestLimitRule(Http, contract.LimitRuleContract): ...


class TestLimitClaim(Http, contract.LimitClaimContract): ...


class TestParkedChannel(Http, contract.ParkedChannelContract): ...


class TestLimitPush(Http, contract.LimitPushContract): ...


class TestLimitClient(Http, contract.LimitClientContract): ...


class TestSink(Http, contract.SinkContract): ...


class TestLock(Http, contract.LockContract): ...


class TestLockClient(Http, contract.LockClientContract): ...


class TestCounter(Http, contract.CounterContract): ...


class TestCounterClient(Http, contract.CounterClientContract): ...


class TestToken(Http, contract.TokenContract): ...


class TestTokenClient(Http, contract.TokenClientContract): ...


class TestSchedule(Http, contract.ScheduleContract): ...


class TestScheduleClient(Http, contract.ScheduleClientContract): ...


class TestNotification(Http, contract.NotificationContract): ...


class TestReservedName(Http, contract.ReservedNameContract): ...
