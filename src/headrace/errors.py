"""Everything Headrace raises on purpose.

::

    HeadraceError
    ├── InvalidInput            the call itself is wrong; nothing was written
    │   ├── InvalidTopicName    invalid_topic_format
    │   ├── InvalidProcName     invalid_proc_format
    │   ├── InvalidQueueName    invalid_queue_format
    │   ├── InvalidBody         invalid_log_format
    │   │   └── BodyTooLarge    body_too_large
    │   ├── InvalidPosition     invalid_range_offset
    │   ├── InvalidOption       invalid_option
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
    │   └── UnknownItem         unknown_item
    ├── ProcError
    │   ├── ProcNameTaken       proc_name_not_unique
    │   ├── ProcDisabled        proc_is_disabled
    │   ├── ProcAlreadyDisabled proc_already_disabled
    │   ├── ProcAlreadyActive   proc_already_active
    │   ├── ProcOvertaken       proc_overtaken
    │   ├── NothingToReclaim    nothing_to_reclaim
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
    │   ├── NoItemsWaiting      no_items_waiting     retryable
    │   ├── UpdateRefused       update_refused       retryable
    │   └── RegisterWorkerError register_worker
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
    ├── KeyReused               key_reused
    ├── NotCommitted            not_committed
    ├── WaitTimeout             wait_timeout         retryable
    ├── NotConnected            no_active_node
    ├── SparkUnavailable        spark_unavailable
    └── StoreError
        ├── StoreUnavailable    store_unavailable    retryable
        ├── StoreBusy           store_busy           retryable
        ├── OutcomeUnknown      outcome_unknown
        ├── MalformedRecord     malformed_log
        ├── SchemaTooNew        schema_too_new
        ├── SchemaTooOld        schema_too_old
        └── UnsupportedStore    unsupported_store

``code`` is stable and is the word PipeProc used wherever it had one. ``retryable``
says whether the same call may succeed later without any change. The message names
the thing and the next step. Every error pickles and copies with its attributes.

FetchQ's ``PushError``, ``UpsertError``, ``CreateError`` and ``RefError`` are families across
the tree: ``except PushError`` catches whatever ``push`` raises. They are never raised as such.
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


class PushError(Exception):
    """Whatever ``push`` can raise: wrong input, a key used twice, no client, the store."""


class UpsertError(Exception):
    """Whatever ``upsert`` can raise: the same as ``push``."""


class CreateError(Exception):
    """Whatever ``create`` can raise: wrong input, a queue that exists, no client, the store."""


class RefError(Exception):
    """Whatever ``ref`` can raise: wrong input, no client, the store."""


class InvalidInput(HeadraceError, PushError, UpsertError, CreateError, RefError):
    """The call itself is wrong; nothing was written."""

    code = "invalid_input"


class InvalidTopicName(InvalidInput):
    """A topic name holds letters, digits, ``_`` and ``-`` only."""

    code = "invalid_topic_format"


class InvalidProcName(InvalidInput):
    """A proc name follows the rule of topic names."""

    code = "invalid_proc_format"


class InvalidQueueName(InvalidInput):
    """A queue name follows the rule of topic names."""

    code = "invalid_queue_format"


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
    """An argument is outside what it may be; ``option`` names it."""

    code = "invalid_option"


class InvalidSetting(InvalidInput):
    """A setting is missing, unknown or not what it may be; ``origin`` says where it stands."""

    code = "invalid_setting"


class InvalidKeyValues(InvalidInput):
    """Key-values, or one of them, are not what they may be; ``path`` names the field."""

    code = "invalid_key_values"


class InvalidQuery(InvalidInput):
    """A query is wrong; ``path`` names the field: ``Or[0].Selection.KeyValues[os].Value.Data``."""

    code = "invalid_query"


class InvalidUrl(InvalidInput):
    """The store's URL cannot be understood."""

    code = "invalid_url"


class NotFound(HeadraceError):
    """What the call names does not exist."""

    code = "not_found"


class UnknownStore(NotFound):
    """There are no tables of Headrace where the URL points, and none may be made."""

    code = "unknown_store"


class UnknownTopic(NotFound):
    """Nothing was ever committed to the topic."""

    code = "invalid_topic"


class UnknownSeq(NotFound):
    """No record of the topic has that sequence number (now)."""

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
    """Nobody has the lock, or not by that number."""

    code = "unknown_lock"


class UnknownLimit(NotFound):
    """There is no such rule, or no such override of it."""

    code = "unknown_limit"


class UnknownItem(NotFound):
    """The queue has no item of that id or subject (any more)."""

    code = "unknown_item"


class ProcError(HeadraceError):
    """The proc's state does not allow the call."""

    code = "proc_error"


class ProcNameTaken(ProcError):
    """The name belongs to a proc of another topic."""

    code = "proc_name_not_unique"


