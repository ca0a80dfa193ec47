"""The contract on Memory."""

import pytest

from headrace.testing import contract


class Memory:
    @pytest.fixture
    def store_url(self, memory_url: str) -> str:
        return memory_url


class TestCommit(Memory, contract.CommitContract): ...


class TestKey(Memory, contract.KeyContract): ...


class TestRange(Memory, contract.RangeContract): ...


class TestOffset(Memory, contract.OffsetContract): ...


class TestClaim(Memory, contract.ClaimContract): ...


class TestFailure(Memory, contract.FailureContract): ...


class TestProcLife(Memory, contract.ProcLifeContract): ...


class TestClient(Memory, contract.ClientContract): ...


class TestTransaction(Memory, contract.TransactionContract): ...


class TestLive(Memory, contract.LiveContract): ...


class TestCollection(Memory, contract.CollectionContract): ...


class TestDiagnosis(Memory, contract.DiagnosisContract): ...


class TestPush(Memory, contract.PushContract): ...


class TestUpsert(Memory, contract.UpsertContract): ...


class TestItemClaim(Memory, contract.ItemClaimContract): ...


class TestOutcome(Memory, contract.OutcomeContract): ...


class TestItemFailure(Memory, contract.ItemFailureContract): ...


class TestDeadItem(Memory, contract.DeadItemContract): ...


class TestItem(Memory, contract.ItemContract): ...


class TestQueueLife(Memory, contract.QueueLifeContract): ...


class TestCount(Memory, contract.CountContract): ...


class TestWorker(Memory, contract.WorkerContract): ...


class TestTending(Memory, contract.TendingContract): ...


class TestQueueTransaction(Memory, contract.QueueTransactionContract): ...


class TestFollowing(Memory, contract.FollowingContract): ...


class TestReplay(Memory, contract.ReplayContract): ...


class TestQueueClient(Memory, contract.QueueClientContract): ...


class TestItemOutcome(Memory, contract.ItemOutcomeContract): ...


class TestQueueLook(Memory, contract.QueueLookContract): ...


class TestDeadLetter(Memory, contract.DeadLetterContract): ...


class TestQueueUpdate(Memory, contract.QueueUpdateContract): ...


class TestQueueKind(Memory, contract.QueueKindContract): ...


class TestSink(Memory, contract.SinkContract): ...
