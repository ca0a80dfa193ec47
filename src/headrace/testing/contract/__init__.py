"""The contract, as tests: what every driver does, in blocking and in async code.

Subclass each class with a ``store_url`` fixture that gives an empty store, and pytest
runs it::

    class MyDriver:
        @pytest.fixture
        def store_url(self, tmp_path):
            return f"mydriver:///{tmp_path}/store"

    class TestCommit(MyDriver, contract.CommitContract): ...

``CONTRACTS`` lists them all; a test of your own may check that you run every one.
"""

from headrace.testing.contract.base import Contract
from headrace.testing.contract.clients import ClientContract
from headrace.testing.contract.collections import CollectionContract
from headrace.testing.contract.commits import CommitContract
from headrace.testing.contract.counters import CounterClientContract, CounterContract
from headrace.testing.contract.diagnoses import DiagnosisContract
from headrace.testing.contract.keys import KeyContract
from headrace.testing.contract.limit_claims import LimitClaimContract
from headrace.testing.contract.limit_clients import LimitClientContract
from headrace.testing.contract.limit_crowds import LimitCrowdContract
from headrace.testing.contract.limit_pushes import LimitPushContract
from headrace.testing.contract.limit_rules import LimitRuleContract
from headrace.testing.contract.lives import LiveContract
from headrace.testing.contract.locks import LockClientContract, LockContract
from headrace.testing.contract.pipelines import (
    AckPartContract,
    ClaimSpanContract,
    PipelineContract,
)
from headrace.testing.contract.proc_claims import ClaimContract
from headrace.testing.contract.proc_failures import FailureContract
from headrace.testing.contract.proc_life import ProcLifeContract
from headrace.testing.contract.proc_offsets import OffsetContract
from headrace.testing.contract.queue_channel_clients import ChannelClientContract
from headrace.testing.contract.queue_channel_holds import (
    ChannelHoldClientContract,
    ChannelHoldContract,
)
from headrace.testing.contract.queue_channel_updates import ChannelUpdateContract
from headrace.testing.contract.queue_channels import ChannelContract
from headrace.testing.contract.queue_claims import ItemClaimContract
from headrace.testing.contract.queue_client_looks import QueueLookContract
from headrace.testing.contract.queue_client_outcomes import ItemOutcomeContract
from headrace.testing.contract.queue_clients import QueueClientContract
from headrace.testing.contract.queue_counts import CountContract
from headrace.testing.contract.queue_dead import DeadItemContract
from headrace.testing.contract.queue_failures import ItemFailureContract
from headrace.testing.contract.queue_filling import FillingContract
from headrace.testing.contract.queue_following import FollowingContract
from headrace.testing.contract.queue_hints import HintContract
from headrace.testing.contract.queue_items import ItemContract
from headrace.testing.contract.queue_kinds import QueueKindContract
from headrace.testing.contract.queue_letters import DeadLetterContract
from headrace.testing.contract.queue_life import QueueLifeContract
from headrace.testing.contract.queue_outcomes import OutcomeContract
from headrace.testing.contract.queue_pushes import PushContract
from headrace.testing.contract.queue_replays import ReplayContract
from headrace.testing.contract.queue_room import RoomContract
from headrace.testing.contract.queue_selections import SelectionContract
from headrace.testing.contract.queue_tending import TendingContract
from headrace.testing.contract.queue_transactions import QueueTransactionContract
from headrace.testing.contract.queue_updates import QueueUpdateContract
from headrace.testing.contract.queue_upserts import UpsertContract
from headrace.testing.contract.queue_workers import WorkerContract
from headrace.testing.contract.ranges import RangeContract
from headrace.testing.contract.sinks import SinkContract
from headrace.testing.contract.transactions import TransactionContract

CONTRACTS: tuple[type[Contract], ...] = (
    CommitContract,
    KeyContract,
    RangeContract,
    OffsetContract,
    ClaimContract,
    FailureContract,
    ProcLifeContract,
    AckPartContract,
    ClaimSpanContract,
    PipelineContract,
    ClientContract,
    TransactionContract,
    LiveContract,
    CollectionContract,
    DiagnosisContract,
    PushContract,
    UpsertContract,
    ItemClaimContract,
    OutcomeContract,
    ItemFailureContract,
    DeadItemContract,
    ItemContract,
    QueueLifeContract,
    CountContract,
    WorkerContract,
    TendingContract,
    QueueTransactionContract,
    FollowingContract,
    ReplayContract,
    QueueClientContract,
    ItemOutcomeContract,
    QueueLookContract,
    DeadLetterContract,
    QueueUpdateContract,
    QueueKindContract,
    ChannelContract,
    ChannelClientContract,
    ChannelUpdateContract,
    SelectionContract,
    RoomContract,
    ChannelHoldContract,
    ChannelHoldClientContract,
    FillingContract,
    LimitRuleContract,
    LimitClaimContract,
    LimitCrowdContract,
    LimitPushContract,
    LimitClientContract,
    SinkContract,
    LockContract,
    LockClientContract,
    CounterContract,
    CounterClientContract,
    HintContract,
)

__all__ = [
    "CONTRACTS",
    "AckPartContract",
    "ChannelClientContract",
    "ChannelContract",
    "ChannelHoldClientContract",
    "ChannelHoldContract",
    "ChannelUpdateContract",
    "ClaimContract",
    "ClaimSpanContract",
    "ClientContract",
    "CollectionContract",
    "CommitContract",
    "Contract",
    "CountContract",
    "CounterClientContract",
    "CounterContract",
    "DeadItemContract",
    "DeadLetterContract",
    "DiagnosisContract",
    "FailureContract",
    "FillingContract",
    "FollowingContract",
    "HintContract",
    "ItemClaimContract",
    "ItemContract",
    "ItemFailureContract",
    "ItemOutcomeContract",
    "KeyContract",
    "LimitClaimContract",
    "LimitClientContract",
    "LimitCrowdContract",
    "LimitPushContract",
    "LimitRuleContract",
    "LiveContract",
    "LockClientContract",
    "LockContract",
    "OffsetContract",
    "OutcomeContract",
    "PipelineContract",
    "ProcLifeContract",
    "PushContract",
    "QueueClientContract",
    "QueueKindContract",
    "QueueLifeContract",
    "QueueLookContract",
    "QueueTransactionContract",
    "QueueUpdateContract",
    "RangeContract",
    "ReplayContract",
    "RoomContract",
    "SelectionContract",
    "SinkContract",
    "TendingContract",
    "TransactionContract",
    "UpsertContract",
    "WorkerContract",
]
