"""Counts and times of a server, in the format of Prometheus."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import accumulate

import numpy as np
import numpy.typing as npt
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from unlabel._typing import Float64s
from unlabel.serve.served_filter import Changes

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
MASSES = (0.0, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
PENDING = 1024  # requests whose values a histogram keeps before it counts them, all at once


class Metrics:
    """The counts and times of one server.

    Requests only add to plain numbers; the library comes in when the metrics are read.
    """

    def __init__(self) -> None:
        self._requests = _Counts(
            "unlabel_requests", "Requests by model and status.", ["model", "status"]
        )
        self._rows = _Counts("unlabel_rows", "Rows filtered.", ["model"])
        self._changed = _Counts(
            "unlabel_changed_answers",
            "Rows whose answer is not the destination of the model's.",
            ["model"],
        )
        self._not_filtered = _Counts(
            "unlabel_shadow_errors",
            "Answers in shadow mode that the filter could not have changed.",
            ["model"],
        )
        self._reloads = _Counts("unlabel_reloads", "Filters loaded again.", ["model", "result"])
        self._upstream = _Histogram(
            "unlabel_upstream_seconds", "Time that the upstream took.", SECONDS
        )
        self._filter = _Histogram(
            "unlabel_filter_seconds",
            "Time that the filter took, with decoding and encoding.",
            SECONDS,
        )
        self._masses = _Histogram(
            "unlabel_removed_mass", "The mass of removed labels in a row.", MASSES
        )
        self._in_flight = 0
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def request(self, model: str, status: int) -> None:
        """Count a request."""
        self._requests.by_labels[model, status] += 1

    def upstream(self, model: str, seconds: float) -> None:
        """Note the time that the upstream took."""
        self._upstream.observe(model, seconds)

    def filtered(self, model: str, seconds: float, changes: Changes) -> None:
        """Note the time that the filter took, and its changes."""
        self._filter.observe(model, seconds)
        self._rows.by_labels[(model,)] += changes.rows
        self._changed.by_labels[(model,)] += changes.changed
        self._masses.observe(model, changes.removed_mass)

    def not_filtered(self, model: str) -> None:
        """Count an answer in shadow mode that the filter could not have changed."""
        self._not_filtered.by_labels[(model,)] += 1

    def reload(self, model: str, *, worked: bool) -> None:
        """Count an attempt to load a filter again."""
        self._reloads.by_labels[model, "loaded" if worked else "refused"] += 1

    def text(self, in_flight: int) -> bytes:
        """Write everything as Prometheus reads it."""
        self._in_flight = in_flight
        return bytes(generate_latest(self._registry))

    def collect(self) -> Iterator[object]:
        """Yield all metrics, as the library asks for them."""
        yield GaugeMetricFamily("unlabel_requests_in_flight", "Requests now.", self._in_flight)
        counts = (self._requests, self._rows, self._changed, self._not_filtered, self._reloads)
        for each in (*counts, self._upstream, self._filter, self._masses):
            yield each.collected()


class _Counts:
    def __init__(self, name: str, help: str, labels: list[str]) -> None:
        self._described = name, help, labels
        self.by_labels: Counter[tuple[str | int, ...]] = Counter()

    def collected(self) -> CounterMetricFamily:
        name, help, labels = self._described
        family = CounterMetricFamily(name, help, labels=labels)
        for values, count in [*self.by_labels.items()]:
            family.add_metric([*map(str, values)], count)
        return family


class _Histogram:
    """A histogram by model."""

    def __init__(self, name: str, help: str, bounds: tuple[float, ...]) -> None:
        self._described = name, help
        self._bounds = bounds
        self._pending: defaultdict[str, list[float | Float64s]] = defaultdict(list)
        self._counts: dict[str, npt.NDArray[np.int64]] = {}
        self._sums: dict[str, float] = {}

    def observe(self, model: str, values: float | Float64s) -> None:
        pending = self._pending[model]
        pending.append(values)
        if len(pending) >= PENDING or (not isinstance(values, float) and len(values) >= PENDING):
            self._count(model)

    def _count(self, model: str) -> None:
        values = np.hstack(self._pending.pop(model))
        counts = np.bincount(np.searchsorted(self._bounds, values), minlength=len(self._bounds) + 1)
        self._counts[model] = self._counts.get(model, 0) + counts
        self._sums[model] = self._sums.get(model, 0.0) + float(values.sum())

    def collected(self) -> HistogramMetricFamily:
        for model in [*self._pending]:
            self._count(model)
        family = HistogramMetricFamily(*self._described, labels=["model"])
        bounds = [*map(str, self._bounds), "+Inf"]
        for model, counts in self._counts.items():
            buckets = [*zip(bounds, accumulate(counts.tolist()), strict=True)]
            family.add_metric([model], buckets, self._sums[model])
        return family
