"""The metrics as prometheus-client takes them, for `/metrics` of a server and for registries of programs' own."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import accumulate
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

import fairlane
from fairlane.app import Fairlane
from fairlane.clock import SystemClock
from fairlane.domain.checks import whole
from fairlane.flow import Flow
from fairlane.metrics import FRESH_S, METRICS, MOST_TENANTS, Distribution, Metric, Sample, facts_of, samples

OPENMETRICS: Final = "application/openmetrics-text"


class StoreMetrics(Collector):
    """What a store tells about its jobs, looked up at most once in five seconds; any thread may ask.

    Example:
        >>> from prometheus_client import CollectorRegistry, generate_latest
        >>> with fairlane.Fairlane("sqlite://") as app:
        ...     registry = CollectorRegistry()
        ...     registry.register(StoreMetrics(app))
        ...     b"fairlane_express_capacity 20.0" in generate_latest(registry)
        True

    Args:
        app: Whose store it is.
        tenants: How many tenants are told apart, those with most live jobs, 0 to 1,000; 0: none is named.

    Raises:
        InvalidValue: ``tenants`` is out of range.
    """

    def __init__(self, app: Fairlane, *, tenants: int = 0) -> None:
        self._app = app
        self._tenants = whole("tenants", tenants, most=MOST_TENANTS)
        self._clock = SystemClock()
        self._lock = threading.Lock()
        self._flow = Flow()
        self._samples: list[Sample] = []
        self._read_at: float | None = None

    def samples(self) -> list[Sample]:
        """Return its figures, as of at most five seconds ago.

        Raises:
            StoreError: The store could not be read.
        """
        with self._lock:
            now = self._clock.monotonic()
            if self._read_at is None or now - self._read_at >= FRESH_S:
                facts = self._app.owner.read(partial(facts_of, after=self._flow.after))
                self._samples = samples(facts, tenants=self._tenants) + self._flow.take(facts)
                self._samples.append(
                    ("fairlane_build_info", (fairlane.__version__, self._app.url.partition(":")[0]), 1)
                )
                self._read_at = now
            return self._samples

    def look_anew(self) -> None:
        """Read the store at the next call, however recent the figures are."""
        with self._lock:
            self._read_at = None

    def collect(self) -> Iterator[Family]:
        """Give its metrics."""
        return families(self.samples())

    def describe(self) -> Iterable[Family]:
        """Give no metric, so that being registered reads nothing."""
        return ()


class Told(Collector):
    """Samples that are there."""

    def __init__(self, told: Iterable[Sample]) -> None:
        self._told = told

    def collect(self) -> Iterator[Family]:
        """Give their metrics."""
        return families(self._told)


def families(told: Iterable[Sample]) -> Iterator[Family]:
    """Give the metrics of samples, each once, in the order of :data:`~fairlane.metrics.METRICS`."""
    by_name: dict[str, list[Sample]] = {}
    for sample in told:
        by_name.setdefault(sample[0], []).append(sample)
    return (_family(metric, by_name[metric.name]) for metric in METRICS if metric.name in by_name)


def _family(metric: Metric, told: Iterable[Sample]) -> Family:
    if metric.type == "histogram":
        histogram = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        for _, labels, value in told:
            assert isinstance(value, Distribution)
            bounds = [*map(str, value.bounds), "+Inf"]
            histogram.add_metric(labels, list(zip(bounds, accumulate(value.counts), strict=True)), value.total)
        return histogram
    kind = GaugeMetricFamily if metric.type == "gauge" else CounterMetricFamily
    family = kind(metric.name, metric.help, labels=metric.labels)
    for _, labels, value in told:
        assert not isinstance(value, Distribution)
        family.add_metric(labels, value)
    return family


def written(told: Iterable[Sample], accept: str = "") -> tuple[bytes, str]:
    """Return samples as text, and its media type: OpenMetrics for who asks for it, else Prometheus' own.

    Args:
        told: What is told.
        accept: The request's ``Accept`` header. Only whether it names OpenMetrics goes on to prometheus-client, which
            fails on versions that it cannot read.
    """
    encoder, media_type = choose_encoder(f"{OPENMETRICS}; version=1.0.0" if OPENMETRICS in accept else "")
    return encoder(Told(told)), media_type
