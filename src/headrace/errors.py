"""Everything Headrace raises on purpose.

::

    HeadraceError
    ├── InvalidInput            the call itself is wrong; nothing was written
    │   ├── InvalidTopicName    invalid_topic_format
    │   ├── InvalidProcName     invalid_proc_format
    │   ├── InvalidQueueName    invalid_queue_format
    │   ├── ReservedName        reserved_name
    │   ├── InvalidBody         invalid_log_format
    │   │   └── BodyTooLarge    body_too_large
    │   ├── InvalidPosition     invalid_range_offset
    │   ├── InvalidOption       invalid_option
    │   │   └── InvalidProcessor    no_valid_processor_provided
    │   ├── InvalidSetting      invalid_setting
    │   ├── InvalidKeyValues    invalid_key_values
    │   ├── InvalidQuery        invalid_query
    │   └── InvalidUrl          invalid_url
    ├── NotFound
    │   ├── UnknownStore        unknown_store
    │   ├── UnknownTopic        invalid_topic
    │   ├── UnknownSeq          invalid_tone_id_search
    │   ├── UnknownProc         invalid_proc
    │   ├── UnknownPipeline     unknown_pipeline
    │   ├── UnknownQueue        unknown_queue
    │   ├── UnknownSink         unknown_sink
    │   ├── UnknownLock         unknown_lock
    │   ├── UnknownLimit        unknown_limit
    │   ├── UnknownToken        unknown_token
    │   ├── UnknownSchedule     unknown_schedule
    │   └── UnknownItem         unknown_item
    ├── ProcError
    │   ├── ProcNameTaken       proc_name_not_unique
    │   ├── ProcDisabled        proc_is_disabled
    │   ├── ProcAlreadyDisabled proc_already_disabled
    │   ├── ProcAlreadyActive   proc_already_active
    │   ├── ProcOvertaken       proc_overtaken
    │   ├── NothingClaimed      nothing_claimed
    │   └── ClaimLost           claim_lost
    ├── QueueError
    │   ├── QueueExists         queue_exists
    │   ├── ItemLost            item_lost
    │   │   └── ItemGone        item_gone
    │   ├── ItemActive          item_active
    │   ├── SubjectTaken        subject_taken
    │   ├── QueueFull           queue_full           retryable
    │   │   └── PushTimeout     push_timeout         retryable
    │   ├── LimitExists         limit_exists
    │   ├── UpdateRefused       update_refused       retryable
    │   └── WorkerExists        worker_exists
    ├── SinkError
    │   ├── SinkTaken           sink_taken
    │   ├── SinkRewound         sink_rewound
    │   └── StageLost           stage_lost           retryable
    ├── LockError
    │   ├── LockTaken           lock_taken           retryable
    │   └── LockLost            lock_lost
    ├── LimitError
    │   ├── LimitReached        limit_reached        retryable
    │   └── SlotsLost           slots_lost
    ├── AccessError
    │   ├── NotAuthenticated    not_authenticated
    │   └── NotAllowed          not_allowed
    ├── TokenError
    │   ├── TokenEnded          token_ended
    │   └── TooManySecrets      too_many_secrets
    ├── ScheduleExists          schedule_exists
    ├── KeyReused               key_reused
    ├── NotCommitted            not_committed
    ├── WaitTimeout             wait_timeout         retryable
    ├── NotConnected            no_active_node
    ├── NodeError
    │   ├── NodeExists          node_exists
    │   └── NodeLost            node_lost
    ├── SparkUnavailable        spark_unavailable
    └── StoreError
        ├── StoreUnavailable    store_unavailable    retryable
        ├── StoreBusy           store_busy           retryable
        ├── OutcomeUnknown      outcome_unknown
        ├── MalformedRecord     malformed_log
        ├── SchemaTooNew        schema_too_new
        ├── SchemaTooOld        schema_too_old
        └── UnsupportedStore    unsupported_store

``code`` is stable; where PipeProc had a code for the error, it is the same. ``retryable``
says whether the same call may succeed later without any change. The message names
the thing and the next step. Every error pickles and copies with its attributes.
"""

from __future__ import annotations

from typing import Any, ClassVar


class HeadraceError(Exception):
    """The root: catch this to catch all of Headrace."""

    code: ClassVar[str] = "headrace_error"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["details"][name]
        except KeyError:
            raise AttributeError(name) from None

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.details)


def _rebuild(cls: type[HeadraceError], message: str, details: dict[str, Any]) -> HeadraceError:
    return cls(message, **details)


class InvalidInput(HeadraceError):
    """The call itself is wrong; nothing was written."""

    code = "invalid_input"


class InvalidTopicName(InvalidInput):
    """A topic name holds letters, digits, ``_``, ``-`` and ``.`` only."""

    code = "invalid_topic_format"


