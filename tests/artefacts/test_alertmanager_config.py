"""Every configuration of Alertmanager that a page shows, put to Alertmanager's own amtool."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
import yaml

from lab.product.alerting import ALERTMANAGER
from tools.alertmanager import check_config

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted(ROOT.glob("docs/**/*.md")),
    *sorted(ROOT.glob("alerts/**/*.md")),
]
_INDENTED = re.compile(r"(?:^    .*\n|^\n)+", re.MULTILINE)
_FENCED = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)


def list_pages() -> dict[str, str]:
    """What has routes or receivers, by page."""
    return {
        f"{page.relative_to(ROOT)}-{number}": block
        for page in PAGES
        for text in [page.read_text(encoding="utf-8")]
        for number, block in enumerate([*_FENCED.findall(text), *_INDENTED.findall(text)])
        if re.search(r"^(route|receivers):", textwrap.dedent(block), re.MULTILINE)
    }


SHOWN = list_pages()


def test_some_page_shows_one():
    assert any(name.startswith("docs/remediation.md") for name in SHOWN)


@pytest.mark.parametrize("block", SHOWN.values(), ids=SHOWN.keys())
def test_amtool_finds_nothing_wrong_with_what_a_page_shows(tmp_path, block):
    file = tmp_path / "alertmanager.yml"
    file.write_text(textwrap.dedent(block))
    assert check_config(file) == []


def test_amtool_finds_nothing_wrong_with_what_the_lab_starts(tmp_path):
    file = tmp_path / "alertmanager.yml"
    file.write_text(ALERTMANAGER.format(url="http://127.0.0.1:9641/", token_file="/run/token"))
    assert check_config(file) == []


def test_amtool_is_queried(tmp_path):
    wrong = yaml.safe_load(ALERTMANAGER.format(url="http://127.0.0.1:9641/", token_file="/x"))
    wrong["route"]["receiver"] = "nobody"
    file = tmp_path / "alertmanager.yml"
    file.write_text(yaml.safe_dump(wrong))
    assert any("nobody" in line for line in check_config(file))
