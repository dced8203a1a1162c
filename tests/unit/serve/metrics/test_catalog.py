import re

import pytest

from offsetwatch.serve.metrics.catalog import CATALOG, describe_metrics
from offsetwatch.serve.metrics.families import collect_families
from tests.unit.serve.worlds import BUILD, RELOADED, full

BY_NAME = {spec.name: spec for spec in CATALOG}


def test_every_name_appears_once():
    assert len(BY_NAME) == len(CATALOG)


@pytest.mark.parametrize("spec", CATALOG, ids=lambda spec: spec.name)
def test_a_row_keeps_the_conventions_of_prometheus(spec):
    assert re.fullmatch(r"offsetwatch_[a-z][a-z0-9_]*[a-z0-9]", spec.name)
    assert spec.name.endswith("_total") == (spec.kind == "counter")
    assert len(set(spec.labels)) == len(spec.labels)
    assert not {"cluster", "type", "job", "instance", "le", "quantile"} & set(spec.labels)
    assert all(re.fullmatch(r"[a-z][a-z_]*", label) for label in spec.labels)
    assert spec.help.endswith(".")
    assert "  " not in spec.help
    assert "\n" not in spec.help


def test_every_row_of_the_catalogue_is_filled_and_nothing_else_is():
    filled = {
        family.spec.name for family in collect_families(full(), BUILD, RELOADED) if family.labels
    }
    assert filled == set(BY_NAME)


def test_a_family_has_as_many_values_per_row_as_its_spec_has_labels():
    for family in collect_families(full(), BUILD, RELOADED):
        assert {len(labels) for labels, _ in family.rows()} == {len(family.spec.labels)}


def test_the_printed_catalogue_says_what_the_catalogue_says():
    rows = {row.name: row for row in describe_metrics()}
    assert len(rows) == len(CATALOG)
    assert rows["offsetwatch_mm2_replicated_offset"].labels == (
        "connect_cluster",
        "connector",
        "source",
        "target",
        "topic",
        "partition",
    )
    for spec in CATALOG:
        assert rows[spec.name] == (spec.name, spec.kind, spec.labels, spec.help)
