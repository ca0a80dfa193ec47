"""The examples of all endpoints, in an order in which they work on a new node in memory.

Those of pipelines and sinks need a pipeline and a sink: a program registers them, not the API.
"""

from __future__ import annotations

from headrace import errors
from headrace.node.documents.example import FROM_BEFORE, UNKNOWN_OPTION, Example, ExampleRequest

_QUEUE = (errors.UnknownQueue,)
_ITEM = (errors.UnknownQueue, errors.UnknownItem)
_PROC = (errors.UnknownProc,)
_CLAIM = (errors.UnknownProc, errors.ProcDisabled, errors.NothingClaimed, errors.ClaimLost)
_WRITE = (errors.UnknownQueue, errors.SubjectTaken, errors.QueueFull)
_TOKEN = ExampleRequest(body={"token": FROM_BEFORE})
_WRONG_TOKEN = ExampleRequest(body={"token": "wrong"})
_OTHER = {"key_values": {"site": "blog"}}

TOPICS = [
    Example(
        operation="commit_records",
        refused=ExampleRequest(body={"headers": {}}),
    ),
    Example(
        operation="commit_to_topics",
        refused=ExampleRequest(body=[{"topic": "no spaces", "body": {}}]),
    ),
    Example(operation="list_topics", good=ExampleRequest(query={"prefix": "ord", "limit": "10"})),
    Example(operation="get_topic", problems=(errors.UnknownTopic,)),
    Example(operation="update_topic", problems=(errors.UnknownTopic,)),
    Example(
        operation="list_records",
        good=ExampleRequest(query={"start": ":0", "limit": "10"}),
        refused=ExampleRequest(query={"order": "random"}),
        problems=(errors.UnknownTopic, errors.UnknownSeq),
    ),
    Example(
        operation="stream_records",
        good=ExampleRequest(query={"start": ":0"}),
        refused=ExampleRequest(query={"start": "yesterday"}),
        problems=(errors.UnknownTopic, errors.UnknownSeq),
    ),
    Example(operation="get_record", problems=(errors.UnknownTopic, errors.UnknownSeq)),
]

PROCS = [
    Example(
        operation="put_proc",
        good=ExampleRequest(body={"topic": "orders", "offset": "0", "lease": "5m"}),
        refused=ExampleRequest(body={"topic": "orders", "offset": "yesterday"}),
        problems=(errors.ProcNameTaken, errors.UnknownTopic, errors.UnknownSeq),
    ),
    Example(operation="list_procs"),
    Example(operation="get_proc", problems=_PROC),
    Example(operation="update_proc", problems=_PROC),
    Example(
        operation="claim_records",
        good=ExampleRequest(body={"count": 1}),
        problems=(errors.UnknownProc, errors.ProcDisabled, errors.ProcOvertaken),
    ),
    Example(operation="extend_claim", refused=_WRONG_TOKEN, problems=_CLAIM),
    Example(operation="ack_records", refused=_WRONG_TOKEN, problems=_CLAIM),
    Example(
        operation="nack_records",
        before=(("claim_records", ExampleRequest(body={"count": 1})),),
        refused=_WRONG_TOKEN,
        problems=_CLAIM,
    ),
    Example(
        operation="claim_any_records",
        refused=ExampleRequest(body={"procs": ["mailer"], "count": 0}),
        problems=(errors.UnknownProc, errors.ProcDisabled),
    ),
    Example(operation="reclaim_records", problems=_CLAIM),
    Example(operation="get_proc_lag", problems=_PROC),
    Example(
        operation="seek_proc",
        refused=ExampleRequest(body={"offset": "yesterday"}),
        problems=(errors.UnknownProc, errors.UnknownSeq),
    ),
    Example(operation="disable_proc", problems=(errors.UnknownProc, errors.ProcAlreadyDisabled)),
    Example(operation="resume_proc", problems=(errors.UnknownProc, errors.ProcAlreadyActive)),
    Example(operation="delete_proc", problems=_PROC),
]

QUEUES = [
    Example(operation="get_queue_defaults"),
    Example(
        operation="update_queue_defaults",
        refused=ExampleRequest(body={"settings": {"colour": "red"}}),
        problems=(errors.UpdateRefused,),
    ),
    Example(
        operation="create_queue",
        refused=ExampleRequest(body={"name": "mail", "settings": {"max_attempts": 0}}),
        problems=(errors.QueueExists,),
    ),
    Example(operation="list_queues", refused=ExampleRequest(query={"limit": "0"})),
    Example(operation="get_queue", problems=_QUEUE),
    Example(
        operation="update_queue",
        refused=ExampleRequest(body={"settings": {"colour": "red"}}),
        problems=(errors.UnknownQueue, errors.UpdateRefused),
    ),
    Example(operation="pause_queue", problems=_QUEUE),
    Example(operation="resume_queue", problems=_QUEUE),
]

