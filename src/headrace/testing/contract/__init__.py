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
from headrace.testing.contract.commits import CommitContract
from headrace.testing.contract.counters import CounterClientContract, CounterContract
from headrace.testing.contract.diagnosis import DiagnosisContract
from headrace.testing.contract.idempotency_keys import IdempotencyKeyContract
from headrace.testing.contract.limit_claims import LimitClaimContract
from headrace.testing.contract.limit_clients import LimitClientContract
from headrace.testing.contract.limit_pushes import LimitPushContract
from headrace.testing.contract.limit_rules import LimitRuleContract
from headrace.testing.contract.live_procs import LiveProcContract
from headrace.testing.contract.locks import LockClientContract, LockContract
from headrace.testing.contract.parked_channels import ParkedChannelContract
from headrace.testing.contract.pipelines import (
    ClaimSpanContract,
    PartialAckContract,
    PipelineContract,
)
from headrace.testing.contract.proc_claims import ProcClaimContract
from headrace.testing.contract.proc_failures import ProcFailureContract
from headrace.testing.contract.proc_lifecycle import ProcLifecycleContract
from headrace.testing.contract.proc_offsets import ProcOffsetContract
from headrace.testing.contract.queue_ack_push import AckPushContract
from headrace.testing.contract.queue_capacity import QueueCapacityContract
from headrace.testing.contract.queue_channel_clients import ChannelClientContract
from headrace.testing.contract.queue_channel_delays import (
    ChannelDelayClientContract,
    ChannelDelayContract,
)
from headrace.testing.contract.queue_channel_updates import ChannelUpdateContract
from headrace.testing.contract.queue_channels import ChannelContract
from headrace.testing.contract.queue_claims import ItemClaimContract
from headrace.testing.contract.queue_client_outcomes import ItemOutcomeContract
from headrace.testing.contract.queue_clients import QueueClientContract
from headrace.testing.contract.queue_counts import QueueCountContract
from headrace.testing.contract.queue_dead_items import DeadItemContract
from headrace.testing.contract.queue_dead_letters import DeadLetterContract
from headrace.testing.contract.queue_failures import ItemFailureContract
from headrace.testing.contract.queue_heartbeats import HeartbeatContract
from headrace.testing.contract.queue_inspection import QueueInspectionContract
from headrace.testing.contract.queue_items import ItemContract
from headrace.testing.contract.queue_lifecycle import QueueLifecycleContract
from headrace.testing.contract.queue_maintenance import QueueMaintenanceContract
from headrace.testing.contract.queue_notifications import NotificationContract
from headrace.testing.contract.queue_outcomes import OutcomeContract
from headrace.testing.contract.queue_pushes import PushContract
from headrace.testing.contract.queue_replays import ReplayContract
from headrace.testing.contract.queue_selections import SelectionContract
from headrace.testing.contract.queue_settings_updates import QueueSettingsUpdateContract
from headrace.testing.contract.queue_transactions import QueueTransactionContract
from headrace.testing.contract.queue_upserts import UpsertContract
from headrace.testing.contract.queue_waiting_pushes import WaitingPushContract
from headrace.testing.contract.queue_workers import WorkerContract
from headrace.testing.contract.ranges import RangeContract
from headrace.testing.contract.reserved_names import ReservedNameContract
from headrace.testing.contract.retention import RetentionContract
from headrace.testing.contract.schedules import ScheduleClientContract, ScheduleContract
from headrace.testing.contract.sinks import SinkContract
from headrace.testing.contract.tokens import TokenClientContract, TokenContract
from headrace.testing.contract.transactions import TransactionContract

CONTRACTS: tuple[type[Contract], ...] = (
    CommitContract,
    IdempotencyKeyContract,
    RangeContract,
    ProcOffsetContract,
    ProcClaimContract,
    ProcFailureContract,
    ProcLifecycleContract,
    PartialAckContract,
    ClaimSpanContract,
    PipelineContract,
    ClientContract,
    TransactionContract,
    LiveProcContract,
    RetentionContract,
    DiagnosisContract,
    PushContract,
    UpsertContract,
    ItemClaimContract,
    OutcomeContract,
    ItemFailureContract,
    DeadItemContract,
    ItemContract,
    QueueLifecycleContract,
    QueueCountContract,
    WorkerContract,
    QueueMaintenanceContract,
    QueueTransactionContract,
    AckPushContract,
    ReplayContract,
    HeartbeatContract,
    QueueClientContract,
    ItemOutcomeContract,
    QueueInspectionContract,
    DeadLetterContract,
    QueueSettingsUpdateContract,
    ChannelContract,
    ChannelClientContract,
    ChannelUpdateContract,
    SelectionContract,
    WaitingPushContract,
    ChannelDelayContract,
    ChannelDelayClientContract,
    QueueCapacityContract,
    LimitRuleContract,
    LimitClaimContract,
    ParkedChannelContract,
    LimitPushContract,
    LimitClientContract,
    SinkContract,
    LockContract,
    LockClientContract,
    CounterContract,
    CounterClientContract,
    TokenContract,
    TokenClientContract,
    ScheduleContract,
    ScheduleClientContract,
    ReservedNameContract,
    NotificationContract,
)

__all__ = [
    "CONTRACTS",
    "AckPushContract",
    "ChannelClientContract",
    "ChannelContract",
    "ChannelDelayClientContract",
    "ChannelDelayContract",
    "ChannelUpdateContract",
    "ClaimSpanContract",
    "ClientContract",
    "CommitContract",
    "Contract",
    "CounterClientContract",
    "CounterContract",
    "DeadItemContract",
    "DeadLetterContract",
    "DiagnosisContract",
    "HeartbeatContract",
    "IdempotencyKeyContract",
    "ItemClaimContract",
    "ItemContract",
    "ItemFailureContract",
    "ItemOutcomeContract",
    "LimitClaimContract",
    "LimitClientContract",
    "LimitPushContract",
    "LimitRuleContract",
    "LiveProcContract",
    "LockClientContract",
    "LockContract",
    "NotificationContract",
    "OutcomeContract",
    "ParkedChannelContract",
    "PartialAckContract",
    "PipelineContract",
    "ProcClaimContract",
    "ProcFailureContract",
    "ProcLifecycleContract",
    "ProcOffsetContract",
    "PushContract",
    "QueueCapacityContract",
    "QueueClientContract",
    "QueueCountContract",
    "QueueInspectionContract",
    "QueueLifecycleContract",
    "QueueMaintenanceContract",
    "QueueSettingsUpdateContract",
    "QueueTransactionContract",
    "RangeContract",
    "ReplayContract",
    "ReservedNameContract",
    "RetentionContract",
    "ScheduleClientContract",
    "ScheduleContract",
    "SelectionContract",
    "SinkContract",
    "TokenClientContract",
    "TokenContract",
    "TransactionContract",
    "UpsertContract",
    "WaitingPushContract",
    "WorkerContract",
]
