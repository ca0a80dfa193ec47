"""Commits when the process may open no further files, so that no checkpoint can start."""

import json
import os
import resource
import sys
from pathlib import Path

import headrace
from faults.children import committer
from headrace.drivers.sqlite import connections
from headrace.testing.audit_log import AuditLog


def main(url: str, log_path: str, name: str) -> None:
    connections.WAL_BYTES = 0
    with AuditLog(Path(log_path)) as log, headrace.connect(url) as hr:
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        # Files get the lowest free number. Below the one that is free now, none is.
        lowest = os.dup(0)
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, most))
        committer.commit(hr, log, name, ["numbers"])
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