class InvalidProcName(InvalidInput):
    """A proc name follows the rule of topic names."""

    code = "invalid_proc_format"


class InvalidQueueName(InvalidInput):
    """A queue name follows the rule of topic names."""

    code = "invalid_queue_format"


class ReservedName(InvalidInput):
    """Names that begin with ``_`` are Headrace's own: users read such things, and do not write."""

    code = "reserved_name"


class InvalidBody(InvalidInput):
    """A body or its headers cannot be stored as they are; ``path`` says where."""

    code = "invalid_log_format"


class BodyTooLarge(InvalidBody):
    """A body is longer than the client's ``max_body``."""

    code = "body_too_large"


class InvalidPosition(InvalidInput):
    """A range end or an offset is not of a known form."""

    code = "invalid_range_offset"


class InvalidOption(InvalidInput):
    """An argument has a value that is not allowed; ``option`` names the argument."""

    code = "invalid_option"


class InvalidProcessor(InvalidOption):
    """A pipeline has no processor, or one that cannot be called with its records."""

    code = "no_valid_processor_provided"


class InvalidSetting(InvalidInput):
    """A setting is missing, unknown or not allowed; ``origin`` says where it was set."""

    code = "invalid_setting"


class InvalidKeyValues(InvalidInput):
    """Key-values, or one of them, are not allowed; ``path`` names the field."""

    code = "invalid_key_values"


class InvalidQuery(InvalidInput):
    """A query is wrong; ``path`` names the field: ``Or[0].Selection.KeyValues[os].Value.Data``."""

    code = "invalid_query"


class InvalidUrl(InvalidInput):
    """The store's URL cannot be parsed."""

    code = "invalid_url"


class NotFound(HeadraceError):
    """What the call names does not exist."""

    code = "not_found"


class UnknownStore(NotFound):
    """The database of the URL has no Headrace tables, and the client may not create them."""

    code = "unknown_store"


class UnknownTopic(NotFound):
    """Nothing was ever committed to the topic."""

    code = "invalid_topic"


class UnknownSeq(NotFound):
    """The topic has no record with that sequence number, or no longer has it."""

    code = "invalid_tone_id_search"


class UnknownProc(NotFound):
    """No proc has that name."""

    code = "invalid_proc"


class UnknownPipeline(NotFound):
    """No pipeline has that name."""

    code = "unknown_pipeline"


class UnknownQueue(NotFound):
    """No queue has that name."""

    code = "unknown_queue"


class UnknownSink(NotFound):
    """No query has written to the sink, or it was reset."""

    code = "unknown_sink"


class UnknownLock(NotFound):
    """No client holds the lock, or not with that fencing number."""

    code = "unknown_lock"


class UnknownLimit(NotFound):
    """There is no limit rule, or no override of it, with that id."""

    code = "unknown_limit"


class UnknownToken(NotFound):
    """There is no access token with that id, or it never had that secret."""

    code = "unknown_token"


class UnknownSchedule(NotFound):
    """There is no schedule of that name."""

    code = "unknown_schedule"


class UnknownItem(NotFound):
    """The queue has no item with that id or subject, or no longer has it."""

    code = "unknown_item"


class ProcError(HeadraceError):
    """The proc's state does not allow the call."""

    code = "proc_error"


class ProcNameTaken(ProcError):
    """The name belongs to a proc of another topic."""

    code = "proc_name_not_unique"


class ProcDisabled(ProcError):
    """The proc is disabled: claims on it are refused."""

    code = "proc_is_disabled"


class ProcAlreadyDisabled(ProcError):
    """The proc to disable is disabled already."""

    code = "proc_already_disabled"


class ProcAlreadyActive(ProcError):
    """The proc to resume is active already."""

    code = "proc_already_active"


class ProcOvertaken(ProcError):
    """Retention removed the records ``first`` to ``last`` before the proc had read them."""

    code = "proc_overtaken"


class NothingClaimed(ProcError):
    """The proc has no outstanding claim."""

    code = "nothing_claimed"


class ClaimLost(ProcError):
    """The token does not belong to the proc's current claim."""

    code = "claim_lost"


class QueueError(HeadraceError):
    """The state of a queue or of an item does not allow the call."""

    code = "queue_error"


class QueueExists(QueueError):
    """A queue with that name exists already."""

    code = "queue_exists"


class ItemLost(QueueError):
    """The token does not belong to the item's current claim: it expired or was settled."""

    code = "item_lost"


class ItemGone(ItemLost):
    """The item's channel was deleted while the item was in flight."""

    code = "item_gone"


class ItemActive(QueueError):
    """The item is in flight, and an item in flight is never changed."""

    code = "item_active"


