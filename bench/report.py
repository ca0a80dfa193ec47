"""The table that is printed and the JSON that is kept."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.goals import ENOUGH_ROUNDS
from bench.measure import spread
from bench.results import Outcome, Results


def table(results: Results, about: dict[str, Any]) -> str:
    """Goals with verdicts, then figures with what they stand on, then what is missing."""
    return "\n".join(
        [
            *_heading(about),
            "",
            *_columns([_GOAL_HEADS, *(_goal_row(each) for each in results.outcomes())]),
            "",
            *_columns([_FIGURE_HEADS, *_figure_rows(results)]),
            *_missing(results),
        ]
    )


def write_json(results: Results, about: dict[str, Any], path: Path) -> None:
    path.write_text(json.dumps({"about": about, **results.as_json()}, indent=1) + "\n")


def _heading(about: dict[str, Any]) -> Iterator[str]:
    yield f"{about['rounds']} interleaved rounds in {about['minutes']:.1f} min on {about['machine']}"
    if about["rounds"] < ENOUGH_ROUNDS:
        yield f"Fewer than {ENOUGH_ROUNDS} rounds: the verdicts are only an indication."


_GOAL_HEADS = ("goal", "median", "min..max", "must", "", "aim", "")


def _goal_row(outcome: Outcome) -> Sequence[str]:
    goal = outcome.goal
    sign = "<=" if goal.is_limit else ">="
    must, aim = (f"{sign} {bound:g}{goal.unit}" for bound in (goal.must, goal.aim))
    if outcome.why_not:
        return (goal.title, "-", "-", must, "not measured", aim, outcome.why_not)
    median, least, greatest = (number(value) for value in spread(outcome.values))
    between = f"{least}..{greatest}" if len(outcome.values) > 1 else "one pass"
    return (goal.title, f"{median}{goal.unit}", between, must, outcome.must, aim, outcome.aim)


_FIGURE_HEADS = ("figure", "median", "min..max", "unit", "durability", "client", "server", "")


def _figure_rows(results: Results) -> Iterator[Sequence[str]]:
    for contender in results.measured():
        samples = results.samples[contender.key]
        for place, name in enumerate(samples[0]):
            values = [sample[name] for sample in samples]
            median, least, greatest = (number(value) for value in spread(values))
            yield (
                contender.title if place == 0 else "",
                median,
                f"{least}..{greatest}" if len(values) > 1 else "one pass",
                unit(contender.unit, name),
                *(contender.facts if place == 0 else ("", "", "")),
                contender.note() if place == 0 else "",
            )


def unit(usual: str, name: str) -> str:
    """The unit of one of a contender's values."""
    special = {
        "rate": usual,
        "pages": "pages",
        "cpu": "µs CPU each",
        "over": "MB over the start",
        "server cpu": "µs server CPU each",
        "client cpu": "µs client CPU each",
        "percent": "% of a core",
    }
    return special.get(name, f"{usual} {name}")


def _missing(results: Results) -> Iterator[str]:
    for key, reason in {**results.missing, **results.failures}.items():
        yield f"not measured: {key}: {reason}"


def number(value: float) -> str:
    """Three digits are all that the figures are good for."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def _columns(rows: list[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for place, row in enumerate(rows):
        yield "  ".join(map(str.ljust, row, widths)).rstrip()
        if place == 0:
            yield "  ".join("-" * width for width in widths)
