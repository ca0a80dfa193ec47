"""The contract on Postgres."""

import pytest

from headrace.testing import contract


class Postgres:
    @pytest.fixture
    def store_url(self, postgres_url: str) -> str:
        return postgres_url


class TestCommit(Postgres, contract.CommitContract): ...


class TestKey(Postgres, contract.KeyContract): ...


class TestRange(Postgres, contract.RangeContract): ...


class TestOffset(Postgres, contract.OffsetContract): ...


class TestClaim(Postgres, contract.ClaimContract): ...


class TestFailure(Postgres, contract.FailureContract): ...


class TestProcLife(Postgres, contract.ProcLifeContract): ...


class TestClient(Postgres, contract.ClientContract): ...


class TestTransaction(Postgres, contract.TransactionContract): ...


class TestLive(Postgres, contract.LiveContract): ...


class TestCollection(Postgres, contract.CollectionContract): ...


class TestDiagnosis(Postgres, contract.DiagnosisContract): ...


class TestPush(Postgres, contract.PushContract): ...


class TestUpsert(Postgres, contract.UpsertContract): ...


class TestItemClaim(Postgres, contract.ItemClaimContract): ...


class TestOutcome(Postgres, contract.OutcomeContract): ...


class TestItemFailure(Postgres, contract.ItemFailureContract): ...


class TestDeadItem(Postgres, contract.DeadItemContract): ...


class TestItem(Postgres, contract.ItemContract): ...


class TestQueueLife(Postgres, contract.QueueLifeContract): ...


class TestCount(Postgres, contract.CountContract): ...


class TestWorker(Postgres, contract.WorkerContract): ...


class TestTending(Postgres, contract.TendingContract): ...


class TestQueueTransaction(Postgres, contract.QueueTransactionContract): ...


class TestFollowing(Postgres, contract.FollowingContract): ...


class TestReplay(Postgres, contract.ReplayContract): ...


class TestQueueClient(Postgres, contract.QueueClientContract): ...


class TestItemOutcome(Postgres, contract.ItemOutcomeContract): ...


class TestQueueLook(Postgres, contract.QueueLookContract): ...


class TestDeadLetter(Postgres, contract.DeadLetterContract): ...


class TestQueueUpdate(Postgres, contract.QueueUpdateContract): ...


class TestQueueKind(Postgres, contract.QueueKindContract): ...


class TestSink(Postgres, contract.SinkContract): ...
