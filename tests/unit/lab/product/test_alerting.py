"""The rules as the lab loads them, and its Alertmanager as the page on remedies has it."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.product.alerting import ALERTMANAGER, HOOK, RULES, in_seconds

FILES = sorted(RULES.glob("*.rules.yaml"))
WAITS = ("for", "keep_firing_for")
PAGE = Path(__file__).parents[4] / "docs" / "remediation.md"
ANYWHERE = "http://127.0.0.1:9641"


@pytest.fixture
def page_config() -> dict[str, Any]:
    """The configuration of Alertmanager on the page."""
    blocks = re.findall(r"(?:^    .*\n|^\n)+", PAGE.read_text(), flags=re.MULTILINE)
    (block,) = (row for row in map(textwrap.dedent, blocks) if row.lstrip().startswith("route:"))
    return dict(yaml.safe_load(block))


def seconds(wait: str) -> int:
    return int(wait[:-1]) * {"s": 1, "m": 60, "h": 3600}[wait[-1]]


def rules(text: str) -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_only_what_a_rule_waits_for_is_shortened(file: Path):
    text = file.read_text()
    for rule, shortened in zip(rules(text), rules(in_seconds(text)), strict=True):
        retained = [
            {k: v for k, v in entry.items() if k not in WAITS} for entry in (rule, shortened)
        ]
        assert retained[0] == retained[1]


def test_every_wait_is_a_sixtieth_of_what_it_was():
    pairs = [
        (seconds(rule[wait]), seconds(shortened[wait]))
        for text in (file.read_text() for file in FILES)
        for rule, shortened in zip(rules(text), rules(in_seconds(text)), strict=True)
        for wait in WAITS
        if wait in rule
    ]
    assert len(pairs) > 50
    assert [before for before, _ in pairs] == [60 * after for _, after in pairs]


def test_the_page_shows_what_was_tried(page_config: dict[str, Any]):
    tried = yaml.safe_load(
        ALERTMANAGER.format(url=f"{ANYWHERE}{HOOK}", token_file="/run/secrets/hook-token")
    )
    for route in tried["route"]["routes"]:
        for quicker in ("group_wait", "group_interval"):
            route.pop(quicker, None)
    assert page_config == tried