_DOCUMENTS = {
    "items": [{"payload": {"to": name}, "subject": name} for name in ("ann", "bob", "eve")]
}
_LATER = {"payload": {"to": "zoe"}, "subject": "zoe", "delay": "1h"}

ITEMS = [
    Example(
        operation="push_items",
        good=ExampleRequest(body=_DOCUMENTS),
        refused=ExampleRequest(body={"subject": "ann"}),
        problems=(*_WRITE, errors.PushTimeout),
    ),
    Example(
        operation="claim_items",
        good=ExampleRequest(body={"count": 3, "lease": 30}),
        refused=ExampleRequest(body={"count": 3, "wait": 3600}),
        problems=_QUEUE,
    ),
    Example(
        operation="extend_items",
        refused=ExampleRequest(body={"items": [{"id": 1, "token": "wrong"}], "lease": -1}),
        problems=_QUEUE,
    ),
    Example(
        operation="settle_items",
        good=ExampleRequest(
            body={
                "outcomes": [
                    {
                        "item": 1,
                        "token": FROM_BEFORE,
                        "kind": "complete",
                        "commit": [{"topic": "sent", "body": {"to": "ann"}}],
                        "push": [{"queue": "mail", **_LATER}],
                    },
                    {"item": 2, "token": FROM_BEFORE, "kind": "kill", "error": "no such mailbox"},
                ]
            }
        ),
        refused=ExampleRequest(
            body={"outcomes": [{"item": 1, "token": "wrong", "kind": "forget"}]}
        ),
        problems=_WRITE,
    ),
    Example(
        operation="list_items",
        good=ExampleRequest(query={"state": "planned"}),
        refused=ExampleRequest(query={"state": "lost"}),
        problems=_QUEUE,
    ),
    Example(operation="get_item", good=ExampleRequest(names={"item": "4"}), problems=_ITEM),
    Example(
        operation="edit_item",
        good=ExampleRequest(names={"item": "4"}),
        refused=ExampleRequest(names={"item": "4"}, body={"priority": "high"}),
        problems=(*_ITEM, errors.ItemActive, errors.ItemGone),
    ),
    Example(operation="explain_item", good=ExampleRequest(names={"item": "4"}), problems=_ITEM),
    Example(
        operation="retry_item",
        good=ExampleRequest(names={"item": "4"}),
        problems=(*_ITEM, errors.ItemActive, errors.ItemGone),
    ),
    Example(
        operation="cancel_item",
        good=ExampleRequest(names={"item": "4"}),
        problems=(*_ITEM, errors.ItemActive, errors.ItemGone),
    ),
    Example(
        operation="get_queue_stats",
        good=ExampleRequest(query={"exact": "true"}),
        refused=ExampleRequest(query={"exact": "maybe"}),
        problems=_QUEUE,
    ),
    Example(operation="list_queue_workers", refused=UNKNOWN_OPTION, problems=_QUEUE),
    Example(operation="list_queue_errors", refused=UNKNOWN_OPTION, problems=_QUEUE),
    Example(operation="list_queue_samples", refused=UNKNOWN_OPTION, problems=_QUEUE),
]

DEAD_LETTERS = [
    Example(operation="list_dead", refused=ExampleRequest(query={"limit": "0"}), problems=_QUEUE),
    Example(operation="group_dead", refused=UNKNOWN_OPTION, problems=_QUEUE),
    Example(
        operation="purge_dead",
        refused=ExampleRequest(body={"died_before": "noon"}),
        problems=_QUEUE,
    ),
    Example(operation="redrive_dead", refused=ExampleRequest(body={"ids": ["2"]}), problems=_QUEUE),
]

CHANNELS = [
    Example(
        operation="delay_channel",
        before=(
            (
                "push_items",
                ExampleRequest(body={"payload": {"build": 7}, "channel": {"os": "linux"}}),
            ),
        ),
        refused=ExampleRequest(body={"key_values": {"os": "linux"}, "delay": "soon"}),
        problems=_QUEUE,
    ),
    Example(
        operation="get_channel", refused=ExampleRequest(body={"key_values": {}}), problems=_QUEUE
    ),
    Example(operation="query_channels", refused=ExampleRequest(body={"limit": 0}), problems=_QUEUE),
    Example(
        operation="end_channel_delay",
        refused=ExampleRequest(body={"key_values": []}),
        problems=_QUEUE,
    ),
    Example(
        operation="register_selection",
        refused=ExampleRequest(body={"select": {"os": "linux"}}),
        problems=_QUEUE,
    ),
    Example(operation="list_selections", refused=UNKNOWN_OPTION, problems=_QUEUE),
    Example(
        operation="forget_selection",
        refused=ExampleRequest(body={"select": {"os": "linux"}}),
        problems=_QUEUE,
    ),
    Example(
        operation="delete_channels",
        refused=ExampleRequest(body={"select": {"os": "linux"}}),
        problems=_QUEUE,
    ),
]

