"""Counts and times of a server, in the format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import HistogramMetricFamily

from unlabel._typing import Float64s
from unlabel.serve.served_filter import Changes

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
MASSES = np.array([0.0, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0])


class Metrics:
    """The counts and times of one server."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "unlabel_requests",
            "Requests by model and status.",
            ["model", "status"],
            registry=registry,
        )
        self._upstream = Histogram(
            "unlabel_upstream_seconds",
            "Time that the upstream took.",
            ["model"],
            registry=registry,
            buckets=SECONDS,
        )
        self._filter = Histogram(
            "unlabel_filter_seconds",
            "Time that the filter took, with decoding and encoding.",
            ["model"],
            registry=registry,
            buckets=SECONDS,
        )
        self._rows = Counter("unlabel_rows", "Rows filtered.", ["model"], registry=registry)
        self._changed = Counter(
            "unlabel_changed_answers",
            "Rows whose answer is not the destination of the model's.",
            ["model"],
            registry=registry,
        )
        self._unfiltered = Counter(
            "unlabel_shadow_errors",
            "Answers in shadow mode that the filter could not have changed.",
            ["model"],
            registry=registry,
        )
        self._reloads = Counter(
            "unlabel_reloads", "Filters loaded again.", ["model", "result"], registry=registry
        )
        self._in_flight = Gauge("unlabel_requests_in_flight", "Requests now.", registry=registry)
        self._masses = _MassHistogram()
        registry.register(self._masses)

    def request(self, model: str, status: int) -> None:
        """Count a request."""
        _labelled(self._requests, model, str(status)).inc()

    def upstream(self, model: str, seconds: float) -> None:
        """Note the time that the upstream took."""
        _labelled(self._upstream, model).observe(seconds)

    def filtered(self, model: str, seconds: float, changes: Changes) -> None:
        """Note the time that the filter took, and its changes."""
        _labelled(self._filter, model).observe(seconds)
        _labelled(self._rows, model).inc(changes.rows)
        _labelled(self._changed, model).inc(changes.changed)
        self._masses.observe(model, changes.removed_mass)

    def not_filtered(self, model: str) -> None:
        """Count an answer in shadow mode that the filter could not have changed."""
        _labelled(self._unfiltered, model).inc()

    def reload(self, model: str, *, worked: bool) -> None:
        """Count an attempt to load a filter again."""
        _labelled(self._reloads, model, "loaded" if worked else "refused").inc()

    def text(self, in_flight: int) -> bytes:
        """Write everything as Prometheus reads it."""
        self._in_flight.set(in_flight)
        return bytes(generate_latest(self._registry))


@lru_cache(maxsize=1024)  # looking up labels takes longer than counting
def _labelled(metric: Any, *labels: str) -> Any:
    return metric.labels(*labels)


class _MassHistogram:
    """A histogram of removed mass; a whole batch is counted at once."""

    def __init__(self) -> None:
        self._counts: dict[str, npt.NDArray[np.int64]] = {}
        self._sums: dict[str, float] = {}

    def observe(self, model: str, masses: Float64s) -> None:
        at = MASSES.searchsorted(masses)
        counts = np.bincount(at, minlength=len(MASSES) + 1)
        self._counts[model] = self._counts.get(model, 0) + counts
        self._sums[model] = self._sums.get(model, 0.0) + float(masses.sum())

    def collect(self) -> Iterator[HistogramMetricFamily]:
        family = HistogramMetricFamily(
            "unlabel_removed_mass", "The mass of retired labels in a row.", labels=["model"]
        )
        bounds = [*map(str, MASSES.tolist()), "+Inf"]
        for model, counts in self._counts.items():
            buckets = [*zip(bounds, accumulate(counts.tolist()), strict=True)]
            family.add_metric([model], buckets, self._sums[model])
        yield family
