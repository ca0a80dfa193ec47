"""What a run found: every sample, and what came of every goal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bench.context import Contender
from bench.goals import Goal, Value, Verdict
from bench.measure import spread


@dataclass
class Outcome:
    """A goal with its values, round by round; without any, ``why_not`` says why."""

    goal: Goal
    values: list[float] = field(default_factory=list)
    why_not: str = ""

    @property
    def must(self) -> Verdict:
        return self.goal.verdict(self.values, self.goal.must)

    @property
    def aim(self) -> Verdict:
        return self.goal.verdict(self.values, self.goal.aim)


@dataclass
class Results:
    """Samples by contender: one dictionary of values a round."""

    goals: list[Goal]
    contenders: dict[str, Contender] = field(default_factory=dict)
    samples: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def expect(self, contender: Contender) -> None:
        """Figures are shown in this order."""
        self.contenders[contender.key] = contender
        self.samples[contender.key] = []

    def add(self, contender: Contender, sample: dict[str, float]) -> None:
        self.samples[contender.key].append(sample)

    def fail(self, contender: Contender, error: Exception) -> None:
        """From here on the contender is excluded. Its earlier figures are not shown either."""
        self.failures[contender.key] = f"failed: {type(error).__name__}: {error}"
        self.samples.pop(contender.key, None)

    def measured(self) -> list[Contender]:
        """Contenders that have figures."""
        return [self.contenders[key] for key, samples in self.samples.items() if samples]

    def values(self, value: Value) -> list[float]:
        return [sample[value.name] for sample in self.samples.get(value.contender, ())]

    def outcomes(self) -> list[Outcome]:
        """Every goal that this run was about."""
        found = [self._outcome(goal) for goal in self.goals]
        return [outcome for outcome in found if outcome.values or outcome.why_not]

    def _outcome(self, goal: Goal) -> Outcome:
        for value in (goal.ours, goal.theirs):
            why_not = value and self.why_not(value.contender)
            if why_not:
                return Outcome(goal, why_not=why_not)
        ours = self.values(goal.ours)
        if goal.theirs is None:
            return Outcome(goal, ours)
        theirs = self.values(goal.theirs)
        # After an interrupt one may have a round more than the other.
        return Outcome(goal, [a / b for a, b in zip(ours, theirs, strict=False)])

    def why_not(self, key: str) -> str:
        """Why there are no figures for a contender; nothing if there are, or none was asked."""
        return self.missing.get(key) or self.failures.get(key) or ""

    def as_json(self) -> dict[str, Any]:
        return {
            "contenders": [self._contender_json(each) for each in self.measured()],
            "goals": [_outcome_json(outcome) for outcome in self.outcomes()],
            "not_measured": {**self.missing, **self.failures},
        }

    def _contender_json(self, contender: Contender) -> dict[str, Any]:
        return {
            "key": contender.key,
            "title": contender.title,
            "unit": contender.unit,
            **contender.facts._asdict(),
            "note": contender.note(),
            "samples": self.samples[contender.key],
        }


def _outcome_json(outcome: Outcome) -> dict[str, Any]:
    goal = outcome.goal
    found: dict[str, Any] = {
        "goal": goal.title,
        "is_limit": goal.is_limit,
        "unit": goal.unit.strip(),
        "must": goal.must,
        "aim": goal.aim,
    }
    if outcome.why_not:
        return {**found, "not_measured": outcome.why_not}
    median, least, greatest = spread(outcome.values)
    return {
        **found,
        "median": median,
        "min": least,
        "max": greatest,
        "rounds": outcome.values,
        "must_verdict": outcome.must,
        "aim_verdict": outcome.aim,
    }
