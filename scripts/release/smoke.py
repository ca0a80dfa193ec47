"""A small real job, by the library and by the command; runs inside a fresh environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from queue import SimpleQueue

import headrace

TIME_LIMIT_SECONDS = 60


def main() -> None:
    """Check the package, then run the job on each store named on the command line."""
    [expected, *urls] = sys.argv[1:]
    assert headrace.__version__ == version("headrace") == expected
    assert Path(headrace.__file__).is_relative_to(sys.prefix), headrace.__file__
    assert files("headrace").joinpath("py.typed").is_file()
    for url in urls:
        use_library(url)
        use_command(url)
    use_node()


def use_node() -> None:
    """The same through a node, which the library starts as a process of its own."""
    os.environ["HEADRACE_RUNTIME_DIR"] = str(Path("run").absolute())
    with headrace.spawn("sqlite:///served.db") as node:
        use_library(node.url)
        use_command(node.url)


def use_library(url: str) -> None:
    """A task for each of ten numbers, a worker that runs them, and a topic of what came out."""
    results: SimpleQueue[int] = SimpleQueue()
    with headrace.connect(url) as hr:
        app = headrace.App(client=hr)

        @app.task(queue="release-numbers")
        def square(n: int) -> None:
            results.put(n * n)

        for n in range(10):
            square.push(n)
        app.work()
        squares = sorted(results.get(timeout=TIME_LIMIT_SECONDS) for _ in range(10))
        assert squares == [n * n for n in range(10)], squares
        hr.commit_many("release-squares", [{"n": n} for n in squares])
        assert [record.body["n"] for record in hr.range("release-squares")] == squares


def use_command(url: str) -> None:
    """The same store from the command line."""
    if url.startswith("memory:"):
        return
    assert headrace_command(url, "topic", "show", "release-squares")["length"] == 10
    headrace_command(url, "push", "release-mail", '{"to": "ada"}')
    assert headrace_command(url, "queue", "stats", "release-mail")["pending"] == 1


def headrace_command(url: str, *args: str) -> dict[str, object]:
    """Run ``headrace`` as users do, and return the document that it prints."""
    done = subprocess.run(
        ["headrace", "--url", url, "--json", *args],
        check=True,
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_SECONDS,
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    main()
