"""``/queues``: queues, their settings and their numbers."""

from __future__ import annotations

from datetime import datetime
from typing import Any, cast

import msgspec

from headrace.contract.items import Counts, LoggedError, MetricSample
from headrace.core.queue_settings import QueueOptions
from headrace.core.views import QueueStats, WorkerInfo
from headrace.model.failures import Failure
from headrace.model.queues.settings import DEFAULTS, QueueInfo, QueueSettings
from headrace.model.times import moment_of
from headrace.node.resources.endpoint import ApiCall, Created, Endpoint
from headrace.node.resources.long_polls import checked_wait
from headrace.node.resources.merge_patch import merged
from headrace.node.resources.pages import ListPage, PageQuery, checked_limit, page
from headrace.node.resources.values import Time

Settings = dict[str, Any]


class NewQueue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A queue to be created."""

    name: str
    settings: Settings = {}


class Update(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings to be changed, as a patch (RFC 7396); null is the stored default.

    The update waits until all workers have paused. With ``strict`` nothing changes unless they do.
    """

    settings: Settings
    time_limit: float = 10.0
    strict: bool = False


class DefaultsUpdate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings that new queues are to get, as a patch (RFC 7396)."""

    settings: Settings


class Pause(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a queue is paused."""

    by: str | None = None


class QueueQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of a list of queues."""

    prefix: str = ""


class DropQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a queue is dropped."""

    keep_data: bool = False


class StatsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a queue's items are counted."""

    exact: bool = False


class QueueView(msgspec.Struct, frozen=True, kw_only=True):
    """A queue and its settings."""

    name: str
    settings: QueueSettings
    version: int
    created_at: datetime
    is_paused: bool
    paused_by: str | None


class UpdatedView(QueueView, frozen=True, kw_only=True):
    """A queue after an update: the ids of its workers that stood still, and of those that did not."""

    is_changed: bool
    stopped: list[str]
    unanswered: list[str]


class QueuePage(msgspec.Struct, frozen=True, kw_only=True):
    """Some queues, by name."""

    queues: list[QueueView]
    next: str | None


class ErrorQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of which item the errors are listed, if not of all."""

    item: int | None = None


class ErrorView(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a queue's error series."""

    id: int
    at: datetime
    item: int
    subject: str | None
    attempt: int
    worker: str | None
    failure: Failure


class ErrorPage(msgspec.Struct, frozen=True, kw_only=True):
    """Errors of a queue, the newest first."""

    errors: list[ErrorView]
    next: str | None


class SampleQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Since when, and how many samples."""

    since: Time | None = None
    limit: int = 1000


class SampleView(msgspec.Struct, frozen=True, kw_only=True):
    """A queue's counts at a moment."""

    at: datetime
    counts: Counts


def view(info: QueueInfo) -> QueueView:
    """A queue as the API shows it."""
    return QueueView(
        name=info.name,
        settings=info.settings,
        version=info.version,
        created_at=info.created,
        is_paused=info.is_paused,
        paused_by=info.paused_by,
    )


async def list_queues(call: ApiCall[None, QueueQuery]) -> ListPage:
    query, limit = call.query, call.query.checked_limit
    after = query.after("queues", "")
    found = await call.hr.queues.list(prefix=query.prefix, after=after, limit=limit)
    return page("queues", found, limit, lambda info: info.name, view)


async def create_queue(call: ApiCall[NewQueue, None]) -> Created:
    # The client would read what it has created: that may need another scope.
    body = call.body
    settings = cast("QueueOptions", body.settings)
    info = await call.run(call.requests.queues.create(body.name, settings, is_new=True))
    return Created(view(info), call.below(info.name))


async def get_queue(call: ApiCall[None, None]) -> QueueView:
    return view(await _read(call))


async def update_queue(call: ApiCall[Update, None]) -> UpdatedView:
    body, queue = call.body, call.hr.queue(call["queue"])
    settings = body.settings
    if _is_nested(settings):
        defaults = await call.hr.queues.defaults()
        settings = _patched((await _read(call)).settings, settings, defaults)
    report = await queue.update(
        time_limit=checked_wait(body.time_limit, "time_limit"), strict=body.strict, **settings
    )
    return UpdatedView(
        **msgspec.structs.asdict(view(report.queue)),
        is_changed=report.is_changed,
        stopped=[worker.id for worker in report.stopped],
        unanswered=[worker.id for worker in report.unanswered],
    )


async def get_queue_defaults(call: ApiCall[None, None]) -> QueueSettings:
    return await call.hr.queues.defaults()


async def update_queue_defaults(call: ApiCall[DefaultsUpdate, None]) -> QueueSettings:
    settings = call.body.settings
    if _is_nested(settings):
        settings = _patched(await call.hr.queues.defaults(), settings, DEFAULTS)
    return await call.hr.queues.set_defaults(**settings)


def _is_nested(settings: Settings) -> bool:
    """Whether a patch cannot be understood without what it changes."""
    return any(value is None or isinstance(value, dict) for value in settings.values())


