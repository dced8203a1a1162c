"""Checks between the settings of `remedy:`, on the raw document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from offsetwatch.config.raw_document import as_mapping, check_cluster_name, iterate_mappings
from offsetwatch.config.schema.remediation import (
    BlastRadiusConfig,
    KafkaJournal,
    QuarantineConfig,
    SkipBudgetsConfig,
)
from offsetwatch.config.schema.types import is_match_all
from offsetwatch.config.sink_classes import is_unsafe_sink

_DEFAULT_BUDGETS = SkipBudgetsConfig().model_dump()
_DEFAULT_BLAST = BlastRadiusConfig().model_dump()
_DEFAULT_QUARANTINE_TOPIC = QuarantineConfig.model_fields["topic"].default
_DEFAULT_JOURNAL_TOPIC, _DEFAULT_REPLICAS, _DEFAULT_IN_SYNC = (
    KafkaJournal.model_fields[name].default
    for name in ("topic", "replication_factor", "min_insync_replicas")
)
_BUDGET_ORDER = (
    ("connector_hour", "connector_day"),
    ("connector_day", "connector_week"),
    ("fleet_hour", "fleet_day"),
    ("connector_hour", "fleet_hour"),
    ("connector_day", "fleet_day"),
)


def check_remedy(document: dict[Any, Any]) -> Iterator[str]:
    """Yield every contradiction, each with its path."""
    remedy = as_mapping(document.get("remedy"))
    connects = iterate_mappings(document.get("connect"), "connect")
    names = [entry["name"] for _, entry in connects if isinstance(entry.get("name"), str)]
    for path, rule in iterate_mappings(remedy.get("auto"), "remedy.auto"):
        yield from check_cluster_name(
            rule.get("connect"), names, f"{path}.connect", under="connect"
        )
        yield from _check_selectors(path, rule)
    quarantine = as_mapping(remedy.get("quarantine"))
    kafkas = [str(name) for name in as_mapping(document.get("kafka"))]
    yield from check_cluster_name(quarantine.get("kafka"), kafkas, "remedy.quarantine.kafka")
    journal = as_mapping(remedy.get("journal"))
    yield from check_cluster_name(journal.get("kafka"), kafkas, "remedy.journal.kafka")
    yield from _check_journal(journal, quarantine)
    yield from _check_safe_sinks(remedy)
    yield from _check_budgets(as_mapping(remedy.get("budgets")))
    blast = as_mapping(remedy.get("blast"))
    per_connect, total = (
        blast.get(name, _DEFAULT_BLAST[name]) for name in ("per_connect", "total")
    )
    if _is_number(per_connect) and _is_number(total) and per_connect > total:
        yield "remedy.blast: per_connect is more than total"
    maintenance = as_mapping(remedy.get("maintenance"))
    for kind in ("deny", "only_in"):
        for path, window in iterate_mappings(maintenance.get(kind), f"remedy.maintenance.{kind}"):
            if "start" in window and window.get("start") == window.get("end"):
                yield f"{path}: start and end are the same"


def _check_selectors(path: str, rule: dict[Any, Any]) -> Iterator[str]:
    selectors = rule.get("connectors")
    if rule.get("i_understand") is True or not isinstance(selectors, list):
        return
    for number, selector in enumerate(selectors):
        if isinstance(selector, str) and selector and is_match_all(selector):
            yield (
                f"{path}.connectors[{number}]: means every connector of the cluster; if that is "
                "meant, set i_understand: true"
            )


def _check_journal(journal: dict[Any, Any], quarantine: dict[Any, Any]) -> Iterator[str]:
    """Yield mistakes in the settings that replicas share."""
    if not journal:
        return
    if quarantine.get("kafka") is None:
        yield (
            "remedy.quarantine.kafka: with remedy.journal, name the cluster of a topic: of copies "
            "in files under state_dir another replica has none"
        )
    elif (quarantine.get("kafka"), quarantine.get("topic", _DEFAULT_QUARANTINE_TOPIC)) == (
        journal.get("kafka"),
        journal.get("topic", _DEFAULT_JOURNAL_TOPIC),
    ):
        yield "remedy.journal.topic: the quarantine's is another one"
    replicas = journal.get("replication_factor", _DEFAULT_REPLICAS)
    in_sync = journal.get("min_insync_replicas", _DEFAULT_IN_SYNC)
    if _is_number(replicas) and _is_number(in_sync) and in_sync > replicas:
        yield "remedy.journal: min_insync_replicas is more than replication_factor"


def _check_safe_sinks(remedy: dict[Any, Any]) -> Iterator[str]:
    safe = remedy.get("skip_safe_sinks")
    for number, name in enumerate(safe if isinstance(safe, list) else ()):
        if isinstance(name, str) and is_unsafe_sink(name):
            yield (
                f"remedy.skip_safe_sinks[{number}]: known to keep its position elsewhere, or to "
                "commit before it has written"
            )


def _check_budgets(budgets: dict[Any, Any]) -> Iterator[str]:
    """Yield limits that can never be reached.

    A lower limit holds for a longer period, or for all connectors.
    """
    for shorter, longer in _BUDGET_ORDER:
        less = budgets.get(shorter, _DEFAULT_BUDGETS[shorter])
        more = budgets.get(longer, _DEFAULT_BUDGETS[longer])
        if _is_number(less) and _is_number(more) and less > more:
            yield f"remedy.budgets: {shorter} is more than {longer}"


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
