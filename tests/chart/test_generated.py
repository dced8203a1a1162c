"""What of the chart is made from elsewhere is what it is made from."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pytest
import yaml

import offsetwatch
from lab.kubernetes import chart
from lab.kubernetes.chart import CHART
from tools.chart.__main__ import ROOT, main
from tools.chart.readme import render
from tools.chart.values import leaves, values

TREE = values((CHART / "values.yaml").read_text())


def test_the_committed_files_are_what_they_are_made_from():
    assert main(["--check"]) == 0, "run: python -m tools.chart"


def test_a_file_that_is_out_of_date_is_noticed_and_put_right(tmp_path: Path, capsys):
    for name in ("alerts", "helm"):
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True)
    schema = tmp_path / "helm" / "offsetwatch" / "values.schema.json"
    schema.write_text("{}\n")
    assert main(["--check"], tmp_path) == 1
    assert schema.read_text() == "{}\n"
    assert "values.schema.json: out of date" in capsys.readouterr().out
    assert main([], tmp_path) == 0
    assert main(["--check"], tmp_path) == 0


def test_a_chart_that_is_handed_on_holds_every_rule_file_and_every_board_and_no_more(
    tmp_path: Path,
):
    with tarfile.open(chart.package(tmp_path)) as packed:
        held = {
            name.removeprefix(f"{CHART.name}/files/"): packed.extractfile(name).read()
            for name in packed.getnames()
            if "/files/" in name
        }
    expected = [*(ROOT / "alerts").rglob("*.rules.yaml"), *(ROOT / "dashboards").glob("*.json")]
    assert expected
    assert held == {str(path.relative_to(ROOT)): path.read_bytes() for path in expected}


def test_the_chart_has_the_version_of_the_product():
    answer = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert answer["version"] == answer["appVersion"] == offsetwatch.__version__
    assert answer["name"] == CHART.name


def test_what_is_handed_on_as_one_file_installs_the_same(tmp_path: Path):
    values = CHART / "ci" / "monitoring-values.yaml"
    packed = chart.package(tmp_path)
    assert chart.render(values, path=packed) == chart.render(values)
    assert not chart.render(values).failed


def test_every_value_is_reported():
    assert [value.path for value in leaves(TREE) if not value.said] == []


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("# -- Is told\na: 1\n", "Is told"),
        ("# -- Is told\n# at length\na: 1\n", "Is told at length"),
        ("# of all that follows\n# -- Is told\na: 1\n", "Is told"),
        ("# of something else\na: 1\n", ""),
        ("# -- Of the one before\nb: 1\na: 1\n", ""),
    ],
)
def test_what_is_said_of_a_value_stands_just_above_it(text: str, answer: str):
    assert next(value.said for value in values(text) if value.path == "a") == answer


def test_a_readme_without_a_place_for_the_table_is_refused():
    with pytest.raises(ValueError, match="markers"):
        render("# offsetwatch\n", TREE)
