"""PromQL over the metric catalogue: a board cannot name what is not exported.

Where several replicas of the exporter say the same, queries merge them. Where nothing is known
there is no answer: a 0 would be a claim. For the same reason there is no sum of which a part is not
known, where that part can be seen to be missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from offsetwatch.serve.metrics import catalog as m
from offsetwatch.serve.metrics import mirror_families as mm2
from offsetwatch.serve.metrics.metric import CONNECTOR, MetricSpec

DIRECTION: Final = ("source", "target")
MIRROR: Final = (*CONNECTOR, *DIRECTION)
TOPIC: Final = (*MIRROR, "topic")

_INSTANCE: Final = "instance"  # put there by the scrape: every series has it
_PLAIN: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Choice:
    """A variable on top of a board: the values that a label has in a metric that is always there.

    many    all of them unless some are chosen; otherwise one
    """

    label: str
    title: str
    of: MetricSpec
    many: bool = True


@dataclass(frozen=True, slots=True)
class Scope:
    """What a board looks at: what is chosen on top of it, in this order."""

    choices: tuple[Choice, ...]

    def of(self, spec: MetricSpec, **matchers: str) -> str:
        """Series of a metric, as far as the variables choose them."""
        return f"{spec.name}{{{', '.join(self._chosen(spec, self.choices, matchers))}}}"

    def alerts(self, severity: str) -> str:
        """Alerts of one severity that fire for what is chosen, or for what has no such label."""
        labels = ("severity", "alertstate", *(choice.label for choice in self.choices))
        alerts = MetricSpec("ALERTS", "gauge", "", labels, frozenset(labels))
        return self.of(alerts, severity=severity, alertstate="firing")

    def scraped(self, name: str) -> str:
        """A series that every scrape has, and no row of the catalogue."""
        return self.of(MetricSpec(name=name, kind="gauge", help="", labels=()))

    def rate(self, spec: MetricSpec, *by: str) -> str:
        """How often a second."""
        return total(f"rate({self.of(spec)}[$__rate_interval])", *by)

    def increase(self, spec: MetricSpec, *by: str, **matchers: str) -> str:
        """How often within an interval. Many counters begin with the first one counted, which
        increase() does not see: a series that is new counts from 0, if its exporter is not.
        """
        series, before = self.of(spec, **matchers), "offset $__rate_interval"
        begun = f"{series} unless {series} {before}"
        known = f"{begun} and on (job, instance) {self.of(m.BUILD_INFO)} {before}"
        return total(f"{known} or increase({series}[$__rate_interval])", *by)

    def age(self, spec: MetricSpec, *by: str, **matchers: str) -> str:
        """Seconds since the newest of these moments."""
        return f"time() - {greatest(self.of(spec, **matchers), *by)}"

    def values(self) -> Iterator[tuple[Choice, str]]:
        """Each variable and the query that fills it, chained on those before it."""
        for number, choice in enumerate(self.choices):
            chosen = self._chosen(choice.of, self.choices[:number], {})
            yield choice, f"label_values({choice.of.name}{{{', '.join(chosen)}}}, {choice.label})"

    def _chosen(
        self, spec: MetricSpec, choices: tuple[Choice, ...], matchers: dict[str, str]
    ) -> list[str]:
        # One value is matched as it is: in a regular expression a dot of a name would match more.
        # A series without an optional label is of everything that may be chosen.
        return [
            'job=~"$job"',
            *(
                _matcher(choice, optional=choice.label in spec.optional)
                for choice in choices
                if choice.label in (*spec.labels, _INSTANCE)
            ),
            *(
                f'{label}{"=" if _PLAIN.fullmatch(value) else "=~"}"{value}"'
                for label, value in matchers.items()
            ),
        ]


def _matcher(choice: Choice, *, optional: bool) -> str:
    if optional:
        return f'{choice.label}=~"${choice.label}|"'
    return f'{choice.label}{"=~" if choice.many else "="}"${choice.label}"'


CLUSTER: Final = Choice("connect_cluster", "Connect cluster", m.CONNECTOR_INFO)


def merged(expr: str) -> str:
    """Replicas that say the same, once."""
    return f"max without (instance, pod) ({expr})"


def total(expr: str, *by: str) -> str:
    """The sum, by these labels."""
    return f"sum by ({', '.join(by)}) ({merged(expr)})" if by else f"sum({merged(expr)})"


def greatest(expr: str, *by: str) -> str:
    """The greatest, by these labels."""
    return f"max by ({', '.join(by)}) ({expr})" if by else f"max({expr})"


def least(expr: str, *by: str) -> str:
    """The least, by these labels."""
    return f"min by ({', '.join(by)}) ({expr})" if by else f"min({expr})"


def zeros(expr: str) -> str:
    """How many of these 0-or-1 series are 0; nothing, not 0, if there are no series."""
    return f"sum(1 - min without (instance, pod) ({expr}))"


def above(expr: str, bound: float = 0) -> str:
    """How many of these series are above a bound; nothing, not 0, if there are no series."""
    return f"sum({merged(expr)} > bool {bound})"


def found(scope: Scope, **matchers: str) -> str:
    """How many findings there are. There is no series of what is not found: so it is 0 where
    connectors are judged, and not known where nobody judges.
    """
    judged = f"0 * count({scope.of(m.PROGRESS)})"
    return f"{total(scope.of(m.FINDINGS, **matchers))} or {judged}"


def lag_by_topic(scope: Scope) -> str:
    """Records to replicate, of topics of which every partition's lag is known."""
    lag = scope.of(mm2.LAG)
    partitions = f"{scope.of(mm2.LOG_END)} or {scope.of(mm2.REPLICATED)}"
    unknown = greatest(f"({merged(partitions)} unless {merged(lag)})", *TOPIC)
    whole = f"({total(lag, *TOPIC)} unless {unknown})"
    return f"({whole} or {greatest(scope.of(mm2.TOPIC_LAG), *TOPIC)})"


def topics_unknown(scope: Scope) -> str:
    """Topics that are replicated, and whose lag is not known. Every topic with a position has this
    counter, however its lag is exported.
    """
    return f"({scope.rate(mm2.RECREATIONS, *TOPIC)} unless {lag_by_topic(scope)})"


def lag_by_flow(scope: Scope) -> str:
    """Records to replicate, of flows of which every topic's lag is known."""
    lag, unknown = lag_by_topic(scope), greatest(topics_unknown(scope), *MIRROR)
    return f"sum by ({', '.join(MIRROR)}) ({lag}) unless {unknown}"


def lag_in_all(scope: Scope) -> str:
    """Records to replicate, if every topic's lag is known."""
    return f"sum({lag_by_topic(scope)}) unless max({topics_unknown(scope)})"


def oldest(scope: Scope, *by: str) -> str:
    """Age of the oldest record that is known to wait for replication."""
    return greatest(f"({scope.of(mm2.LAG_SECONDS)} or {scope.of(mm2.TOPIC_LAG_SECONDS)})", *by)
