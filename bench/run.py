"""The engine: rounds of cases with their contenders, interleaved; then table and chart."""

from __future__ import annotations

import argparse
import gc
import os
import platform
import random
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from bench import chart, report
from bench.context import Case, Contender, Lab, Settings
from bench.goals import Goal
from bench.results import Results

OUT = Path(__file__).parent / "out"


@dataclass(frozen=True)
class Plan:
    """All that is measured in one run.

    Cases of a phase are interleaved, round by round; phases come one after another.
    ``name`` is that of the files, ``absolute`` heads the goals that are no ratios.
    """

    name: str
    title: str
    absolute: str
    about: str
    settings: Settings
    quick: Settings
    starters: dict[str, Callable[[Lab], AbstractContextManager[Any]]]
    phases: list[list[Case]]
    goals: list[Goal]


def run(plan: Plan, arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, write JSON and chart; the exit code."""
    settings, only = _options(plan, arguments)
    # As an interrupt from the keyboard, so that servers are stopped and folders removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    results = Results(plan.goals)
    start = time.monotonic()
    with Lab(settings, plan.starters) as lab:
        is_complete = _run_phases(lab, plan.phases, only, results)
        results.missing = lab.missing
    about = _about(plan, settings, results, (time.monotonic() - start) / 60)
    OUT.mkdir(exist_ok=True)
    report.write_json(results, about, OUT / f"{plan.name}.json")
    chart.draw(results, about, OUT / f"{plan.name}.png")
    files = f"{plan.name}.json, {plan.name}.png"
    print(f"\n{report.table(results, about)}\n\nin bench/out: {files}")
    if not is_complete:
        print("The run was interrupted: this is only what it had until then.", file=sys.stderr)
    return 0 if is_complete and not results.failures else 1


def _run_phases(lab: Lab, phases: list[list[Case]], only: set[str], results: Results) -> bool:
    """Whether all was run; what was measured before an interrupt is kept."""
    try:
        for phase in phases:
            cases = [case for case in phase if not only or case.name in only]
            if cases:
                _run(lab, cases, results)
    except KeyboardInterrupt:
        return False
    return True


def _run(lab: Lab, cases: Sequence[Case], results: Results) -> None:
    """All rounds of a phase: cases in random order, and contenders in random order in each."""
    order = random.Random(lab.settings.seed)
    try:
        running = [list(_opened(lab, case, results)) for case in cases]
        gc.freeze()  # the bodies are not garbage, and need not be looked at again and again
        for turn in range(lab.settings.rounds):
            names = ", ".join(case.name for case in cases)
            print(f"round {turn + 1} of {lab.settings.rounds}: {names}", flush=True)
            for contenders in order.sample(running, len(running)):
                for contender in order.sample(contenders, len(contenders)):
                    _sample(contender, turn, results)
    finally:
        lab.end_phase()


def _opened(lab: Lab, case: Case, results: Results) -> Iterator[Contender]:
    print(f"preparing {case.name}", flush=True)
    for contender in case.contenders(lab):
        results.expect(contender)
        yield contender


def _sample(contender: Contender, turn: int, results: Results) -> None:
    is_done = contender.rounds is not None and turn >= contender.rounds
    if is_done or contender.key in results.failures:
        return
    gc.collect()
    try:
        results.add(contender, contender.sample(turn))
    except Exception as error:
        # One contender's trouble is a line in the table, not the end of the others.
        print(f"  {contender.key} failed: {error}", file=sys.stderr)
        results.fail(contender, error)


def _about(plan: Plan, settings: Settings, results: Results, minutes: float) -> dict[str, Any]:
    facts = [contender.facts for contender in results.measured()]
    words = dict.fromkeys(
        part
        for each in facts
        for text in (each.server, each.client)
        for part in re.split(r", | \+ ", text)
        if any(letter.isdigit() for letter in part)
    )
    return {
        "title": plan.title,
        "absolute": plan.absolute,
        "date": time.strftime("%Y-%m-%d"),
        "minutes": minutes,
        "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.release()}",
        "versions": [*words, f"Python {platform.python_version()}"],
        **{field.name: getattr(settings, field.name) for field in fields(settings)},
    }


def _options(plan: Plan, arguments: Sequence[str] | None) -> tuple[Settings, set[str]]:
    names = [case.name for phase in plan.phases for case in phase]
    parser = argparse.ArgumentParser(prog=f"python -m bench.{plan.name}", description=plan.about)
    parser.add_argument("--quick", action="store_true", help="a first look in a few minutes")
    parser.add_argument("--only", default="", help=f"some of: {','.join(names)}")
    for field in fields(plan.settings):
        option = f"--{field.name.replace('_', '-')}"
        usual = getattr(plan.settings, field.name)
        parser.add_argument(option, type=type(usual), help=f"{usual:,}")
    given = parser.parse_args(arguments)
    only = {name for name in given.only.split(",") if name}
    if unknown := only - set(names):
        parser.error(f"no case {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    changes = {
        field.name: getattr(given, field.name)
        for field in fields(plan.settings)
        if getattr(given, field.name) is not None
    }
    return replace(plan.quick if given.quick else plan.settings, **changes), only
