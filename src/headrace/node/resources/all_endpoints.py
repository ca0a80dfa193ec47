"""All endpoints of the API."""

from headrace.node.resources import (
    channels,
    claims,
    dead_letters,
    items,
    limits,
    locks,
    pipelines,
    procs,
    pushes,
    queues,
    socket,
    topic_streams,
    topics,
)
from headrace.node.resources.endpoint import Endpoint

ENDPOINTS: list[Endpoint] = [
    *topics.ENDPOINTS,
    *topic_streams.ENDPOINTS,
    *procs.ENDPOINTS,
    *queues.ENDPOINTS,
    *pushes.ENDPOINTS,
    *claims.ENDPOINTS,
    *items.ENDPOINTS,
    *dead_letters.ENDPOINTS,
    *channels.ENDPOINTS,
    *limits.ENDPOINTS,
    *locks.ENDPOINTS,
    *pipelines.ENDPOINTS,
    *socket.ENDPOINTS,
]
