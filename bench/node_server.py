"""A node for the benchmark: ``python -m bench.node_server URL SOCKET NAMESPACE [ungrouped]``.

It is the node of ``headrace up``. Ungrouped, each push has a transaction of its own.
"""

from __future__ import annotations

import sys
from functools import partial

from headrace import local_nodes
from headrace.node import process
from headrace.node.options import NodeOptions, listen_on


def main(url: str, socket: str, namespace: str, grouping: str = "") -> None:
    if grouping == "ungrouped":
        process.NodeApp = partial(process.NodeApp, groups_writes=False)  # type: ignore[assignment,misc]  # makes one, too
    lock = local_nodes.lock_namespace(namespace)
    listeners = listen_on(None, socket, is_tls=False)
    options = NodeOptions(url=url, namespace=namespace)
    node = process.NodeProcess(
        options, listeners, lock, on_ready=lambda _: print("ready", flush=True)
    )
    node.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