class SubjectTaken(QueueError):
    """Another live item of the queue has the subject."""

    code = "subject_taken"


class QueueFull(QueueError):
    """The queue or the channel is at its limit of items; nothing was pushed."""

    code = "queue_full"
    retryable = True


class PushTimeout(QueueFull):
    """The queue or the channel stayed full for the whole wait; nothing was pushed."""

    code = "push_timeout"


class LimitExists(QueueError):
    """There is a rule with that name, or one with the same scope and pattern."""

    code = "limit_exists"


class UpdateRefused(QueueError):
    """Workers did not stop in time for new settings; ``unanswered`` names them."""

    code = "update_refused"
    retryable = True


class WorkerExists(QueueError):
    """The client already has a worker for the queue."""

    code = "worker_exists"


class SinkError(HeadraceError):
    """What was staged cannot be published; nothing was written."""

    code = "sink_error"


class SinkTaken(SinkError):
    """The sink belongs to another query: a checkpoint was lost, or two queries share a name."""

    code = "sink_taken"


class SinkRewound(SinkError):
    """The query repeats a batch of the sink with other content: its checkpoint was restored."""

    code = "sink_rewound"


class StageLost(SinkError):
    """Staged records are missing: the task has to run again."""

    code = "stage_lost"
    retryable = True


class LockError(HeadraceError):
    """The state of a lock does not allow the call."""

    code = "lock_error"


class LockTaken(LockError):
    """Another client held the lock for the whole wait."""

    code = "lock_taken"
    retryable = True


class LockLost(LockError):
    """The lock is no longer held: its lease expired and another client acquired it, or it was
    released or broken."""

    code = "lock_lost"


class LimitError(HeadraceError):
    """A limit does not allow the call."""

    code = "limit_error"


class LimitReached(LimitError):
    """A limit did not have enough free slots within the wait."""

    code = "limit_reached"
    retryable = True


class SlotsLost(LimitError):
    """The acquired slots are no longer held: their lease expired, and they were released."""

    code = "slots_lost"


class AccessError(HeadraceError):
    """The node does not accept the caller; nothing was done."""

    code = "access_error"


class NotAuthenticated(AccessError):
    """The node needs a valid access token."""

    code = "not_authenticated"


class NotAllowed(AccessError):
    """The scopes of the access token do not allow the call."""

    code = "not_allowed"


class TokenError(HeadraceError):
    """The state of the access token does not allow the call."""

    code = "token_error"


class TokenEnded(TokenError):
    """The access token was revoked, or its time is over."""

    code = "token_ended"


class TooManySecrets(TokenError):
    """The access token has two valid secrets: revoke one of them first."""

    code = "too_many_secrets"


class ScheduleExists(HeadraceError):
    """There is a schedule of that name with another content; nothing was written."""

    code = "schedule_exists"


class KeyReused(HeadraceError):
    """An idempotency key was used again with other content."""

    code = "key_reused"


class NotCommitted(HeadraceError):
    """The receipt is for records that are not in the log."""

    code = "not_committed"


class WaitTimeout(HeadraceError):
    """The awaited condition did not come true within the wait."""

    code = "wait_timeout"
    retryable = True


class NotConnected(HeadraceError):
    """There is no open client for this call."""

    code = "no_active_node"


class NodeError(HeadraceError):
    """A node cannot be started, or is no longer the one that the client knew."""

    code = "node_error"


class NodeExists(NodeError):
    """The namespace, port or socket of the node is taken; ``pid`` says by which process, if known."""

    code = "node_exists"


class NodeLost(NodeError):
    """The node ended. If it runs again, it has lost what was only in its memory."""

    code = "node_lost"


class SparkUnavailable(HeadraceError):
    """PySpark, or a Java it can run on, is missing or does not start."""

    code = "spark_unavailable"


class StoreError(HeadraceError):
    """The database failed, or Headrace cannot work with it."""

    code = "store_error"


class StoreUnavailable(StoreError):
    """The database cannot be reached; nothing was written by this call."""

    code = "store_unavailable"
    retryable = True


class StoreBusy(StoreError):
    """Other transactions held the database for longer than the client's ``patience``."""

    code = "store_busy"
    retryable = True


class OutcomeUnknown(StoreError):
    """The commit or its flush got no answer, and the store cannot find out what happened."""

    code = "outcome_unknown"


class MalformedRecord(StoreError):
    """A stored body is not what Headrace wrote."""

    code = "malformed_log"


class SchemaTooNew(StoreError):
    """The tables belong to a newer Headrace."""

    code = "schema_too_new"


class SchemaTooOld(StoreError):
    """The tables belong to an older Headrace and must be migrated."""

    code = "schema_too_old"


class UnsupportedStore(StoreError):
    """The database, or its client library, is missing or too old."""

    code = "unsupported_store"