def _patched(now: QueueSettings, patch: Settings, defaults: QueueSettings) -> Settings:
    present = msgspec.to_builtins(now)
    found = {}
    for name, value in patch.items():
        if value is None:
            found[name] = getattr(defaults, name, None)
        else:
            found[name] = merged(present.get(name), value)
    return found


async def drop_queue(call: ApiCall[None, DropQuery]) -> None:
    await call.hr.queue(call["queue"]).drop(keep_data=call.query.keep_data)


async def pause_queue(call: ApiCall[Pause, None]) -> QueueView:
    return view(await call.hr.queue(call["queue"]).pause(by=call.body.by))


async def resume_queue(call: ApiCall[None, None]) -> QueueView:
    return view(await call.hr.queue(call["queue"]).resume())


async def get_queue_stats(call: ApiCall[None, StatsQuery]) -> QueueStats:
    [stats] = await call.hr.queues.stats(call["queue"], exact=call.query.exact)
    return stats


async def list_queue_errors(call: ApiCall[None, ErrorQuery]) -> ListPage:
    query, limit = call.query, call.query.checked_limit
    before = query.after("errors", 0) or None
    found = await call.hr.queue(call["queue"]).errors(item=query.item, before=before, limit=limit)
    return page("errors", found, limit, lambda error: error.id, _error_view)


def _error_view(error: LoggedError) -> ErrorView:
    return ErrorView(
        id=error.id,
        at=moment_of(error.at),
        item=error.item,
        subject=error.subject,
        attempt=error.attempt,
        worker=error.worker,
        failure=error.failure,
    )


async def list_queue_samples(call: ApiCall[None, SampleQuery]) -> dict[str, list[SampleView]]:
    queue, limit = call.hr.queue(call["queue"]), checked_limit(call.query.limit)
    return {"samples": list(map(_sample, await queue.samples(since=call.query.since, limit=limit)))}


def _sample(sample: MetricSample) -> SampleView:
    return SampleView(at=moment_of(sample.at), counts=sample.counts)


async def list_queue_workers(call: ApiCall[None, None]) -> dict[str, list[WorkerInfo]]:
    return {"workers": await call.hr.admin.workers(call["queue"])}


async def _read(call: ApiCall[Any, Any]) -> QueueInfo:
    return await call.run(call.requests.queues.info(call["queue"]))


ENDPOINTS = [
    Endpoint(
        method="GET",
        path="/queues",
        summary="List queues",
        handle=list_queues,
        query=QueueQuery,
        answer=QueuePage,
    ),
    Endpoint(
        method="POST",
        path="/queues",
        summary="Create a queue",
        handle=create_queue,
        body=NewQueue,
        answer=QueueView,
        status=201,
        example={"name": "mail", "settings": {"max_attempts": 3, "lease": "5m"}},
    ),
    Endpoint(
        method="GET",
        path="/queues/{queue}",
        summary="Read a queue and its settings",
        handle=get_queue,
        answer=QueueView,
    ),
    Endpoint(
        method="PATCH",
        path="/queues/{queue}",
        summary="Change settings of a queue while its workers run",
        handle=update_queue,
        body=Update,
        answer=UpdatedView,
        example={"settings": {"max_attempts": 4}},
    ),
    Endpoint(
        method="DELETE",
        path="/queues/{queue}",
        summary="Drop a queue",
        handle=drop_queue,
        query=DropQuery,
        status=204,
    ),
    Endpoint(
        method="POST",
        path="/queues/{queue}/pause",
        summary="Stop claims of a queue",
        handle=pause_queue,
        body=Pause,
        answer=QueueView,
        example={"by": "ann"},
    ),
    Endpoint(
        method="POST",
        path="/queues/{queue}/resume",
        summary="Allow claims of a queue again",
        handle=resume_queue,
        answer=QueueView,
    ),
    Endpoint(
        method="GET",
        path="/queues/{queue}/stats",
        summary="Count the items of a queue",
        handle=get_queue_stats,
        query=StatsQuery,
        answer=QueueStats,
    ),
    Endpoint(
        method="GET",
        path="/queues/{queue}/workers",
        summary="List the workers of a queue",
        handle=list_queue_workers,
        answer=dict[str, list[WorkerInfo]],
    ),
    Endpoint(
        method="GET",
        path="/queues/{queue}/errors",
        summary="List what went wrong in a queue",
        handle=list_queue_errors,
        query=ErrorQuery,
        answer=ErrorPage,
    ),
    Endpoint(
        method="GET",
        path="/queues/{queue}/samples",
        summary="List the numbers of a queue over time",
        handle=list_queue_samples,
        query=SampleQuery,
        answer=dict[str, list[SampleView]],
    ),
    Endpoint(
        method="GET",
        path="/queue-defaults",
        summary="Read the settings that new queues get",
        handle=get_queue_defaults,
        answer=QueueSettings,
    ),
    Endpoint(
        method="PATCH",
        path="/queue-defaults",
        summary="Change the settings that new queues get",
        handle=update_queue_defaults,
        body=DefaultsUpdate,
        answer=QueueSettings,
        example={"settings": {"max_attempts": 8}},
    ),
]
