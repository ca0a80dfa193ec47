"""The contract on Sqlite."""

import pytest

from headrace.testing import contract


class Sqlite:
    @pytest.fixture
    def store_url(self, sqlite_url: str) -> str:
        return sqlite_url


class TestCommit(Sqlite, contract.CommitContract): ...


class TestKey(Sqlite, contract.KeyContract): ...


class TestRange(Sqlite, contract.RangeContract): ...


class TestOffset(Sqlite, contract.OffsetContract): ...


class TestClaim(Sqlite, contract.ClaimContract): ...


class TestFailure(Sqlite, contract.FailureContract): ...


class TestProcLife(Sqlite, contract.ProcLifeContract): ...


class TestClient(Sqlite, contract.ClientContract): ...


class TestTransaction(Sqlite, contract.TransactionContract): ...


class TestLive(Sqlite, contract.LiveContract): ...


class TestCollection(Sqlite, contract.CollectionContract): ...


class TestDiagnosis(Sqlite, contract.DiagnosisContract): ...


class TestPush(Sqlite, contract.PushContract): ...


class TestUpsert(Sqlite, contract.UpsertContract): ...


class TestItemClaim(Sqlite, contract.ItemClaimContract): ...


class TestOutcome(Sqlite, contract.OutcomeContract): ...


class TestItemFailure(Sqlite, contract.ItemFailureContract): ...


class TestDeadItem(Sqlite, contract.DeadItemContract): ...


class TestItem(Sqlite, contract.ItemContract): ...


class TestQueueLife(Sqlite, contract.QueueLifeContract): ...


class TestCount(Sqlite, contract.CountContract): ...


class TestWorker(Sqlite, contract.WorkerContract): ...


class TestTending(Sqlite, contract.TendingContract): ...


class TestQueueTransaction(Sqlite, contract.QueueTransactionContract): ...


class TestFollowing(Sqlite, contract.FollowingContract): ...


class TestReplay(Sqlite, contract.ReplayContract): ...


class TestQueueClient(Sqlite, contract.QueueClientContract): ...


class TestItemOutcome(Sqlite, contract.ItemOutcomeContract): ...


class TestQueueLook(Sqlite, contract.QueueLookContract): ...


class TestDeadLetter(Sqlite, contract.DeadLetterContract): ...


class TestQueueUpdate(Sqlite, contract.QueueUpdateContract): ...


class TestQueueKind(Sqlite, contract.QueueKindContract): ...


class TestSink(Sqlite, contract.SinkContract): ...
