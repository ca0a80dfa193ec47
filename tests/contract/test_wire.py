"""Everything that goes into an operation or comes out of it survives encoding.

HTTP clients and Spark's executors rely on it. The whole contract runs on a store that
sends each argument and each result through JSON.
"""

import typing
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from headrace.contract.channels import ChannelStore
from headrace.contract.counters import CounterStore
from headrace.contract.limits import LimitStore
from headrace.contract.locks import LockStore
from headrace.contract.op import Op, Steps
from headrace.contract.pipelines import PipelineStore
from headrace.contract.queues import QueueStore
from headrace.contract.sinks import SinkStore
from headrace.contract.store import DiagnosisStore, MaintenanceStore, ProcStore, TopicStore
from headrace.testing import contract
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Connect
from headrace.testing.faces import BlockingFace, FaceName, connect, shut

OPERATIONS = {
    name: typing.get_type_hints(method)
    for protocol in (
        TopicStore,
        ProcStore,
        PipelineStore,
        MaintenanceStore,
        DiagnosisStore,
        QueueStore,
        ChannelStore,
        LimitStore,
        SinkStore,
        LockStore,
        CounterStore,
    )
    for name, method in vars(protocol).items()
    if not name.startswith("_")
}


def travelled(value: Any, hint: Any) -> Any:
    """What arrives at the other end."""
    return msgspec.json.decode(msgspec.json.encode(value), type=hint)


class WireStore:
    """A store behind JSON."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        build = getattr(self._inner, name)
        return self._over_wire(name, build) if name in OPERATIONS else build

    def _over_wire(self, name: str, build: Callable[..., Op[Any]]) -> Callable[..., Op[Any]]:
        hints = OPERATIONS[name]
        [result_hint] = typing.get_args(hints["return"])

        def method(*args: Any) -> Op[Any]:
            arguments = zip(args, list(hints.values())[:-1], strict=True)
            op = build(*(travelled(value, hint) for value, hint in arguments))
            op.accept()

            def steps() -> Steps[Any]:
                result = yield from op
                return travelled(result, result_hint)

            return Op(op.name, steps, writes=op.writes)

        return method


class Wire:
    @pytest.fixture
    def connect(self, face: FaceName, memory_url: str, clock: FakeClock) -> Iterator[Connect]:
        clients = []

        def open_client(**options: Any) -> Any:
            client = connect(face, memory_url, **{"clock": clock, **options})
            inner = client._inner if isinstance(client, BlockingFace) else client
            inner._store = inner._built.store = WireStore(inner._store)
            inner._built_for_queues.store = inner._store
            clients.append(client)
            return client

        yield open_client
        for client in clients:
            shut(client)


class TestCommit(Wire, contract.CommitContract): ...


class TestKey(Wire, contract.KeyContract): ...


class TestRange(Wire, contract.RangeContract): ...


class TestOffset(Wire, contract.OffsetContract): ...


class TestClaim(Wire, contract.ClaimContract): ...


class TestFailure(Wire, contract.FailureContract): ...


class TestProcLife(Wire, contract.ProcLifeContract): ...


class TestAckPart(Wire, contract.AckPartContract): ...


class TestClaimSpan(Wire, contract.ClaimSpanContract): ...


class TestPipeline(Wire, contract.PipelineContract): ...


class TestClient(Wire, contract.ClientContract): ...


class TestTransaction(Wire, contract.TransactionContract): ...


class TestLive(Wire, contract.LiveContract): ...


class TestCollection(Wire, contract.CollectionContract): ...


class TestDiagnosis(Wire, contract.DiagnosisContract): ...


class TestPush(Wire, contract.PushContract): ...


class TestUpsert(Wire, contract.UpsertContract): ...


class TestItemClaim(Wire, contract.ItemClaimContract): ...


class TestOutcome(Wire, contract.OutcomeContract): ...


class TestItemFailure(Wire, contract.ItemFailureContract): ...


class TestDeadItem(Wire, contract.DeadItemContract): ...


class TestItem(Wire, contract.ItemContract): ...


class TestQueueLife(Wire, contract.QueueLifeContract): ...


class TestCount(Wire, contract.CountContract): ...


class TestWorker(Wire, contract.WorkerContract): ...


class TestTending(Wire, contract.TendingContract): ...


class TestQueueTransaction(Wire, contract.QueueTransactionContract): ...


class TestFollowing(Wire, contract.FollowingContract): ...


class TestReplay(Wire, contract.ReplayContract): ...


class TestQueueClient(Wire, contract.QueueClientContract): ...


class TestItemOutcome(Wire, contract.ItemOutcomeContract): ...


class TestQueueLook(Wire, contract.QueueLookContract): ...


class TestDeadLetter(Wire, contract.DeadLetterContract): ...


class TestQueueUpdate(Wire, contract.QueueUpdateContract): ...


class TestQueueKind(Wire, contract.QueueKindContract): ...


class TestChannel(Wire, contract.ChannelContract): ...


class TestChannelClient(Wire, contract.ChannelClientContract): ...


class TestChannelUpdate(Wire, contract.ChannelUpdateContract): ...


class TestSelection(Wire, contract.SelectionContract): ...


class TestRoom(Wire, contract.RoomContract): ...


class TestChannelHold(Wire, contract.ChannelHoldContract): ...


class TestChannelHoldClient(Wire, contract.ChannelHoldClientContract): ...


class TestFilling(Wire, contract.FillingContract): ...


class TestLimitRule(Wire, contract.LimitRuleContract): ...


class TestLimitClaim(Wire, contract.LimitClaimContract): ...


class TestLimitCrowd(Wire, contract.LimitCrowdContract): ...


class TestLimitPush(Wire, contract.LimitPushContract): ...


class TestLimitClient(Wire, contract.LimitClientContract): ...


class TestSink(Wire, contract.SinkContract): ...


class TestLock(Wire, contract.LockContract): ...


class TestLockClient(Wire, contract.LockClientContract): ...


class TestCounter(Wire, contract.CounterContract): ...


class TestCounterClient(Wire, contract.CounterClientContract): ...


class TestHint(Wire, contract.HintContract): ...
