"""What we serve, as promtool sees it, and where promtool comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

from offsetwatch.serve.metrics.exposition import TEXT_0_0_4, Exposition
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT
from tests.unit.serve.worlds import BUILD, RELOADED, full
from tools import debian
from tools.debian import ToolError
from tools.promtool import binaries, check_metrics, run_rule_tests


@pytest.mark.parametrize("snapshot", [full(), EMPTY_SNAPSHOT], ids=["full", "empty"])
def test_promtool_finds_nothing_to_complain_about_in_what_we_serve(snapshot):
    assert (
        check_metrics(Exposition(BUILD, lambda: RELOADED).render(snapshot, TEXT_0_0_4).decode())
        == []
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("# TYPE a_total gauge\na_total 1\n", "a_total"),
        ("# HELP a_minutes Time.\n# TYPE a_minutes gauge\na_minutes 1\n", "a_minutes"),
        ('a{b="c" 1\n', "parsing"),
    ],
    ids=["gauge named as a counter", "not a base unit", "not the format"],
)
def test_what_promtool_complains_about_is_reported(text, complaint):
    assert any(complaint in line for line in check_metrics(text))


def test_rule_tests_that_do_not_pass_are_reported(tmp_path):
    (tmp_path / "a.rules.yaml").write_text(
        "groups: [{name: g, rules: [{record: 'a:b:c', expr: vector(1)}]}]"
    )
    (tmp_path / "a.test.yaml").write_text(
        "rule_files: [a.rules.yaml]\ntests: [{interval: 1m, promql_expr_test: "
        "[{expr: 'a:b:c', eval_time: 1m, exp_samples: [{labels: 'a:b:c', value: 2}]}]}]"
    )
    assert any("FAILED" in line for line in run_rule_tests(tmp_path / "a.test.yaml"))


def program(folder: Path, name: str, script: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A machine with an empty cache and a PATH with nothing but what a test puts there."""
    monkeypatch.setenv("OFFSETWATCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "cache"


def test_programs_on_the_path_are_taken_and_nothing_is_fetched(tmp_path, cache):
    programs = [program(tmp_path / "bin", name) for name in ("promtool", "prometheus")]
    assert [binaries().promtool, binaries().prometheus] == programs
    assert not cache.exists()


def test_a_machine_without_apt_is_advised_what_to_install(cache):
    with pytest.raises(ToolError, match=r"no apt-get to fetch one: install Prometheus 2\.42"):
        binaries()


def test_the_package_is_fetched_once_and_kept_under_its_version(tmp_path, cache):
    folder = tmp_path / "bin"
    program(folder, "apt-get", f'echo "$@" >> {tmp_path}/calls; echo > prometheus_9.deb')
    program(folder, "dpkg-deb", "echo 9:9.1-2")
    program(
        folder,
        "dpkg",
        '/bin/mkdir -p "$3/usr/bin"; echo > "$3/usr/bin/promtool"; echo > "$3/usr/bin/prometheus"',
    )
    first = binaries()
    assert first.promtool == cache / "prometheus-9_9.1-2" / "usr" / "bin" / "promtool"
    assert first.prometheus.is_file()
    assert binaries() == first
    assert (tmp_path / "calls").read_text() == "-q download prometheus\n"
    assert sorted(path.name for path in cache.iterdir()) == [
        "prometheus-9_9.1-2",
        "prometheus.lock",
    ]


def test_a_package_list_that_is_out_of_date_is_renewed_once(tmp_path, cache):
    folder = tmp_path / "bin"
    program(folder, "dpkg")
    program(folder, "dpkg-deb")
    program(folder, "apt-get", f'echo "$@" >> {tmp_path}/calls; [ "$2" = update ]')
    with pytest.raises(ToolError, match="apt-get -q download prometheus failed"):
        binaries()
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls == ["-q download prometheus", "-q update", "-q download prometheus"]
    assert [path.name for path in cache.iterdir()] == ["prometheus.lock"]


def test_the_cache_lies_where_the_environment_says(tmp_path, monkeypatch):
    monkeypatch.delenv("OFFSETWATCH_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert debian.cache_directory() == tmp_path / "offsetwatch"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert debian.cache_directory() == tmp_path / ".cache" / "offsetwatch"
