"""alerts/README.md: what it says to type before rules are loaded, and to put into Alertmanager."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from .test_alerts import ALERT_RULES, ALERTS, OPTIONAL_FILES, RULE_FILES, RUNBOOKS_URL, rules

PAGE = (ALERTS / "README.md").read_text(encoding="utf-8")


def block(begins: str) -> Any:
    """The indented block that begins with this key, as YAML."""
    (result,) = re.findall(rf"^    {begins}:.*\n(?:    .*\n)*", PAGE, re.MULTILINE)
    return yaml.safe_load(result)[begins]


def test_the_address_of_the_runbooks_is_changed_by_the_command_that_is_shown(
    tmp_path: Path,
) -> None:
    (script,) = re.findall(r"`sed '([^']+)'`", PAGE)
    assert RUNBOOKS_URL in script
    for path in (*RULE_FILES, *OPTIONAL_FILES):
        built = tmp_path / path.name
        with path.open() as before, built.open("w") as after:
            subprocess.run(["sed", script], stdin=before, stdout=after, check=True)
        for was, now in zip(rules(path), rules(built), strict=True):
            if "alert" in was:
                assert now["annotations"]["runbook_url"] == f"<url>/{was['alert']}.md"


def test_the_pattern_of_rule_files_takes_what_is_on_by_default_and_nothing_else(
    tmp_path: Path,
) -> None:
    (pattern,) = block("rule_files")
    loaded = shutil.copytree(ALERTS, tmp_path / "offsetwatch")
    names = {path.name for path in loaded.glob(Path(pattern).name)}
    assert Path(pattern).parent.name == loaded.name
    assert names == {path.name for path in RULE_FILES}


def test_inhibition_names_alerts_that_are_there_and_labels_that_they_have() -> None:
    for rule in block("inhibit_rules"):
        sides = (rule["source_matchers"], rule["target_matchers"])
        named = {
            name for side in sides for text in side for name in re.findall(r"[A-Z]\w+", str(text))
        }
        assert len(named) > 1
        assert named <= ALERT_RULES.keys()
        assert "OffsetwatchBlind" not in named
        for name in named:
            summary = ALERT_RULES[name]["annotations"]["summary"]
            for label in set(rule["equal"]) - {"job"}:
                assert f"$labels.{label}" in re.sub(r"\s+", " ", summary), (name, label)
