"""Requests that work: the example of every endpoint, in an order in which all of them work.

A walk begins with a store that ``prepare`` has brought a pipeline and a sink to, which have no
endpoints to create them. What an answer brings (ids, tokens, sessions) is put into the
requests that follow: into the path for a name in braces, into the body for ``…``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

from headrace import Headrace
from headrace.contract.sinks import Fence, Publication
from headrace.contract.store import Store
from headrace.node.resources.all_endpoints import ENDPOINTS
from headrace.node.resources.endpoint import Endpoint
from headrace.node.resources.serve import BASE

BY_NAME = {endpoint.name: endpoint for endpoint in ENDPOINTS}


class Step(NamedTuple):
    """One request of the walk: the example of an endpoint, or another body in its place."""

    name: str
    body: Any = None


ORDER = [
    # Topics
    Step("commit_records"),
    Step("commit_records"),
    Step("commit_to_topics"),
    Step("list_topics"),
    Step("get_topic"),
    Step("update_topic"),
    Step("list_records"),
    Step("get_record"),
    # Procs
    Step("put_proc"),
    Step("list_procs"),
    Step("get_proc"),
    Step("update_proc"),
    Step("get_proc_lag"),
    Step("claim_records"),
    Step("extend_claim"),
    Step("ack_records"),
    Step("seek_proc"),
    Step("claim_records"),
    Step("nack_records"),
    Step("claim_any_records"),
    Step("reclaim_records"),
    Step("disable_proc"),
    Step("resume_proc"),
    Step("delete_proc"),
    # Queues
    Step("get_queue_defaults"),
    Step("update_queue_defaults"),
    Step("create_queue"),
    Step("list_queues"),
    Step("get_queue"),
    Step("update_queue"),
    Step("pause_queue"),
    Step("resume_queue"),
    Step("get_queue_stats"),
    Step("list_queue_workers"),
    Step("list_queue_errors"),
    Step("list_queue_samples"),
    Step("replay_topic"),
    # Items
    Step("push_items"),
    Step("list_items"),
    Step("get_item"),
    Step("edit_item"),
    Step("explain_item"),
    Step("retry_item"),
    Step("claim_items"),
    Step("extend_items"),
    Step("settle_items"),
    Step("push_items"),
    Step("cancel_item"),
    # Dead items
    Step("push_items", body={"payload": {"to": "bob"}}),
    Step("claim_items"),
    Step("settle_items", body={"outcomes": [{"item": 1, "token": "…", "kind": "drop"}]}),
    Step("list_dead"),
    Step("group_dead"),
    Step("redrive_dead"),
    Step("purge_dead"),
    # Channels
    Step("push_items", body={"payload": {"to": "cay"}, "channel": {"os": "linux"}}),
    Step("query_channels"),
    Step("get_channel"),
    Step("delay_channel"),
    Step("end_channel_delay"),
    Step("register_selection"),
    Step("list_selections"),
    Step("forget_selection"),
    Step("delete_channels"),
    Step("drop_queue"),
    # Limits
    Step("create_limit"),
    Step("query_limits"),
    Step("match_limits"),
    Step("simulate_limit"),
    Step("get_limit"),
    Step("update_limit"),
    Step("create_override"),
    Step("put_limit"),
    Step("get_limit_usage"),
    Step("delete_limit"),
    # Locks and counters
    Step("acquire_lock"),
    Step("query_locks"),
    Step("extend_lock"),
    Step("release_lock"),
    Step("acquire_lock"),
    Step("force_release_lock"),
    Step("acquire_slots"),
    Step("query_counters"),
    Step("extend_slots"),
    Step("release_slots"),
    Step("set_counter"),
    # Pipelines and sinks, which programs create
    Step("list_pipelines"),
    Step("get_pipeline"),
    Step("get_pipeline_lag"),
    Step("pause_pipeline"),
    Step("resume_pipeline"),
    Step("seek_pipeline"),
    Step("delete_pipeline"),
    Step("list_sinks"),
    Step("get_sink"),
    Step("reset_sink"),
]


def prepare(hr: Headrace, store: Store) -> None:
    """Create what the API only reads."""
    hr.commit("sales", {"price": 5})
    hr.pipelines.create("totals", source="sales", to="invoices", processor=dict)
    fence = Fence(sink="warehouse", query="daily", batch=1)
    store.run(store.sinks.publish(Publication(stages=(), fence=fence)))


class Request(NamedTuple):
    """A request that can be sent."""

    endpoint: Endpoint
    path: str
    body: Any


class Walk:
    """Makes the requests of all examples; ``learn`` takes each answer."""

    def __init__(self) -> None:
        self.names = {
            "topic": "orders",
            "proc": "mailer",
            "queue": "mail",
            "item": "1",
            "record": ":0",
            "limit": "per-customer",
            "pipeline": "totals",
            "sink": "warehouse",
        }
        self.token = "none"
        self.session = "none"

    def __iter__(self) -> Iterator[Request]:
        for step in ORDER:
            endpoint = BY_NAME[step.name]
            body = endpoint.example if step.body is None else step.body
            yield Request(endpoint, self.path(endpoint), self.filled(body))

    def path(self, endpoint: Endpoint) -> str:
        """The path of an endpoint for what there is."""
        path = BASE + endpoint.path
        for name, value in self.names.items():
            path = path.replace(f"{{{name}}}", quote(value, safe=""))
        return path

    def filled(self, body: Any) -> Any:
        """A body with what earlier answers brought."""
        if isinstance(body, list):
            return [self.filled(one) for one in body]
        if not isinstance(body, dict):
            return body
        found = {name: self.filled(value) for name, value in body.items()}
        known: dict[str, Callable[[], Any]] = {
            "token": lambda: self.token,
            "session": lambda: self.session,
        }
        for name, value in known.items():
            if found.get(name) == "…":
                found[name] = value()
                for id in ("id", "item"):
                    if id in found:
                        found[id] = int(self.names["item"])
        return found

    def learn(self, endpoint: Endpoint, answer: Any) -> None:
        """Keep what later requests need."""
        if not isinstance(answer, dict):
            return
        if endpoint.name == "push_items":
            self.names["item"] = str(answer["id"])
        elif endpoint.name == "commit_records":
            self.names["record"] = answer["ids"][0]
        elif endpoint.name == "claim_items" and answer["items"]:
            [item] = answer["items"]
            self.names["item"], self.token = str(item["id"]), item["token"]
        elif endpoint.name.startswith("claim_") and answer.get("token"):
            self.token = answer["token"]
        elif "session" in answer:
            self.session = answer["session"]
