"""Reads the tables that the command writes."""

import csv


def section_of(text, title):
    """Return the Markdown of a section."""
    return text.split(f"\n## {title}\n")[1].split("\n## ")[0]


def rows_of(text, title):
    """Return the rows of a section's first table by metric and method."""
    found, metric = {}, ""
    for line in section_of(text, title).splitlines():
        if line.startswith("| ") and not line.startswith("| | |"):
            name, method, *cells = (part.strip() for part in line.strip("|").split("|"))
            metric = name or metric
            found[metric, method] = cells
    return found


def values_of(out):
    """Return the lines of the CSV file by method, component, metric and forget set."""
    lines = csv.DictReader((out / "tables.csv").read_text(encoding="utf-8").splitlines())
    return {
        tuple(map(line.get, ("method", "component", "metric", "forget"))): line for line in lines
    }