LIMITS = [
    Example(
        operation="create_limit",
        refused=ExampleRequest(body={"group_by": {"customer": "*"}, "limit": -1}),
        problems=(errors.LimitExists, errors.UnknownQueue),
    ),
    Example(
        operation="put_limit",
        refused=ExampleRequest(body={"group_by": {"customer": "*"}, "limit": "many"}),
        problems=(errors.LimitExists, errors.UnknownQueue),
    ),
    Example(
        operation="simulate_limit",
        refused=ExampleRequest(body={"group_by": {"customer": "*"}, "limit": "many"}),
        problems=_QUEUE,
    ),
    Example(operation="query_limits", refused=ExampleRequest(body={"limit": "all"})),
    Example(operation="match_limits", refused=ExampleRequest(body={"key_values": "ann"})),
    Example(operation="get_limit", problems=(errors.UnknownLimit,)),
    Example(operation="update_limit", problems=(errors.UnknownLimit,)),
    Example(operation="create_override", problems=(errors.UnknownLimit, errors.LimitExists)),
    Example(operation="get_limit_usage", problems=(errors.UnknownLimit,)),
]

_SESSION = {"session": FROM_BEFORE}
_SLOTS = {"session": "wrong"}

LOCKS = [
    Example(
        operation="acquire_lock",
        refused=ExampleRequest(body={"key_values": {"site": "shop"}, "lease": -1}),
        problems=(errors.LockTaken, errors.WaitTimeout),
    ),
    Example(
        operation="extend_lock",
        refused=ExampleRequest(body={"key_values": {"site": "shop"}, "session": "wrong"}),
        problems=(errors.LockLost,),
    ),
    Example(operation="query_locks", refused=ExampleRequest(body={"colour": "red"})),
    Example(
        operation="release_lock",
        refused=ExampleRequest(body={"key_values": {"site": "shop"}, "session": "wrong"}),
        problems=(errors.LockLost,),
    ),
    Example(
        operation="force_release_lock",
        before=(("acquire_lock", ExampleRequest(body=_OTHER)),),
        good=ExampleRequest(body=_OTHER),
        refused=ExampleRequest(body={"key_values": {"site": "missing"}}),
        problems=(errors.UnknownLock, errors.LockLost),
    ),
    Example(
        operation="set_counter",
        good=ExampleRequest(body={"key_values": {"customer": "ann"}, "count": 1}),
        refused=ExampleRequest(body={"key_values": {"customer": "ann"}, "count": -1}),
    ),
    Example(operation="query_counters", refused=ExampleRequest(body={"after": "ann"})),
    Example(
        operation="acquire_slots",
        good=ExampleRequest(body={"key_values": {"customer": "ann"}, "count": 1, "lease": 30}),
        refused=ExampleRequest(body={"key_values": {"customer": "ann"}, "count": 9}),
        problems=(errors.LimitReached,),
    ),
    Example(
        operation="extend_slots", refused=ExampleRequest(body=_SLOTS), problems=(errors.SlotsLost,)
    ),
    Example(
        operation="release_slots", refused=ExampleRequest(body=_SLOTS), problems=(errors.SlotsLost,)
    ),
]

PIPELINES = [
    Example(operation="list_pipelines"),
    Example(operation="get_pipeline", problems=(errors.UnknownPipeline,)),
    Example(operation="get_pipeline_lag", problems=(errors.UnknownPipeline,)),
    Example(operation="pause_pipeline", problems=(errors.UnknownPipeline,)),
    Example(
        operation="seek_pipeline",
        good=ExampleRequest(body={"offset": ">"}),
        refused=ExampleRequest(body={"offset": "yesterday"}),
        problems=(errors.UnknownPipeline, errors.UnknownSeq),
    ),
    Example(operation="resume_pipeline", problems=(errors.UnknownPipeline,)),
    Example(operation="delete_pipeline", problems=(errors.UnknownPipeline,)),
    Example(operation="list_sinks"),
    Example(operation="get_sink", problems=(errors.UnknownSink,)),
    Example(operation="reset_sink", problems=(errors.UnknownSink,)),
]

LAST = [
    Example(
        operation="replay_topic",
        refused=ExampleRequest(body={"queue": "mail", "start": "yesterday"}),
        problems=(errors.UnknownTopic, errors.UnknownSeq, errors.QueueFull, errors.PushTimeout),
    ),
    Example(operation="delete_limit", problems=(errors.UnknownLimit,)),
    Example(
        operation="drop_queue", refused=ExampleRequest(query={"keep_data": "some"}), problems=_QUEUE
    ),
    Example(operation="open_socket", refused=ExampleRequest()),
]
"""What adds to that with which others work, or removes it."""

EXAMPLES: list[Example] = [
    *TOPICS,
    *PROCS,
    *QUEUES,
    *ITEMS,
    *DEAD_LETTERS,
    *CHANNELS,
    *LIMITS,
    *LOCKS,
    *PIPELINES,
    *LAST,
]
