"""docs/kubernetes.md: what it shows is taken by the chart or by the product, and what it names is
there.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from lab.kubernetes import chart
from offsetwatch.config import parse
from tests.chart.reading import LEAST, of_kind, with_values
from tools.chart.__main__ import ROOT
from tools.chart.values import values

PAGE = (ROOT / "docs" / "kubernetes.md").read_text()
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
VALUES = [text for text in EXAMPLES if "state_dir:" not in text]


def paths() -> set[str]:
    """Every value, and every section of values."""

    def of(tree):
        return {item for value in tree for item in (value.path, *of(value.within))}

    return of(values((chart.CHART / "values.yaml").read_text()))


@pytest.mark.parametrize("text", VALUES, ids=lambda text: text.split(":")[0])
def test_values_that_are_shown_are_taken(text: str, tmp_path: Path):
    assert of_kind(with_values(yaml.safe_load(text), tmp_path), "Deployment")


def test_the_configuration_that_is_shown_is_taken_and_is_what_the_chart_would_say(tmp_path: Path):
    (text,) = set(EXAMPLES) - set(VALUES)
    output = yaml.safe_load(text)
    parse(output, {}, folder=tmp_path)
    (secret,) = of_kind(with_values({}, tmp_path), "Secret")
    built = yaml.safe_load(secret["stringData"]["config.yaml"])
    for name in built.keys() - LEAST["config"].keys():
        assert output[name] == built[name]


def test_every_value_that_is_named_is_one():
    known = paths()
    tops = {path.partition(".")[0] for path in known}
    named = re.findall(r"`([a-z]\w*(?:\.\w+)+)(?:: [^`]*)?`", PAGE)
    own = [name for name in named if name.partition(".")[0] in tops - {"config"}]
    assert own
    # history.path is the configuration's.
    assert set(own) - known - {"history.path"} == set()


@pytest.mark.parametrize("part", ["discovery", "offsets", "secrets"])
def test_the_table_of_roles_is_what_the_chart_makes(part: str, tmp_path: Path):
    strimzi = {"enabled": True, "offsets": {"enabled": True}, "secretNames": ["a"]}
    result = of_kind(with_values({"strimzi": strimzi}, tmp_path), "Role")
    (role,) = [entry for entry in result if entry["metadata"]["name"] == f"offsetwatch-{part}"]
    (row,) = re.findall(rf"^\| `offsetwatch-{part}` \|[^|]*\| (.*) \|$", PAGE, re.MULTILINE)
    verbs = {verb for rule in role["rules"] for verb in rule["verbs"]}
    names = set(re.findall(r"\b(get|list|watch|create|update|patch|delete)\b", row))
    assert verbs == names
