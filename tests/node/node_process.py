"""Nodes in processes of their own, as users start them."""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headrace import local_nodes

PATIENCE = 60.0


class Up:
    """A running ``headrace up``."""

    def __init__(self, process: subprocess.Popen[str], ready: dict[str, Any]) -> None:
        self.process = process
        self.url: str = ready["url"]
        self.pid: int = ready["pid"]
        self.incarnation: str = ready["incarnation"]

    @property
    def token(self) -> str | None:
        record = local_nodes.find_by_url(self.url)
        assert record is not None
        return record.token

    def get(self, path: str, token: str | None = None) -> tuple[int, bytes]:
        """The status and body of a response."""
        headers = {"authorization": f"Bearer {token}"} if token else {}
        request = urllib.request.Request(self.url + path, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()


def command(*args: str) -> list[str]:
    return [sys.executable, "-W", "error", "-m", "headrace", *args]


@contextmanager
def up(*args: str, folder: Path | None = None, **environ: str) -> Iterator[Up]:
    """A node that is ready, on a free port unless a socket is given; killed at the end."""
    address = () if "--socket" in args else ("--listen", "127.0.0.1:0")
    process = subprocess.Popen(
        command("up", *args, *address, "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, **environ},
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise AssertionError(process.communicate()[1])
        yield Up(process, json.loads(line))
    finally:
        process.kill()
        process.communicate()


def fails(*args: str, code: int) -> str:
    """What a node that does not start says, in one line."""
    answer = subprocess.run(
        command("up", *args), capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert answer.returncode == code, answer
    assert "Traceback" not in answer.stderr
    return answer.stderr
