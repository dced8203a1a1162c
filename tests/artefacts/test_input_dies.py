"""The trap, for every alert: the exporter dies while it fires. Its series disappear, and the alert
with them. At every evaluation one alert must fire: that one, then OffsetwatchBlind.

Made from the cases in which the alerts fire (alerts/tests), cut at the moment at which they do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tools.promtool import run_rule_tests

from .test_alerts import ALERT_RULES, ALERTS, TEST_FILES, seconds

AFTER_S = 30 * 60
_RUN = re.compile(r"(-?\d+|_)(?:([+-]\d+))?x(\d+)")


def expanded(values: str) -> list[str]:
    """Samples one by one, of promtool's short form."""
    results: list[str] = []
    for value in values.split():
        run = _RUN.fullmatch(value)
        if run is None:
            results.append(value)
            continue
        start, step, times = run.groups()
        if start == "_":
            results += ["_"] * int(times)
        else:
            count = range(int(times) + 1)
            results += [str(int(start) + number * int(step or 0)) for number in count]
    return results


def whole(duration: str) -> int:
    return sum(seconds(part) for part in re.findall(r"\d+[smh]", duration))


def firing() -> Iterator[tuple[str, dict[str, Any], int]]:
    """Each alert with the first test in which it fires, and when."""
    reports = {"OffsetwatchBlind"}
    for path in TEST_FILES:
        text = path.read_text(encoding="utf-8")
        for test in yaml.load(text, Loader=yaml.BaseLoader)["tests"]:  # 0x60 is no number here
            for case in test.get("alert_rule_test", ()):
                name = case["alertname"]
                if case["exp_alerts"] and name in ALERT_RULES and name not in reports:
                    reports.add(name)
                    yield name, test, whole(case["eval_time"])


def died(name: str, test: dict[str, Any], at_s: int) -> dict[str, Any]:
    """The test, with an exporter that is gone from that moment on."""
    every_s = seconds(test["interval"])
    alive = at_s // every_s + 1
    series = [
        {
            "series": one["series"],
            "values": " ".join([*expanded(str(one["values"]))[:alive], "stale"]),
        }
        for one in test["input_series"]
        if not one["series"].startswith(("up{", "offsetwatch_build_info{"))
    ]
    series += [
        {"series": 'up{job="offsetwatch", instance="a:9640"}', "values": f"1x{alive - 1} 0x200"},
        {
            "series": 'offsetwatch_build_info{job="offsetwatch", instance="a:9640"}',
            "values": f"1x{alive - 1} stale",
        },
    ]
    report = f'ALERTS{{alertname=~"{name}|OffsetwatchBlind", alertstate="firing"}}'
    return {
        "name": name,
        "interval": test["interval"],
        "input_series": series,
        "promql_expr_test": [
            {
                "expr": f"count_over_time((count({report}) > 0)[{AFTER_S}s:60s])",
                "eval_time": f"{at_s + AFTER_S}s",
                "exp_samples": [{"labels": "{}", "value": AFTER_S // 60 + 1}],
            },
            {
                "expr": 'count(ALERTS{alertname="OffsetwatchBlind", alertstate="firing"})',
                "eval_time": f"{at_s + AFTER_S}s",
                "exp_samples": [{"labels": "{}", "value": 1}],
            },
        ],
    }


@pytest.mark.full
def test_no_alert_resolves_into_silence_when_the_exporter_dies(tmp_path):
    result = list(firing())
    assert {name for name, _, _ in result} == ALERT_RULES.keys() - {"OffsetwatchBlind"}
    names = ["thresholds", "connectors", "mirrormaker", "offsetwatch"]
    groups = ["thresholds", "connectors", "mirrormaker", "itself"]
    document = {
        "rule_files": [str(ALERTS / f"{name}.rules.yaml") for name in names],
        "group_eval_order": [f"offsetwatch-{group}" for group in groups],
        "evaluation_interval": "1m",
        "tests": [died(*item) for item in result],
    }
    path = tmp_path / "dies.test.yaml"
    path.write_text(yaml.safe_dump(document, width=1000), encoding="utf-8")
    assert run_rule_tests(path) == []
