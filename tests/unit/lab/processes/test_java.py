"""What a JVM of the lab is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lab.processes import java as lab_java
from lab.processes.java import ARCHIVE, archive_folder, java


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of jars, and a Java that need not be one."""
    path = tmp_path / "java" / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.touch(mode=0o755)
    (tmp_path / "java" / "release").write_text('JAVA_VERSION="17.0.15"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    folder = tmp_path / "cache" / "0123abcd"
    folder.mkdir(parents=True)
    return folder


def shared(jars: Path) -> list[str]:
    return [word for word in java(jars, "kafka.Kafka", heap_mb=64) if "SharedArchiveFile" in word]


def test_classes_are_taken_from_an_archive_where_there_is_one(jars: Path) -> None:
    assert shared(jars) == []
    archive = archive_folder(jars) / ARCHIVE
    archive.parent.mkdir()
    archive.touch()
    assert shared(jars) == [f"-XX:SharedArchiveFile={archive}"]


def test_an_archive_of_another_java_is_left_alone(jars: Path) -> None:
    archive = archive_folder(jars) / ARCHIVE
    archive.parent.mkdir()
    archive.touch()
    (lab_java.home() / "release").write_text('JAVA_VERSION="17.0.16"\n')
    assert shared(jars) == []


def test_an_archive_is_beside_its_jars_and_not_among_them(jars: Path) -> None:
    assert archive_folder(jars).parent == jars.parent
    assert archive_folder(jars) != jars


def test_the_jars_stand_first_as_an_archive_wants_them(jars: Path, tmp_path: Path) -> None:
    command = java(jars, "kafka.Kafka", "server.properties", heap_mb=64, classes=tmp_path)
    path = command[command.index("-cp") + 1]
    assert path == f"{jars}/*{os.pathsep}{tmp_path}"
    assert command[-2:] == ("kafka.Kafka", "server.properties")
