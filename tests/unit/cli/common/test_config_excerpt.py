"""The excerpt of a configuration has what the whole has, or there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from offsetwatch.cli.common.config_excerpt import read_config_excerpt
from offsetwatch.config import load
from offsetwatch.disk import hash_file_stamp

LEAST = 'connect: [{name: lab, url: "http://127.0.0.1:1"}]\n'
MORE = """
kafka: {west: {bootstrap: "a:1,b:2", properties: {client.id: hidden}}}
connect:
  - {name: lab, kafka: west, urls: ["http://127.0.0.1:1", "http://127.0.0.1:2"]}
  - {name: mirror, kafka: west, offsets_topic: mm2-offsets.east.internal}
sources:
  - {name: shop, kind: postgresql, host: db, user: u, connectors: [{connect: lab, include: [".*"]}]}
listen: "[::]:9000"
state_dir: ../elsewhere
remedy: {mode: propose}
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "offsetwatch.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("text", [LEAST, MORE], ids=["least", "more"])
def test_an_excerpt_has_the_values_of_the_whole(tmp_path, text):
    path = write(tmp_path, text)
    whole, excerpt = load(path, {}), read_config_excerpt(path)
    assert excerpt is not None
    assert (excerpt.listen, excerpt.state_dir) == (whole.listen, whole.state_dir)
    assert excerpt.remedy.mode == whole.remedy.mode
    addresses = {name: kafka.bootstrap for name, kafka in whole.kafka.items()}
    assert {name: kafka.bootstrap for name, kafka in excerpt.kafka.items()} == addresses
    assert [(source.name, source.host) for source in excerpt.sources] == [
        (source.name, source.host) for source in whole.sources
    ]
    assert [(connect.name, connect.kafka, connect.worker_urls) for connect in excerpt.connect] == [
        (connect.name, connect.kafka, connect.worker_urls) for connect in whole.connect
    ]
    assert "hidden" not in repr(excerpt)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("connect: [", id="no YAML"),
        pytest.param("", id="empty"),
        pytest.param("connect: [{name: 1}]\n", id="a name that is no text"),
        pytest.param(f"{LEAST}listen: ${{LISTEN}}\n", id="the environment"),
        pytest.param(f"{LEAST}web_config_file: web.yaml\n", id="TLS or passwords"),
        pytest.param(f"{LEAST}own_access: {{auth: {{username: a}}}}\n", id="credentials"),
        pytest.param(f"{LEAST}listen: nowhere\n", id="no port"),
    ],
)
def test_a_file_with_mistakes_or_with_values_elsewhere_has_no_excerpt(tmp_path, text):
    assert read_config_excerpt(write(tmp_path, text)) is None


def test_a_stamp_changes_with_the_file_and_not_with_the_time(tmp_path):
    path = write(tmp_path, LEAST)
    stamp = hash_file_stamp(path)
    assert stamp == hash_file_stamp(path) != ""
    (tmp_path / "new").write_text(LEAST)
    (tmp_path / "new").replace(path)
    assert hash_file_stamp(path) != stamp
    path.unlink()
    assert hash_file_stamp(path) == ""
