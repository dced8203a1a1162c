"""Alerts, boards, monitors, the network and names: what single values make of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from lab.kubernetes import chart
from lab.kubernetes.api_server import Json
from tests.chart.reading import LEAST, containers, of_kind, one, with_values
from tools.chart.__main__ import ROOT

SHARED = {"accessModes": ["ReadWriteMany"]}


# --- alerts --------------------------------------------------------------------------------------


def rules_of(values: Json, path: Path, **others: Json) -> dict[str, Json]:
    inputs = {"prometheusRule": {"enabled": True, **values}, **others}
    return {
        rule.get("alert", rule.get("record")): rule
        for document in of_kind(with_values(inputs, path), "PrometheusRule")
        for group in document["spec"]["groups"]
        for rule in group["rules"]
    }


def test_the_alerts_are_those_of_the_files(tmp_path: Path):
    result = rules_of({}, tmp_path)
    files = (ROOT / "alerts").glob("*.rules.yaml")
    expected = {
        rule.get("alert", rule.get("record")): rule
        for file in files
        for group in yaml.safe_load(file.read_text())["groups"]
        for rule in group["rules"]
    }
    assert result == expected


def test_a_threshold_is_another_one_and_all_others_are_as_they_were(tmp_path: Path):
    before, after = (
        rules_of({}, tmp_path),
        rules_of({"thresholds": {"sink_lag_records": 5}}, tmp_path),
    )
    name = "offsetwatch:sink_lag_records:threshold"
    assert after.pop(name)["expr"] == "vector(5)"
    assert before.pop(name)["expr"] != "vector(5)"
    assert before == after


def test_an_alert_has_the_labels_and_the_runbook_that_were_requested(tmp_path: Path):
    inputs = {"additionalRuleLabels": {"team": "a"}, "runbookUrlPrefix": "https://books.example/"}
    for name, rule in rules_of(inputs, tmp_path).items():
        if "alert" in rule:
            assert rule["labels"]["team"] == "a"
            assert rule["labels"]["severity"] in {"info", "warning", "critical"}
            url = rule["annotations"]["runbook_url"]
            assert url == f"https://books.example/runbooks/{name}.md"


@pytest.mark.parametrize("published", ["https://books.example/r", "https://books.example/r/"])
def test_an_alert_leads_to_the_runbooks_that_the_daemon_names(tmp_path: Path, published: str):
    reports = {"config": {"notify": {"runbooks_url": published}}}
    for name, rule in rules_of({}, tmp_path, **reports).items():
        if "alert" in rule:
            assert rule["annotations"]["runbook_url"] == f"https://books.example/r/{name}.md"


def test_a_board_is_the_file_itself(tmp_path: Path):
    result = of_kind(with_values({"dashboards": {"enabled": True}}, tmp_path), "ConfigMap")
    boards = {path.name: path.read_text() for path in (ROOT / "dashboards").glob("*.json")}
    assert boards
    for document in result:
        ((name, text),) = document["data"].items()
        assert text.strip() == boards.pop(name.removeprefix("offsetwatch-")).strip()
        assert document["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert boards == {}


def test_a_board_links_to_the_runbooks_that_the_daemon_names(tmp_path: Path):
    values = {
        "dashboards": {"enabled": True},
        "config": {"notify": {"runbooks_url": "https://books.example/r"}},
    }
    maps = of_kind(with_values(values, tmp_path), "ConfigMap")
    (fleet,) = (item["data"] for item in maps if "offsetwatch-fleet.json" in item["data"])
    assert "https://books.example/r/ConnectorOrTaskFailed.md" in fleet["offsetwatch-fleet.json"]
    assert "docs.example.com" not in fleet["offsetwatch-fleet.json"]


@pytest.mark.parametrize("kind", ["ServiceMonitor", "PodMonitor"])
def test_a_scraped_job_has_the_name_that_the_alerts_search_for(kind: str, tmp_path: Path):
    key = kind[0].lower() + kind[1:]
    result = one(with_values({key: {"enabled": True}, "nameOverride": "lags"}, tmp_path), kind)
    (endpoint,) = result["spec"].get("endpoints", result["spec"].get("podMetricsEndpoints"))
    assert endpoint["relabelings"][0] == {
        "action": "replace",
        "targetLabel": "job",
        "replacement": "offsetwatch",
    }


# --- the network ---------------------------------------------------------------------------------


def test_nothing_comes_in_but_what_scrapes_and_who_was_named_for_control(tmp_path: Path):
    result = one(with_values({"networkPolicy": {"enabled": True}}, tmp_path), "NetworkPolicy")
    assert result["spec"]["policyTypes"] == ["Ingress"]
    assert result["spec"]["ingress"] == [{"ports": [{"port": 9640, "protocol": "TCP"}]}]


def test_the_control_port_is_open_to_named_peers_alone(
    tmp_path: Path,
):
    peers = [{"namespaceSelector": {"matchLabels": {"team": "streaming"}}}]
    control = {"web_config_file": "web-control.yaml"}
    for named, ports in ((peers, [9640, 9641]), ([], [9640])):
        values = {
            "config": {"control": control},
            "control": {"enabled": True},
            "networkPolicy": {"enabled": True, "ingress": {"controlFrom": named}},
        }
        rules = one(with_values(values, tmp_path), "NetworkPolicy")["spec"]["ingress"]
        assert [port["port"] for rule in rules for port in rule["ports"]] == ports
        assert [rule["from"] for rule in rules[1:]] == ([named] if named else [])


@pytest.mark.parametrize("enabled", [True, False])
def test_the_api_server_is_reached_only_where_strimzi_is_queried_about(
    enabled: bool, tmp_path: Path
):
    values = {
        "networkPolicy": {"enabled": True, "egress": {"enabled": True, "ports": [9092]}},
        "strimzi": {"enabled": enabled},
    }
    result = one(with_values(values, tmp_path), "NetworkPolicy")
    ports = [port["port"] for rule in result["spec"]["egress"] for port in rule["ports"]]
    assert ports == [53, 53, 9092, *([443, 6443] if enabled else [])]


# --- names ---------------------------------------------------------------------------------------


def test_names_are_short_enough_for_all_that_is_put_behind_them(tmp_path: Path):
    values = {
        "fullnameOverride": "a" * 63,
        "history": {"mode": "cronjob", "persistence": SHARED},
        "dashboards": {"enabled": True},
    }
    for document in with_values(values, tmp_path):
        limit = 52 if document["kind"] == "CronJob" else 63
        assert len(document["metadata"]["name"]) <= limit


def test_a_registry_of_all_charts_wins_and_a_digest_over_a_tag(tmp_path: Path):
    digest = "sha256:" + "0" * 64
    values = {
        "global": {"imageRegistry": "mirror.example"},
        "image": {"registry": "registry.example", "tag": "1", "digest": digest},
        "history": {"image": {"registry": "other.example", "repository": "own/one", "tag": "7"}},
    }
    result = containers(with_values(values, tmp_path))
    assert result["daemon/offsetwatch"]["image"] == (f"mirror.example/offsetwatch@{digest}")
    assert result["daemon/history"]["image"] == "mirror.example/own/one:7"


def test_the_least_that_is_needed_is_what_the_readme_says():
    text = (chart.CHART / "README.md").read_text()
    block = text.split("```yaml\n")[1].split("```")[0]
    assert yaml.safe_load(block).keys() == LEAST.keys()
