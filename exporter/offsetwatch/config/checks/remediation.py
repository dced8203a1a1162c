"""What one part of `remedy:` cannot know of another. Called by checks.py, on the raw document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from offsetwatch.config.raw_document import known, mapping, mappings
from offsetwatch.config.schema.remediation import Blast, Budgets, KafkaJournal, Quarantine
from offsetwatch.config.schema.types import selects_all
from offsetwatch.config.sink_classes import unsafe

_DEFAULT_BUDGETS = Budgets().model_dump()
_DEFAULT_BLAST = Blast().model_dump()
_QUARANTINE = Quarantine.model_fields["topic"].default
_JOURNAL, _REPLICAS, _IN_SYNC = (
    KafkaJournal.model_fields[name].default
    for name in ("topic", "replication_factor", "min_insync_replicas")
)
_LONGER = (
    ("connector_hour", "connector_day"),
    ("connector_day", "connector_week"),
    ("fleet_hour", "fleet_day"),
    ("connector_hour", "fleet_hour"),
    ("connector_day", "fleet_day"),
)


def remedy_checks(document: dict[Any, Any]) -> Iterator[str]:
    """Every contradiction, each with its path."""
    remedy = mapping(document.get("remedy"))
    connects = mappings(document.get("connect"), "connect")
    names = [at["name"] for _, at in connects if isinstance(at.get("name"), str)]
    for path, rule in mappings(remedy.get("auto"), "remedy.auto"):
        yield from known(rule.get("connect"), names, f"{path}.connect", under="connect")
        yield from _broad(path, rule)
    quarantine = mapping(remedy.get("quarantine"))
    kafkas = [str(name) for name in mapping(document.get("kafka"))]
    yield from known(quarantine.get("kafka"), kafkas, "remedy.quarantine.kafka")
    journal = mapping(remedy.get("journal"))
    yield from known(journal.get("kafka"), kafkas, "remedy.journal.kafka")
    yield from _journal(journal, quarantine)
    yield from _sinks(remedy)
    yield from _budgets(mapping(remedy.get("budgets")))
    blast = mapping(remedy.get("blast"))
    per_connect, total = (
        blast.get(name, _DEFAULT_BLAST[name]) for name in ("per_connect", "total")
    )
    if _number(per_connect) and _number(total) and per_connect > total:
        yield "remedy.blast: per_connect is more than total"
    maintenance = mapping(remedy.get("maintenance"))
    for kind in ("deny", "only_in"):
        for path, window in mappings(maintenance.get(kind), f"remedy.maintenance.{kind}"):
            if "start" in window and window.get("start") == window.get("end"):
                yield f"{path}: start and end are the same"


def _broad(path: str, rule: dict[Any, Any]) -> Iterator[str]:
    selectors = rule.get("connectors")
    if rule.get("i_understand") is True or not isinstance(selectors, list):
        return
    for number, selector in enumerate(selectors):
        if isinstance(selector, str) and selector and selects_all(selector):
            yield (
                f"{path}.connectors[{number}]: means every connector of the cluster; if that is "
                "meant, set i_understand: true"
            )


def _journal(journal: dict[Any, Any], quarantine: dict[Any, Any]) -> Iterator[str]:
    """What replicas must share."""
    if not journal:
        return
    if quarantine.get("kafka") is None:
        yield (
            "remedy.quarantine.kafka: with remedy.journal, name the cluster of a topic: of copies "
            "in files under state_dir another replica has none"
        )
    elif (quarantine.get("kafka"), quarantine.get("topic", _QUARANTINE)) == (
        journal.get("kafka"),
        journal.get("topic", _JOURNAL),
    ):
        yield "remedy.journal.topic: the quarantine's is another one"
    replicas = journal.get("replication_factor", _REPLICAS)
    in_sync = journal.get("min_insync_replicas", _IN_SYNC)
    if _number(replicas) and _number(in_sync) and in_sync > replicas:
        yield "remedy.journal: min_insync_replicas is more than replication_factor"


def _sinks(remedy: dict[Any, Any]) -> Iterator[str]:
    safe = remedy.get("skip_safe_sinks")
    for number, name in enumerate(safe if isinstance(safe, list) else ()):
        if isinstance(name, str) and unsafe(name):
            yield (
                f"remedy.skip_safe_sinks[{number}]: known to keep its position elsewhere, or to "
                "commit before it has written"
            )


def _budgets(budgets: dict[Any, Any]) -> Iterator[str]:
    """A bound that a narrower one never lets anybody reach was meant to be another."""
    for shorter, longer in _LONGER:
        less = budgets.get(shorter, _DEFAULT_BUDGETS[shorter])
        more = budgets.get(longer, _DEFAULT_BUDGETS[longer])
        if _number(less) and _number(more) and less > more:
            yield f"remedy.budgets: {shorter} is more than {longer}"


def _number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
