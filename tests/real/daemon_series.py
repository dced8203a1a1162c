"""What a test sees of the daemon: its series, by name and labels."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client.parser import text_string_to_metric_families

from lab import Lab
from lab.check import compare
from lab.product.offsetwatch import Product
from lab.waiting import NotYet, until

WAIT_S_MAX = 150.0
MIRRORED = [("orders", 0), ("orders", 1), ("orders", 2), ("payments", 0), ("payments", 1)]


def samples(product: Product, name: str, **labels: str) -> dict[tuple[tuple[str, str], ...], float]:
    """Samples of one metric (without the prefix) that carry these labels."""
    return scraped(product.metrics(), name, **labels)


def scraped(text: str, name: str, **labels: str) -> dict[tuple[tuple[str, str], ...], float]:
    """The same, of one scrape: what must be seen together is looked at together."""
    expected = f"offsetwatch_{name}"
    return {
        tuple(sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == expected and labels.items() <= sample.labels.items()
    }


def total(product: Product, name: str, **labels: str) -> float | None:
    """Their sum; None if there is no such series."""
    result = samples(product, name, **labels)
    return sum(result.values()) if result else None


def eventually(
    product: Product, what: str, holds: Callable[[], object], *, timeout_s: float = WAIT_S_MAX
) -> None:
    """Wait until `holds()` is true; say what it was last."""

    def probe() -> None:
        observed = holds()
        if not observed:
            raise NotYet(str(observed))

    until(what, probe, timeout_s=timeout_s, evidence=product.evidence)


def becomes(product: Product, expected: float | None, name: str, **labels: str) -> None:
    """Wait until the sum of these samples is `expected`; None waits until they are gone."""

    def probe() -> None:
        observed = total(product, name, **labels)
        if observed != expected:
            raise NotYet(f"{name}{labels} is {observed}")

    until(f"{name}{labels} = {expected}", probe, timeout_s=WAIT_S_MAX, evidence=product.evidence)


def await_replicated(lab: Lab, product: Product, *, sink_lag_max: int = 0) -> None:
    """Everything produced so far is replicated, committed, and known to the daemon.

    A lag of 0 alone says nothing: it may be from before the last record was produced. What follows
    a sink's last record in a topic that is written in transactions is a marker, which no sink
    commits: there a sink at rest may lag by one.
    """
    ends = compare.log_ends(lab, "west", MIRRORED)
    for topic in sorted({topic for topic, _ in MIRRORED}):
        mirrored = {"connector": "mm2-source", "topic": topic}
        produced = sum(end for (name, _), end in ends.items() if name == topic)
        becomes(product, produced, "mm2_source_log_end_offset", **mirrored)
        becomes(product, 0, "mm2_replication_lag_records", **mirrored)
    eventually(
        product,
        f"a sink lag of at most {sink_lag_max}",
        lambda: (lag := total(product, "sink_lag_records")) is not None and lag <= sink_lag_max,
    )
