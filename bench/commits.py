"""Two commits of Headrace side by side: ``python -m bench.commits BEFORE [--only push,take]``.

The commit ``BEFORE`` is checked out into a temporary folder. Each case runs in one process per
commit, which take turns in every round; the table shows the median of the ratios *now / before*
with the least and the greatest. Both run the benchmarks of the working tree.

``--without claim,settle`` in place of a commit compares the working tree with itself, with these
fast paths switched off: the ratio is what they gain.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench.launcher import Process

from headrace.testing.postgres import PrivatePostgres

ROOT = Path(__file__).parents[1]


class Case(NamedTuple):
    """What is asked of the player of each side; ``first`` is asked once before."""

    name: str
    do: str
    options: dict[str, Any] = {}  # noqa: RUF012  # never changed
    first: tuple[tuple[str, dict[str, Any]], ...] = ()
    module: str = "bench.commit_contender"
    stores: tuple[str, ...] = ("postgres", "sqlite", "memory")


CHANNELS = {"channels": 1000}
DATABASES = ("postgres", "sqlite")
PREPARED = (("prepare", {}),)
CASES = [
    Case("push-1", "push_rate", {"size": 1}),
    Case("push-1000", "push_rate", {"size": 1000}),
    Case("pushers-64", "pushers_rate", {"pushers": 64}, stores=DATABASES),
    Case("push-key-1", "keyed_push_rate"),
    Case("push-key", "keyed_callers_rate", {"does": "push", "callers": 32}, stores=DATABASES),
    Case("take-1", "take_rate", {"size": 1}),
    Case("take-100", "take_rate", {"size": 100}),
    Case("work", "work_rate"),
    Case("work-1ms", "work_rate", {"handler_ms": 1}),
    Case("fair", "take_rate", {"size": 100}, (("play", CHANNELS),)),
    Case("line", "take_rate", {"size": 100}, (("play", {**CHANNELS, "selects": False}),)),
    Case("rule", "take_rate", {"size": 100}, (("play", CHANNELS), ("rules", {"count": 1}))),
    Case("rules-3", "work_rate", {}, (("play", CHANNELS), ("rules", {"count": 3}))),
    Case("commit-1", "commit_rate", {"size": 1}),
    Case("commit-1000", "commit_rate", {"size": 1000}),
    Case("commit-key-1", "keyed_commit_rate"),
    Case("commit-key", "keyed_callers_rate", {"does": "commit", "callers": 32}, stores=DATABASES),
    Case("read", "read_rate"),
    Case("proc", "proc_rate", {"size": 1}),
    Case("proc-1000", "proc_rate", {"size": 1000}),
    *(
        Case(f"spark-{do}", f"{do}_rate", {}, PREPARED, "bench.spark_contender", DATABASES)
        for do in ("read", "write", "pipe")
    ),
]


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """The folder of another commit's files, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="headrace-before-") as folder:
        archive = subprocess.run(
            ["git", "archive", commit, "src"], cwd=ROOT, check=True, capture_output=True
        ).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        yield Path(folder)


@contextmanager
def player(root: Path, module: str, where: str, log: Path) -> Iterator[Process]:
    """A player that imports Headrace from ``root``."""
    path = os.pathsep.join([str(root / "src"), str(ROOT)])
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.contender", module, where],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            cwd=root,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,
        )
    try:
        yield Process(process, log)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def measure(
    case: Case,
    urls: dict[str, str],
    roots: dict[str, Path],
    rounds: int,
    seconds: float,
    folder: Path,
    without: list[str],
) -> list[dict[str, dict[str, float]]]:
    """The figures of both sides, round by round."""
    found = []
    with ExitStack() as stack:
        sides = {}
        for side, root in roots.items():
            log = folder / f"{side}.log"
            sides[side] = stack.enter_context(player(root, case.module, urls[side], log))
            if without and side == "before":
                sides[side].ask("switch_off", paths=without)
            for do, options in case.first:
                sides[side].ask(do, **options)
        for _ in range(rounds + 1):
            figures = {}
            for side in random.sample(sorted(sides), len(sides)):
                figures[side] = sides[side].ask(case.do, seconds=seconds, **case.options)
            found.append(figures)
    return found[1:]  # the first warms up


def ratios(rounds: list[dict[str, dict[str, float]]], figure: str) -> str:
    values = [r["now"][figure] / r["before"][figure] for r in rounds if figure in r["now"]]
    if not values:
        return "-"
    return f"{statistics.median(values):.3f} ({min(values):.2f}..{max(values):.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.commits", description=__doc__)
    parser.add_argument("before", nargs="?", default="HEAD")
    parser.add_argument("--without", default="", help="fast paths, by commas")
    parser.add_argument("--only", default="", help="parts of cases' names, or stores, by commas")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.7)
    options = parser.parse_args()
    only = [part for part in options.only.split(",") if part]
    without = [path for path in options.without.split(",") if path]
    with ExitStack() as stack:
        before = ROOT if without else stack.enter_context(checked_out(options.before))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-bench-")))
        server = stack.enter_context(PrivatePostgres(settings={}))
        roots = {"before": before, "now": ROOT}
        print(f"{'case':14} {'store':9} {'rate, now / before':26} client CPU an item")
        for number, case in enumerate(CASES):
            for store in case.stores:
                if only and not any(part in (case.name, store) for part in only):
                    continue
                if without and store == "memory":  # it has no fast paths
                    continue
                urls = {}
                for side in roots:
                    name = f"{side}_{number}"
                    if store == "postgres":
                        server.execute(f"create database {name}")
                        urls[side] = server.url.removesuffix("/postgres") + f"/{name}"
                    elif store == "sqlite":
                        urls[side] = f"sqlite:///{folder / name}.db?durability=relaxed"
                    else:
                        urls[side] = "memory://"
                try:
                    rounds = measure(
                        case, urls, roots, options.rounds, options.seconds, folder, without
                    )
                except RuntimeError as error:
                    print(f"{case.name:14} {store:9} failed: {error}", flush=True)
                    continue
                rates, cpu = ratios(rounds, "rate"), ratios(rounds, "client cpu")
                print(f"{case.name:14} {store:9} {rates:26} {cpu}", flush=True)
                if store == "postgres":
                    for side in roots:
                        server.execute(f"drop database {side}_{number} with (force)")


if __name__ == "__main__":
    main()
