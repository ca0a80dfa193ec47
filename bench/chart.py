"""The picture: every goal as a bar, with what it must reach and what it aims at."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl

mpl.use("agg")

from bench.goals import ENOUGH_ROUNDS
from bench.measure import spread
from bench.report import number
from bench.results import Outcome, Results
from matplotlib import pyplot as plt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

INK, FAINT, PAPER = "#22303c", "#8a97a3", "#fbfaf7"
AIMED, FINE, OPEN, MISSED = "#14746f", "#74bfb5", "#e5b04a", "#c8553d"
ROW_INCHES = 0.34
TITLE_INCHES = 0.8
HEAD_INCHES, FOOT_INCHES = 1.5, 1.0
MARGIN, LEFT, RIGHT = 0.03, 0.355, 0.80


class Panel(NamedTuple):
    """Goals of one kind, on one axis."""

    title: str
    outcomes: list[Outcome]
    is_log: bool
    start: float  # where bars begin: 1 is the peer itself


def draw(results: Results, about: dict[str, Any], path: Path) -> None:
    """Write the chart; if no goal was measured there is none."""
    panels = _panels(results.outcomes(), about["absolute"])
    if not panels:
        path.unlink(missing_ok=True)
        return
    rows = [len(panel.outcomes) for panel in panels]
    inside = ROW_INCHES * sum(rows) + TITLE_INCHES * (len(panels) - 1)
    height = inside + HEAD_INCHES + FOOT_INCHES
    with plt.rc_context({"font.family": "DejaVu Sans", "text.color": INK}):
        figure, axes = plt.subplots(
            len(panels), squeeze=False, figsize=(12, height), height_ratios=rows, facecolor=PAPER
        )
        figure.subplots_adjust(
            left=LEFT,
            right=RIGHT,
            top=1 - HEAD_INCHES / height,
            bottom=FOOT_INCHES / height,
            # In heights of an average panel, as matplotlib wants it.
            hspace=TITLE_INCHES * len(rows) / (ROW_INCHES * sum(rows)),
        )
        for panel, axis in zip(panels, axes[:, 0], strict=True):
            _draw_panel(axis, panel)
        _write_around(figure, results.outcomes(), about)
        figure.savefig(path, dpi=150, facecolor=PAPER)
        plt.close(figure)


def _panels(outcomes: list[Outcome], absolute: str) -> list[Panel]:
    faster = [each for each in outcomes if not each.goal.is_limit]
    limits = [each for each in outcomes if each.goal.is_limit and each.goal.theirs]
    values = [each for each in outcomes if each.goal.is_limit and not each.goal.theirs]
    panels = [
        Panel("Rates: how many times the other's. More is better.", faster, True, 1),
        Panel("Latency and growth: how many times the other's. Less is better.", limits, True, 1),
        Panel(absolute, values, False, 0),
    ]
    return [panel for panel in panels if any(each.values for each in panel.outcomes)]


def _draw_panel(axis: Axes, panel: Panel) -> None:
    axis.set_facecolor(PAPER)
    # From the figure's left edge on, above the axis.
    edge = (MARGIN - LEFT) / (RIGHT - LEFT)
    axis.set_title(panel.title, loc="left", fontsize=10.5, fontweight="bold", pad=9, x=edge)
    low, high = _limits(panel)
    if panel.is_log:
        axis.set_xscale("log")
    axis.set_xlim(low, high)
    axis.set_ylim(len(panel.outcomes) - 0.4, -0.6)
    axis.set_yticks(range(len(panel.outcomes)), [each.goal.title for each in panel.outcomes])
    axis.tick_params(axis="y", length=0, labelsize=9.5, labelcolor=INK, pad=8)
    axis.tick_params(axis="x", length=0, labelsize=8.5, labelcolor=FAINT)
    for side in ("top", "right", "left", "bottom"):
        axis.spines[side].set_visible(False)
    _mark_scale(axis, panel)
    for place, outcome in enumerate(panel.outcomes):
        _draw_row(axis, place, outcome, panel)


def _limits(panel: Panel) -> tuple[float, float]:
    seen = [panel.start or 1]
    for each in panel.outcomes:
        seen += [*each.values, each.goal.must, each.goal.aim]
    if not panel.is_log:
        return 0, max(seen) * 1.08
    return min(seen) / 1.25, max(seen) * 1.25


def _mark_scale(axis: Axes, panel: Panel) -> None:
    if panel.is_log:
        axis.xaxis.set_major_locator(LogLocator(10, subs=(1, 2, 5)))
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}x"))
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.minorticks_off()
    axis.grid(axis="x", color="#e6e3dc", linewidth=0.8)
    axis.set_axisbelow(True)
    axis.axvline(panel.start, color=FAINT, linewidth=1.2)


def _draw_row(axis: Axes, place: int, outcome: Outcome, panel: Panel) -> None:
    goal = outcome.goal
    beside = {"transform": axis.get_yaxis_transform(), "va": "center", "fontsize": 9}
    ink = INK if outcome.values else FAINT
    if outcome.values:
        median, least, greatest = spread(outcome.values)
        width = median - panel.start
        axis.barh(place, width, left=panel.start, height=0.52, color=_colour(outcome))
        axis.plot([least, greatest], [place] * 2, color=INK, linewidth=1.3)
        axis.text(1.02, place, f"{number(median)}{goal.unit}", fontweight="bold", **beside)
        axis.text(1.14, place, _words(outcome), color=FAINT, **beside)
    else:
        axis.text(1.02, place, "not measured", color=FAINT, style="italic", **beside)
    axis.plot([goal.must] * 2, [place - 0.36, place + 0.36], color=ink, linewidth=2.4)
    axis.plot(goal.aim, place, "D", markersize=6, color=PAPER, markeredgecolor=ink, zorder=4)


def _colour(outcome: Outcome) -> str:
    if outcome.must == "missed":
        return MISSED
    if outcome.must != "met":
        return OPEN
    return AIMED if outcome.aim == "met" else FINE


def _words(outcome: Outcome) -> str:
    if outcome.must == "missed":
        return "misses the must"
    if outcome.must != "met":
        return "must undecided"
    return {"met": "reaches the aim", "missed": "reaches the must"}.get(
        outcome.aim, "must; aim undecided"
    )


def _write_around(figure: Figure, outcomes: list[Outcome], about: dict[str, Any]) -> None:
    height = figure.get_figheight()
    figure.text(MARGIN, 1 - 0.42 / height, about["title"], fontsize=17, fontweight="bold")
    rounds = f"Bar: median of {about['rounds']} interleaved rounds. Line: least to greatest."
    if about["rounds"] < ENOUGH_ROUNDS:
        rounds += f" Fewer than {ENOUGH_ROUNDS} rounds are only an indication."
    figure.text(MARGIN, 1 - 0.7 / height, rounds, fontsize=9.5, color=FAINT)
    figure.legend(
        handles=_legend(),
        loc="upper right",
        bbox_to_anchor=(1 - MARGIN / 2, 1 - 0.2 / height),
        ncols=2,
        frameon=False,
        fontsize=8.5,
        handlelength=1.3,
    )
    figure.text(
        MARGIN,
        0.2 / height,
        "\n".join(_footer(outcomes, about)),
        fontsize=7.5,
        color=FAINT,
        va="bottom",
        linespacing=1.5,
    )


def _footer(outcomes: list[Outcome], about: dict[str, Any]) -> list[str]:
    reasons = sorted({each.why_not for each in outcomes if each.why_not})
    versions = " · ".join([*about["versions"], about["machine"], about["date"]])
    lines = [textwrap.shorten(f"Not measured: {why}.", 170, placeholder=" …") for why in reasons]
    return [*lines, *textwrap.wrap(versions, 170)]


def _legend() -> Sequence[Artist]:
    return [
        Patch(color=AIMED, label="all rounds reach the aim"),
        Patch(color=FINE, label="all rounds reach the must"),
        Patch(color=OPEN, label="rounds disagree on the must"),
        Patch(color=MISSED, label="no round reaches the must"),
        Line2D([], [], color=INK, marker="|", ls="", ms=10, mew=2.4, label="must"),
        Line2D([], [], color=PAPER, marker="D", ls="", ms=6, mec=INK, label="aim"),
    ]
