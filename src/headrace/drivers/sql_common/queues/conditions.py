"""Which operations on queues may use a fast path: one predicate for each kind of case.

Everything else uses the general steps. A predicate on a queue judges by its cached row: the
statement of the fast path checks that the queue still has the same version.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.contract.items import ClaimRequest, Outcome, PushCall
from headrace.drivers.sql_common.queues.rows import QueueRow
from headrace.model.limits.limit_set import LimitSet
from headrace.model.queues.channels import is_updateable
from headrace.model.queues.items import Document


def only_adds(calls: Sequence[PushCall]) -> bool:
    """Whether calls only add items to one queue.

    - They are pushes, all to the same queue.
    - All documents are for channels, or none is.
    - No document may be replaced by newer content in its channel.
    """
    if len(calls) == 1 and len(calls[0].documents) == 1:
        # Most pushes are like this; the checks below would be a good part of their cost.
        [call] = calls
        [document] = call.documents
        has_options = document.overrides is not None and is_updateable(document)
        return call.mode == "push" and not has_options
    if len({call.queue for call in calls}) != 1:
        return False
    if any(call.mode != "push" for call in calls):
        return False
    documents = [document for call in calls for document in call.documents]
    # Some in channels and some in none need two statements.
    kinds = {document.key_values is None for document in documents}
    return len(kinds) == 1 and not any(map(is_updateable, documents))


def can_save_outcomes(calls: Sequence[PushCall]) -> bool:
    """Whether the statement that pushes can also store the outcomes of calls with keys.

    - No call is empty.
    - No subject occurs twice: the second document would be skipped.
    """
    subjects = [d.subject for call in calls for d in call.documents if d.subject is not None]
    return all(call.documents for call in calls) and len(set(subjects)) == len(subjects)


def adds_one_now(calls: Sequence[PushCall]) -> bool:
    """Whether calls add one item that is due now, without a subject and in no channel."""
    if len(calls) != 1 or len(calls[0].documents) != 1:
        return False
    [call] = calls
    [document] = call.documents
    return (
        call.mode == "push"
        and call.key is None
        and document.subject is None
        and document.key_values is None
        and document.due is None
        and document.delay is None
    )


def can_push(queue: QueueRow, documents: Sequence[Document], limits: LimitSet | None) -> bool:
    """Whether one statement can add documents to a queue.

    - The queue has channels already, if the documents are for channels.
    - The queue counts its items, and has no capacity that must be checked.
    - A subject is in use only as long as its item lives, or no document has one.
    - No rule limits the items in the queue. ``limits`` are the rules as they are cached.
    """
    settings = queue.info.settings
    if documents[0].key_values is not None and not queue.info.has_channels:
        return False
    if not settings.metrics or settings.is_limited:
        return False
    if settings.unique != "live" and any(document.subject is not None for document in documents):
        return False
    return not queue.limit_version or (
        limits is not None
        and limits.version >= queue.limit_version
        and not limits.has(queue.name, "enqueued")
    )


def is_unlimited(queue: QueueRow) -> bool:
    """Whether a queue has no capacity, and no rule may apply to its items."""
    return not queue.limit_version and not queue.info.settings.is_limited


def can_claim(queue: QueueRow, request: ClaimRequest) -> bool:
    """Whether one statement can select the items of a claim.

    - A claim on selected channels lets them take turns.
    - A claim on the whole line need not pass over strict channels.
    """
    if request.select is not None:
        return request.order == "fair"
    return not (queue.info.has_channels and queue.info.settings.serial)


def claims_whole_line(queue: QueueRow, request: ClaimRequest) -> bool:
    """Whether the first items in line are those to claim: there is neither a channel nor a
    selection."""
    return request.select is None and not queue.info.has_channels


def only_completes(outcomes: Sequence[Outcome]) -> bool:
    """Whether outcomes only complete items: each once, without an error to log, a delay of the
    channel, commits or pushes."""
    for outcome in outcomes:
        if (
            outcome.kind != "complete"
            or outcome.failure is not None
            or outcome.channel_delay_until is not None
            or outcome.channel_delay_ms is not None
            or outcome.commits
            or outcome.pushes
        ):
            return False
    return len(outcomes) == 1 or len({outcome.item for outcome in outcomes}) == len(outcomes)


def can_complete(queue: QueueRow) -> bool:
    """Whether a queue keeps nothing of completed items, and nothing waits for a completion: neither
    the next item of a strict channel, nor a push for capacity."""
    settings = queue.info.settings
    return settings.keep == "none" and not settings.serial and not settings.is_limited
