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
