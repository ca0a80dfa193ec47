"""Commits when the process may open no more files, so that no checkpoint can start."""

import json
import os
import resource
import sys
from pathlib import Path

import headrace
from faults.children import committer
from headrace.drivers.sqlite import connections
from headrace.testing.ledger import Ledger


def main(url: str, ledger: str, name: str) -> None:
    connections.WAL_BYTES = 0
    with Ledger(Path(ledger)) as book, headrace.connect(url) as hr:
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        # Files get the lowest free number: below the one that is free now, none is.
        lowest = os.dup(0)
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, most))
        committer.commit(hr, book, name, ["numbers"])
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
