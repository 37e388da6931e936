"""The geometry of destinations: where the inputs of removed labels go, by answer and by mass."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from unlabel._typing import Label
from unlabel.evaluation.summary import Summary
from unlabel.evaluation.summary_layout import ROUNDING
from unlabel.report.axis import percent

MOST_PANELS = 12
MOST_LISTED = 1000
MOST_ROWS, FEWEST_ROWS, SMALLEST_SHARE = 8, 3, 0.01


class Bar(NamedTuple):
    """A share, None if it is not known, and its bar; one that is cut is longer than drawn."""

    share: float | None
    width: float = 0.0
    is_cut: bool = False


class Goal(NamedTuple):
    """A label, or unknown, with its share of the answers and its mean share of the confidence."""

    label: Label | None
    answers: Bar
    mass: Bar


class Origin(NamedTuple):
    """The goals of the inputs of one removed label, and the rest of both shares."""

    label: Label
    rows: int
    goals: list[Goal]
    unknown: Goal | None
    others: Goal | None
    n_others: int


def destinations(summary: Summary) -> dict[str, Any]:
    """Lay out where the inputs of each removed label go, most inputs first."""
    known = [entry for entry in summary["destinations"] if entry["to"]]
    if len(known) > MOST_PANELS:
        known.sort(key=lambda entry: -entry["rows"])
    n_retained = len(summary["labels"]["retained"])
    drawn, listed = known[:MOST_PANELS], known[MOST_PANELS : MOST_PANELS + MOST_LISTED]
    panels = [_origin(entry, n_retained) for entry in drawn]
    # Unknown and the others, which are many labels in one, do not set the scale.
    bars = [bar for panel in panels for goal in panel.goals for bar in goal[1:]]
    longest = max((bar.share or 0.0 for bar in bars), default=0.0) or 1.0
    panels = [_scaled(panel, longest) for panel in panels]
    every = [bar for panel in panels for goal in _all_goals(panel) for bar in goal[1:]]
    return {
        "panels": panels,
        "has_cut": any(bar.is_cut for bar in every),
        "has_unlisted": any(
            bar.share is None for panel in panels for goal in panel.goals for bar in goal[1:]
        ),
        "more": listed,
        "left_out": len(known) - len(drawn) - len(listed),
        "without_rows": len(summary["destinations"]) - len(known),
    }


def _origin(entry: Summary, n_retained: int) -> Origin:
    """Bring the listed answers and masses of a removed label together, by label."""
    answers = {part["label"]: part["share"] for part in entry["answers"]}
    mass = {part["label"]: part["share"] for part in entry["to"]}
    # A label that is missing from a list that adds up to 1 has nothing.
    no_answers, no_mass = (None if _rest(shares.values()) else 0.0 for shares in (answers, mass))
    every = [
        Goal(label, Bar(answers.get(label, no_answers)), Bar(mass.get(label, no_mass)))
        for label in answers | mass
    ]
    unknown = next((goal._replace(mass=Bar(None)) for goal in every if goal.label is None), None)
    goals = [goal for goal in every if goal.label is not None]
    goals.sort(key=lambda goal: (-(goal.answers.share or 0.0), -(goal.mass.share or 0.0)))
    goals = [
        goal
        for number, goal in enumerate(goals[:MOST_ROWS])
        if number < FEWEST_ROWS or max(bar.share or 0.0 for bar in goal[1:]) >= SMALLEST_SHARE
    ]
    shown = [*goals, unknown] if unknown else goals
    unlisted = _rest(goal.answers.share or 0.0 for goal in shown)
    rest = Goal(None, Bar(unlisted), Bar(_rest(goal.mass.share or 0.0 for goal in shown)))
    n_others = n_retained - len(goals)
    others = rest if n_others > 0 and (rest.answers.share or rest.mass.share) else None
    return Origin(entry["label"], entry["rows"], goals, unknown, others, n_others)


def _rest(shares: Iterable[float]) -> float:
    rest = 1.0 - sum(shares)
    return rest if rest > ROUNDING else 0.0


def _all_goals(origin: Origin) -> list[Goal]:
    return [*origin.goals, *(goal for goal in (origin.unknown, origin.others) if goal)]


def _scaled(origin: Origin, longest: float) -> Origin:
    def bar(bar: Bar) -> Bar:
        width = (bar.share or 0.0) / longest
        return Bar(bar.share, percent(min(width, 1.0)), width > 1)

    def goal(goal: Goal) -> Goal:
        return Goal(goal.label, bar(goal.answers), bar(goal.mass))

    return origin._replace(
        goals=[goal(each) for each in origin.goals],
        unknown=origin.unknown and goal(origin.unknown),
        others=origin.others and goal(origin.others),
    )
