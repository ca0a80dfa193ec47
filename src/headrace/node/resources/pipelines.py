"""``/pipelines`` and ``/sinks``: what runs over topics, and how far it is."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from headrace.contract.sinks import SinkInfo
from headrace.model.pipelines import PipelineInfo
from headrace.model.topics.procs import Lag
from headrace.node.resources.endpoint import ApiCall, Endpoint
from headrace.node.resources.pages import ListPage, PageQuery, part
from headrace.node.resources.procs import SeekBody


class PipelinePage(msgspec.Struct, frozen=True, kw_only=True):
    """Some pipelines, by name."""

    pipelines: list[PipelineInfo]
    next: str | None


class SinkView(msgspec.Struct, frozen=True, kw_only=True):
    """A sink: the query that writes to it, its last batch, and what that published."""

    name: str
    query: str
    batch: int
    at: datetime
    published: Any


class SinkPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some sinks, by name."""

    sinks: list[SinkView]
    next: str | None


async def list_pipelines(call: ApiCall[None, PageQuery]) -> ListPage:
    return part("pipelines", await call.hr.pipelines.list(), call.query, lambda info: info.name)


async def get_pipeline(call: ApiCall[None, None]) -> PipelineInfo:
    return await call.hr.pipeline(call["pipeline"]).info()


async def pause_pipeline(call: ApiCall[None, None]) -> PipelineInfo:
    return await call.hr.pipeline(call["pipeline"]).pause()


async def resume_pipeline(call: ApiCall[None, None]) -> PipelineInfo:
    return await call.hr.pipeline(call["pipeline"]).resume()


async def seek_pipeline(call: ApiCall[SeekBody, None]) -> PipelineInfo:
    return await call.hr.pipeline(call["pipeline"]).seek(call.body.offset)


async def delete_pipeline(call: ApiCall[None, None]) -> PipelineInfo:
    return await call.hr.pipeline(call["pipeline"]).delete()


async def get_pipeline_lag(call: ApiCall[None, None]) -> Lag:
    return await call.hr.pipeline(call["pipeline"]).lag()


async def list_sinks(call: ApiCall[None, PageQuery]) -> ListPage:
    found = part("sinks", await call.hr.sinks.list(), call.query, lambda info: info.name)
    return found._replace(entries=[_sink_view(info) for info in found.entries])


async def get_sink(call: ApiCall[None, None]) -> SinkView:
    return _sink_view(await call.hr.sinks.info(call["sink"]))


async def reset_sink(call: ApiCall[None, None]) -> SinkView:
    return _sink_view(await call.hr.sinks.reset(call["sink"]))


def _sink_view(info: SinkInfo) -> SinkView:
    return SinkView(
        name=info.name,
        query=info.query,
        batch=info.batch,
        at=info.time,
        published=info.published,
    )


_PIPELINE = "/pipelines/{pipeline}"

ENDPOINTS = [
    Endpoint(
        method="GET",
        path="/pipelines",
        summary="List pipelines",
        handle=list_pipelines,
        query=PageQuery,
        answer=PipelinePage,
    ),
    Endpoint(
        method="GET",
        path=_PIPELINE,
        summary="Read a pipeline",
        handle=get_pipeline,
        answer=PipelineInfo,
    ),
    Endpoint(
        method="DELETE",
        path=_PIPELINE,
        summary="Delete a pipeline",
        handle=delete_pipeline,
        answer=PipelineInfo,
    ),
    Endpoint(
        method="POST",
        path=f"{_PIPELINE}/pause",
        summary="Pause a pipeline",
        handle=pause_pipeline,
        answer=PipelineInfo,
    ),
    Endpoint(
        method="POST",
        path=f"{_PIPELINE}/resume",
        summary="Resume a pipeline",
        handle=resume_pipeline,
        answer=PipelineInfo,
    ),
    Endpoint(
        method="POST",
        path=f"{_PIPELINE}/seek",
        summary="Move a pipeline",
        handle=seek_pipeline,
        body=SeekBody,
        answer=PipelineInfo,
        example={"offset": ":0"},
    ),
    Endpoint(
        method="GET",
        path=f"{_PIPELINE}/lag",
        summary="How far a pipeline is behind",
        handle=get_pipeline_lag,
        answer=Lag,
    ),
    Endpoint(
        method="GET",
        path="/sinks",
        summary="List sinks",
        handle=list_sinks,
        query=PageQuery,
        answer=SinkPage,
    ),
    Endpoint(
        method="GET",
        path="/sinks/{sink}",
        summary="Read a sink",
        handle=get_sink,
        answer=SinkView,
    ),
    Endpoint(
        method="POST",
        path="/sinks/{sink}/reset",
        summary="Forget how far the writers of a sink were",
        handle=reset_sink,
        answer=SinkView,
    ),
]