class ProcDisabled(ProcError):
    """The proc is disabled and hands out nothing."""

    code = "proc_is_disabled"


class ProcAlreadyDisabled(ProcError):
    """Disable was asked of a disabled proc."""

    code = "proc_already_disabled"


class ProcAlreadyActive(ProcError):
    """Resume was asked of an active proc."""

    code = "proc_already_active"


class ProcOvertaken(ProcError):
    """Records were collected by age before the proc had them; ``first`` to ``last``."""

    code = "proc_overtaken"


class NothingToReclaim(ProcError):
    """Reclaim was asked of a proc without an outstanding claim."""

    code = "nothing_to_reclaim"


class ClaimLost(ProcError):
    """The token is not the one of the proc's current claim."""

    code = "claim_lost"


class QueueError(HeadraceError):
    """The state of a queue or of an item does not allow the call."""

    code = "queue_error"


class QueueExists(QueueError, CreateError):
    """A queue was to be made, and there is one of that name."""

    code = "queue_exists"


class ItemLost(QueueError):
    """The token is not the one of the item's present claim: somebody else has it, or it ended."""

    code = "item_lost"


class ItemGone(ItemLost):
    """The item's channel was deleted while the item was out: nobody wants it any more."""

    code = "item_gone"


class ItemActive(QueueError):
    """The item is in flight, and an item in flight is never changed."""

    code = "item_active"


class SubjectTaken(QueueError):
    """Another live item of the queue has the subject."""

    code = "subject_taken"


class QueueFull(QueueError, PushError, UpsertError):
    """The queue, or the channel, holds as many items as it may; nothing was pushed."""

    code = "queue_full"
    retryable = True


class PushTimeout(QueueFull):
    """There was no room in the queue, or the channel, within the time; nothing was pushed."""

    code = "push_timeout"


class LimitExists(QueueError, CreateError):
    """There is a rule of that name, or one about the same."""

    code = "limit_exists"


class NoItemsWaiting(QueueError):
    """Nothing is due in the queue (any more) now."""

    code = "no_items_waiting"
    retryable = True


class UpdateRefused(QueueError):
    """Workers did not stop in time for new settings; ``unanswered`` names them."""

    code = "update_refused"
    retryable = True


class RegisterWorkerError(QueueError):
    """The client has a worker for the queue already."""

    code = "register_worker"


class SinkError(HeadraceError):
    """What was staged cannot be published; nothing was written."""

    code = "sink_error"


class SinkTaken(SinkError):
    """The sink belongs to another query: a checkpoint was lost, or two queries share a name."""

    code = "sink_taken"


class SinkRewound(SinkError):
    """The query repeats what the sink has, and not as it was: its checkpoint was put back."""

    code = "sink_rewound"


class StageLost(SinkError):
    """What was staged is not there, or not all of it: the task has to be run again."""

    code = "stage_lost"
    retryable = True


class LockError(HeadraceError):
    """The state of a lock does not allow the call."""

    code = "lock_error"


class LockTaken(LockError):
    """Somebody else has the lock, and the time to wait for it is over."""

    code = "lock_taken"
    retryable = True


class LockLost(LockError):
    """The lock is not ours any more: its lease ran out and somebody took it, or it was broken."""

    code = "lock_lost"


class LimitError(HeadraceError):
    """A limit does not allow the call."""

    code = "limit_error"


class LimitReached(LimitError):
    """A limit has no room for so many more, and the time to wait for it is over."""

    code = "limit_reached"
    retryable = True


class SlotsLost(LimitError):
    """What was acquired is not counted any more: its lease ran out, and it was given back."""

    code = "slots_lost"


class KeyReused(HeadraceError, PushError, UpsertError):
    """An idempotency key came back with other content."""

    code = "key_reused"


class NotCommitted(HeadraceError):
    """A receipt was shown for records that are not in the log."""

    code = "not_committed"


class WaitTimeout(HeadraceError):
    """The wait ended before what it waited for."""

    code = "wait_timeout"
    retryable = True


class NotConnected(HeadraceError, PushError, UpsertError, CreateError, RefError):
    """There is no open client to do this with."""

    code = "no_active_node"


class SparkUnavailable(HeadraceError):
    """PySpark, or a Java it can run on, is missing or does not start."""

    code = "spark_unavailable"


class StoreError(HeadraceError, PushError, UpsertError, CreateError, RefError):
    """The database failed us, or we cannot work with it."""

    code = "store_error"


class StoreUnavailable(StoreError):
    """The database cannot be reached; nothing was written by this call."""

    code = "store_unavailable"
    retryable = True


class StoreBusy(StoreError):
    """Others held the database for longer than the client's patience."""

    code = "store_busy"
    retryable = True


class OutcomeUnknown(StoreError):
    """The connection broke at COMMIT and the store cannot tell any more what happened."""

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
