"""docs/web-config.md: each file it shows is one, for us and for promtool."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from lab.cluster.certificates import Authority
from offsetwatch import config
from offsetwatch.errors import ConfigError
from offsetwatch.serve.web_config.reloader import check_web_config as check_file
from tools.promtool import check_web_config

PAGE = Path(__file__).parents[2] / "docs" / "web-config.md"
SHOWN = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
WEB = [text for text in SHOWN if not text.startswith("kafka:")]
MAIN = [text for text in SHOWN if text.startswith("kafka:")]
NEWER = "client_allowed_sans"  # a key that promtool 2.42 does not know


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("web")
    authority = Authority(path)
    (path / "clients-ca.pem").write_bytes(authority.ca.read_bytes())
    for name in ("listener", "own"):
        authority.issue(name)
    (path / "own-password").write_text("not a secret\n")
    (path / "web.yaml").write_text(WEB[1])
    return path


def test_the_page_shows_both_kinds_of_file():
    assert len(WEB) == 4
    assert len(MAIN) == 3
    assert NEWER in WEB[-1]


@pytest.mark.parametrize("text", WEB, ids=["tls", "password", "certificates", "names"])
def test_a_web_config_file_that_is_shown_can_be_used(folder: Path, text: str):
    file = folder / "shown.yaml"
    file.write_text(text)
    check_file(file)
    problems = check_web_config(file)
    if NEWER not in text:
        assert problems == []
    # An older promtool knows all the rest: it has that one complaint, and no other.
    assert all(NEWER in line or "unmarshal errors" in line for line in problems)


@pytest.mark.parametrize("text", MAIN, ids=["password", "certificate", "control"])
def test_a_configuration_that_is_shown_loads(folder: Path, text: str):
    file = folder / "offsetwatch.yaml"
    file.write_text(text)
    assert config.load(file, {})


def test_what_is_wrong_is_reported_by_promtool_and_by_us(folder: Path):
    file = folder / "wrong.yaml"
    file.write_text(yaml.safe_dump({"basic_auth_users": {"ada": "no hash"}}))
    assert check_web_config(file)
    with pytest.raises(ConfigError, match="number 1"):
        check_file(file)
