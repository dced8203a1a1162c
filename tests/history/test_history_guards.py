"""What the pipeline refuses before it starts a JVM, and what it needs to start one."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from offsetwatch.errors import HistoryError
from offsetwatch.history.spark import jars
from offsetwatch.history.spark.run_lock import hold_run_lock
from offsetwatch.history.spark.security import kafka_options


class Noon:
    def now(self) -> float:
        return 1795262400.0


# ---- security -----------------------------------------------------------------------------------


def test_the_bootstrap_servers_are_translated_and_only_committed_records_are_read() -> None:
    properties = {
        "bootstrap.servers": "a:1,b:2",
        "client.id": "ours",
        "isolation.level": "read_uncommitted",
        "security.protocol": "PLAINTEXT",
    }
    options = kafka_options("east", properties)
    assert options["kafka.bootstrap.servers"] == "a:1,b:2"
    assert options["kafka.isolation.level"] == "read_committed"
    assert "ours" not in options.values()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sasl.password", "hunter2"),
        ("security.protocol", "hunter2"),
        ("ssl.ca.location", "/hunter2"),
        ("made.up", "hunter2"),
    ],
)
def test_a_property_it_cannot_translate_is_refused_by_name_and_its_value_kept(
    name: str, value: str
) -> None:
    with pytest.raises(HistoryError, match=name) as caught:
        kafka_options("east", {"bootstrap.servers": "a:1", name: value})
    assert value not in str(caught.value)


def test_a_cluster_without_an_address_is_refused_by_name() -> None:
    with pytest.raises(HistoryError, match="kafka east has no bootstrap"):
        kafka_options("east", {"client.id": "x"})


# ---- one run at a time --------------------------------------------------------------------------


def hold(base: Path, held: multiprocessing.synchronize.Event) -> None:
    with hold_run_lock(base, Noon()):
        held.set()
        parent = multiprocessing.parent_process()
        assert parent is not None
        parent.join()  # until it is killed


def test_a_second_run_is_refused_and_reported_who_has_the_path(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    held = context.Event()
    other = context.Process(target=hold, args=(tmp_path, held), daemon=True)
    other.start()
    assert held.wait(30)
    who = f"in use by process {other.pid} on .* since 2026-11-21T12:00:00"
    with pytest.raises(HistoryError, match=who), hold_run_lock(tmp_path, Noon()):
        pass
    other.kill()
    other.join()
    with hold_run_lock(tmp_path, Noon()):  # a killed holder leaves nothing behind
        pass


def test_a_path_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(HistoryError, match="cannot be written"),
        hold_run_lock(tmp_path / "file", Noon()),
    ):
        pass


# ---- jars ---------------------------------------------------------------------------------------


def test_the_pom_lists_the_jars_that_are_searched_for_and_lets_nothing_else_in() -> None:
    space = {"m": "http://maven.apache.org/POM/4.0.0"}
    root = ET.parse(jars.POM).getroot()
    names = {it.tag.split("}")[1]: it.text for it in root.find("m:properties", space)}
    results = []
    for dependency in root.iterfind("m:dependencies/m:dependency", space):
        name = dependency.findtext("m:artifactId", "", space)
        for key, value in names.items():
            name = name.replace(f"${{{key}}}", value)
        results.append(name)
        (exclusion,) = dependency.iterfind("m:exclusions/m:exclusion", space)
        assert [part.text for part in exclusion] == ["*", "*"]
    assert tuple(results) == jars.ARTIFACTS


def cache(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OFFSETWATCH_CACHE", str(directory))
    monkeypatch.setenv("PATH", "")  # no Maven: whatever is needed must be there already
    return directory / jars.folder_name()


def test_jars_in_the_cache_need_no_maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = cache(tmp_path, monkeypatch)
    folder.mkdir()
    for name in jars.ARTIFACTS:
        (folder / f"{name}-1.0.jar").touch()
    assert jars.spark_jars() == tuple(folder / f"{name}-1.0.jar" for name in jars.ARTIFACTS)


def test_a_cache_that_lacks_a_jar_is_named_and_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = cache(tmp_path, monkeypatch)
    folder.mkdir()
    for name in jars.ARTIFACTS[1:]:
        (folder / f"{name}-1.0.jar").touch()
    with pytest.raises(
        HistoryError, match=f"{folder.name} must hold exactly one jar of {jars.ARTIFACTS[0]};"
    ):
        jars.spark_jars()


def test_without_jars_and_without_maven_the_message_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = cache(tmp_path, monkeypatch)
    with pytest.raises(HistoryError, match="mvn is not on the PATH"):
        jars.spark_jars()
    assert not folder.exists()
    assert [it.name for it in tmp_path.iterdir()] == ["jars.lock"]
