"""Where names are that one may look for in ``headrace``: what its error says."""

from __future__ import annotations

_CLIENT = {
    "commit": "commit",
    "commit_many": "commit_many",
    "range": "range",
    "revrange": "range(…, reverse=True)",
    "iterate": "iterate",
    "length": "topic(name).length",
    "topic_info": "topic(name).info",
    "keep": "topic(name).set_retention",
    "keep_all": "topics.set_retention",
    "ids": "resolve",
    "push": "push",
    "push_many": "push_many",
    "upsert": "upsert",
    "upsert_many": "upsert_many",
    "settle": "settle",
    "transaction": "transaction",
    "using": "using",
    "status": "status",
    "close": "close",
    "topic": "topic",
    "topics": "topics.list",
    "live": "live",
    "proc": "procs.create",
    "procs": "procs.list",
    "available_proc": "procs.claim_any",
    "wait_for_procs": "procs.wait_idle",
    "system_proc": "pipelines.create",
    "system_procs": "pipelines.list",
    "queue": "queue",
    "queues": "queues.list",
    "create": "queues.create",
    "ref": "queues.create(…, exist_ok=True)",
    "queue_defaults": "queues.defaults",
    "set_queue_defaults": "queues.set_defaults",
    "stats": "queues.stats",
    "compute_stats": "queues.stats(…, exact=True)",
    "consolidate_stats": "queues.stats(…, store=True)",
    "info": "queues.info",
    "update": "queue(name).update",
    "pause": "queue(name).pause",
    "resume": "queue(name).resume",
    "drop": "queue(name).drop",
    "register_worker": "start_worker",
    "start_worker": "start_worker",
    "create_limit": "limits.create",
    "set_limit": "limits.set",
    "override_limit": "limits.override",
    "change_limit": "limits.update",
    "delete_limit": "limits.delete",
    "limit": "limits.get",
    "limits": "limits.list",
    "match_limits": "limits.match",
    "try_limit": "limits.simulate",
    "limit_usage": "limits.usage",
    "lock": "lock",
    "locks": "locks.list",
    "release_lock": "locks.force_release",
    "acquire": "slots",
    "slots": "slots",
    "counters": "counters.list",
    "set_counter": "counters.set",
    "sink": "sinks.info",
    "sinks": "sinks.list",
    "clients": "admin.clients",
    "workers": "admin.workers",
    "watch_clients": "admin.watch_clients",
    "watch_workers": "admin.watch_workers",
    "diagnose": "admin.diagnose",
    "maintain": "admin.maintain",
}
"""Methods of a client, by the name of the function that one may look for."""

_MODULES = {
    "Acked": "headrace.types.AckResult",
    "ClientRow": "headrace.types.ClientInfo",
    "Sample": "headrace.types.MetricSample",
    "SystemProc": "headrace.Pipeline",
    "Sink": "hr.sinks",
    "settings": "import headrace.settings",
    **{
        name: f"headrace.compat.gopq.{name}"
        for name in ("AckOpts", "ack_queue", "simple_queue", "unique_ack_queue", "unique_queue")
    },
    **{
        f"{verb}Error": f"headrace.compat.fetchq.FetchQ{verb}Error"
        for verb in ("Push", "Upsert", "Create", "Ref")
    },
    "AckQueue": "headrace.compat.gopq.AcknowledgeableQueue",
    "Message": "headrace.compat.gopq.Msg",
    "SimpleQueue": "headrace.compat.gopq.Queue",
}


def where_is(name: str) -> str:
    """The rest of a sentence that names what to use in place of a name; a full stop if nothing."""
    import headrace

    if name in _CLIENT:
        return f": use hr.{_CLIENT[name]}, where hr = headrace.connect(url)."
    if name in _MODULES:
        return f": use {_MODULES[name]}."
    if name in headrace.types.__all__:
        return f": use headrace.types.{name}."
    if name.startswith("Async") and name.removeprefix("Async") in headrace.aio.__all__:
        return f": use headrace.aio.{name.removeprefix('Async')}."
    return "."
