"""The measured values that the guide on OSR, mask and reference rows quotes.

Run ``python docs/scripts/rows_quoted.py``: it prints the phrases that the guide must have.
"""

from __future__ import annotations

from collections.abc import Iterator

from rows_figures import FLAWS, SETS, Results, compared, percent, results, short


def quoted(found: Results) -> list[str]:
    """Write the phrases with measured values that the guide must have."""
    return [*_about_rows(found), *_about_networks(found), *_about_flaws(found), *_about_heat(found)]


def _about_rows(found: Results) -> Iterator[str]:
    counts = found["by_count"]
    masks = {name: compared(found, name)["mask"] for name in SETS}

    def beyond(value: str, least: int, which: slice = slice(None)) -> float:
        """Find the largest difference from mask, with at least so many rows."""
        return max(
            abs(float(edge - masks[name][value]))
            for name, by_count in counts.items()
            for count, of in by_count.items()
            if int(count) >= least
            for edge in of[value][which]
        )

    def high(count: str) -> str:
        return percent(max(counts[name][count]["distance_removed"][2] for name in SETS))

    def nearer(count: str) -> str:
        shares = [counts[name][count]["nearer_than_mask"] for name in SETS]
        return f"{min(shares):.0%}".removesuffix("%") + f" to {max(shares):.0%}"

    yield f"{found['draws']} draws of reference rows"
    yield f"reaches down to {100 * beyond('accuracy', 1):.1f} points"
    yield f"reaches up to {short(beyond('log_loss', 1), 3)}; from 5 rows"
    yield f"accuracy is within {100 * beyond('accuracy', 5):.2f} percentage points"
    yield f"log-loss within {short(beyond('log_loss', 5))}, and"
    yield f"mask's by more than {short(beyond('log_loss', 5, slice(1, 2)))}"
    yield f"moves {percent(counts['F1']['1']['distance_removed'][2])} of the confidence"
    yield f"within {high('20')} of the full fit, with 100 within {high('100')} and"
    yield f"with 200 within {high('200')}."
    furthest = max(mask["distance_removed"] for mask in masks.values())
    yield f"mask is itself within {percent(furthest)} of"
    yield f"in {nearer('20')} of the draws with 20 rows, in {nearer('100')} with 100"
    yield f"and in {nearer('200')} with 200."


def _about_networks(found: Results) -> Iterator[str]:
    cells = [cell for sets in found["by_network"].values() for cell in sets.values()]
    assert all(cell["osr"]["accuracy"] == cell["mask"]["accuracy"] for cell in cells)

    def gain(cell: Results, value: str) -> float:
        return float(1 - cell["osr"][value] / cell["mask"][value])

    many = [gain(cell, "to_retrained_removed") for cell in cells if cell["rows"] == 500]
    few = [gain(cell, "to_retrained_removed") for cell in cells if cell["rows"] < 500]
    yield f"the same in all {len(cells)} comparisons"
    yield f"Log-loss differs by at most {percent(max(abs(gain(c, 'log_loss')) for c in cells))}"
    yield f"retrained model differs by at most {percent(max(map(abs, many + few)))}"
    yield f"OSR is nearer in {sum(g > 0 for g in many)} of {len(many)} comparisons"
    yield f"by at most {percent(max(many))}; with"
    yield f"mask is nearer in {sum(g < 0 for g in few)} of {len(few)}."


def _about_flaws(found: Results) -> Iterator[str]:
    def worse(flaw: str) -> list[float]:
        return [
            found["by_flaw"][name][flaw]["log_loss"][1] - compared(found, name)["mask"]["log_loss"]
            for name in SETS
        ]

    wrong = worse("wrong, of any label") + worse("wrong, of the likest label")
    yield f"With 20% wrong, log-loss on inputs of retained labels is at most {short(max(wrong))}"
    mistaken = worse("the model is wrong")
    yield f"they add {short(min(mistaken), 3)} to {short(max(mistaken), 3)} to the log-loss"
    rows = [n for name in SETS for n in found["by_flaw"][name]["the model is wrong"]["rows"]]
    assert f"the {min(rows)} to {max(rows)} rows" in FLAWS["the model is wrong"]


def _about_heat(found: Results) -> Iterator[str]:
    by_rows = found["by_calibration"]

    def change(name: str, count: str, which: int) -> float:
        before = by_rows[name]["before"]["log_loss"]
        return float(by_rows[name][count]["log_loss"][which] - before)

    gainers = ("F1", "F2", "F3")
    middle = [-change(name, "500", 1) for name in gainers]
    yield f"by {short(min(middle), 3)} to {short(max(middle), 3)} (the median"
    least = int(1000 * min(-change(name, "500", 2) for name in gainers)) / 1000
    yield f"by {short(least, 3)} or more in 95% of the draws"
    methods = [compared(found, name) for name in SETS]
    most = max(abs(each["osr"]["log_loss"] - each["mask"]["log_loss"]) for each in methods)
    yield f"between OSR and mask changes it by at most {short(most)}."
    harm = [change(name, "50", 2) for name in ("F1", "F2")]
    assert change("F3", "50", 2) < 0
    yield f"log-loss rises by {short(int(1000 * min(harm)) / 1000, 3)} or more with 1 or 2 labels"
    assert all(change(name, "200", 2) < 0 for name in gainers)
    wrong = [1 - by_rows[name]["before"]["accuracy"] for name in gainers]
    yield f"{percent(min(wrong))} to {percent(max(wrong))} of the rows here"
    yield f"it is {percent(1 - by_rows['F4']['before']['accuracy'])}, and log-loss rises"
    yield f"by {short(change('F4', '500', 1), 3)} in the median with 500 rows"
    yield f"it falls by {short(round(max(middle), 2), 2)}, with wide bands"
    yield f"With 7 of 10 removed it rises by {short(change('F4', '500', 1), 3)}."


if __name__ == "__main__":
    print("\n".join(quoted(results())))
