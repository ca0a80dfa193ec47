"""Everything that goes into an operation or comes out of it survives encoding.

HTTP clients and Spark's executors rely on it. The whole contract runs on a store that
sends each argument and each result through JSON.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from headrace.contract.op import Op, Steps
from headrace.contract.operations import OPERATIONS, PARTS, Operation
from headrace.core.requests import Requests
from headrace.testing import contract
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Connect
from headrace.testing.sync_facade import ClientMode, SyncFacade, connect, shut


def travelled(value: Any, hint: Any) -> Any:
    """What arrives at the other end."""
    return msgspec.json.decode(msgspec.json.encode(value), type=hint)


class WireStore:
    """A store behind JSON."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return WirePart(self._inner, name) if name in PARTS else getattr(self._inner, name)


class WirePart:
    """One part of a store behind JSON."""

    def __init__(self, inner: Any, part: str) -> None:
        self._inner = inner
        self._part = part

    def __getattr__(self, name: str) -> Any:
        return self._over_wire(OPERATIONS[f"{self._part}.{name}"])

    def _over_wire(self, operation: Operation) -> Callable[..., Op[Any]]:
        def method(*args: Any, **named: Any) -> Op[Any]:
            arguments = travelled(operation.arguments(*args, **named), operation.arguments)
            op = operation.build(self._inner, arguments)
            op.accept()

            def steps() -> Steps[Any]:
                result = yield from op
                return travelled(result, operation.result)

            return Op(op.name, steps, writes=op.writes)

        return method


class Wire:
    @pytest.fixture
    def connect(self, mode: ClientMode, memory_url: str, clock: FakeClock) -> Iterator[Connect]:
        clients = []

        def open_client(**options: Any) -> Any:
            client = connect(mode, memory_url, **{"clock": clock, **options})
            inner = client._inner if isinstance(client, SyncFacade) else client
            inner._store = WireStore(inner._store)
            inner._requests = Requests(inner._store, max_body=inner._max_body)
            clients.append(client)
            return client

        yield open_client
        for client in clients:
            shut(client)


class TestCommit(Wire, contract.CommitContract): ...


class TestIdempotencyKey(Wire, contract.IdempotencyKeyContract): ...


class TestRange(Wire, contract.RangeContract): ...


class TestProcOffset(Wire, contract.ProcOffsetContract): ...


class TestProcClaim(Wire, contract.ProcClaimContract): ...


class TestProcFailure(Wire, contract.ProcFailureContract): ...


class TestProcLifecycle(Wire, contract.ProcLifecycleContract): ...


class TestPartialAck(Wire, contract.PartialAckContract): ...


class TestClaimSpan(Wire, contract.ClaimSpanContract): ...


class TestPipeline(Wire, contract.PipelineContract): ...


class TestClient(Wire, contract.ClientContract): ...


class TestTransaction(Wire, contract.TransactionContract): ...


class TestLiveProc(Wire, contract.LiveProcContract): ...


class TestRetention(Wire, contract.RetentionContract): ...


class TestDiagnosis(Wire, contract.DiagnosisContract): ...


class TestPush(Wire, contract.PushContract): ...


class TestUpsert(Wire, contract.UpsertContract): ...


class TestItemClaim(Wire, contract.ItemClaimContract): ...


class TestOutcome(Wire, contract.OutcomeContract): ...


class TestItemFailure(Wire, contract.ItemFailureContract): ...


class TestDeadItem(Wire, contract.DeadItemContract): ...


class TestItem(Wire, contract.ItemContract): ...


class TestQueueLifecycle(Wire, contract.QueueLifecycleContract): ...


class TestQueueCount(Wire, contract.QueueCountContract): ...


class TestWorker(Wire, contract.WorkerContract): ...


class TestQueueMaintenance(Wire, contract.QueueMaintenanceContract): ...


class TestQueueTransaction(Wire, contract.QueueTransactionContract): ...


class TestAckPush(Wire, contract.AckPushContract): ...


class TestReplay(Wire, contract.ReplayContract): ...


class TestHeartbeat(Wire, contract.HeartbeatContract): ...


class TestQueueClient(Wire, contract.QueueClientContract): ...


class TestItemOutcome(Wire, contract.ItemOutcomeContract): ...


class TestQueueInspection(Wire, contract.QueueInspectionContract): ...


class TestDeadLetter(Wire, contract.DeadLetterContract): ...


class TestQueueSettingsUpdate(Wire, contract.QueueSettingsUpdateContract): ...


class TestChannel(Wire, contract.ChannelContract): ...


class TestChannelClient(Wire, contract.ChannelClientContract): ...


class TestChannelUpdate(Wire, contract.ChannelUpdateContract): ...


class TestSelection(Wire, contract.SelectionContract): ...


class TestWaitingPush(Wire, contract.WaitingPushContract): ...


class TestChannelDelay(Wire, contract.ChannelDelayContract): ...


class TestChannelDelayClient(Wire, contract.ChannelDelayClientContract): ...


class TestQueueCapacity(Wire, contract.QueueCapacityContract): ...


class TestLimitRule(Wire, contract.LimitRuleContract): ...


class TestLimitClaim(Wire, contract.LimitClaimContract): ...


class TestParkedChannel(Wire, contract.ParkedChannelContract): ...


class TestLimitPush(Wire, contract.LimitPushContract): ...


class TestLimitClient(Wire, contract.LimitClientContract): ...


class TestSink(Wire, contract.SinkContract): ...


class TestLock(Wire, contract.LockContract): ...


class TestLockClient(Wire, contract.LockClientContract): ...


class TestCounter(Wire, contract.CounterContract): ...


class TestCounterClient(Wire, contract.CounterClientContract): ...


class TestToken(Wire, contract.TokenContract): ...


class TestTokenClient(Wire, contract.TokenClientContract): ...


class TestSchedule(Wire, contract.ScheduleContract): ...


class TestScheduleClient(Wire, contract.ScheduleClientContract): ...


class TestReservedName(Wire, contract.ReservedNameContract): ...


class TestNotification(Wire, contract.NotificationContract): ...
