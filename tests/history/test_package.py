"""What spark-submit is given, and what an executor needs beside it."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from offsetwatch.errors import HistoryError
from offsetwatch.history.spark import jars
from offsetwatch.history.spark.jars import EXECUTOR_REQUIREMENTS, package

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What the packages in EXECUTORS_NEED bring along themselves.
BROUGHT = {"cython_runtime", "dateutil", "pytz", "six", "typing_extensions", "tzdata"}
LOADED = """
import sys
before = set(sys.modules)
from {module} import *
print(*sorted({{name.partition(".")[0] for name in set(sys.modules) - before}}))
"""


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package, with empty files for jars."""
    monkeypatch.setenv("OFFSETWATCH_CACHE", str(tmp_path / "cache"))
    cached = tmp_path / "cache" / jars.folder_name()
    cached.mkdir(parents=True)
    for name in jars.ARTIFACTS:
        (cached / f"{name}-1.0.jar").touch()
    return tmp_path / "packed"


def loaded_by(module: str, archive: Path) -> set[str]:
    """The top-level names that importing a module out of the archive brings in."""
    script = LOADED.format(module=module)
    command = [sys.executable, "-P", "-c", script]
    done = subprocess.run(
        command, env={"PYTHONPATH": str(archive)}, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split()) - set(sys.stdlib_module_names)


def test_executors_need_what_the_requirements_list_and_nothing_else(packed: Path) -> None:
    built = package(packed)
    loaded = loaded_by("offsetwatch.history.pipeline.bronze_rows", built.archive)
    own = {name for name in loaded if not name.startswith("_")}
    assert own - BROUGHT <= {"offsetwatch", *EXECUTOR_REQUIREMENTS}
    pins = dict(line.split("==") for line in built.requirements.read_text().splitlines())
    assert pins == {name: metadata.version(name) for name in EXECUTOR_REQUIREMENTS}


def test_the_archive_holds_every_module_and_nothing_of_the_day_it_was_made(packed: Path) -> None:
    entries = zipfile.ZipFile(package(packed).archive).infolist()
    assert {entry.date_time for entry in entries} == {(1980, 1, 1, 0, 0, 0)}
    source = Path(__file__).parents[2] / "exporter" / "offsetwatch"
    assert {entry.filename for entry in entries} == {
        f"offsetwatch/{file.relative_to(source).as_posix()}" for file in source.rglob("*.py")
    }


def test_the_main_file_is_the_command(packed: Path) -> None:
    built = package(packed)
    done = subprocess.run(
        [sys.executable, "-P", str(built.main), "history", "run", "--help"],
        env={"PYTHONPATH": str(built.archive)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "--available-now" in done.stdout


def test_jars_of_an_earlier_version_are_taken_away(packed: Path) -> None:
    (packed / "jars").mkdir(parents=True)
    (packed / "jars" / "kafka-clients-0.9.jar").touch()
    built = package(packed)
    assert sorted((packed / "jars").iterdir()) == sorted(built.jars)
    assert len(built.jars) == len(jars.ARTIFACTS)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HistoryError, match=re.escape(f"{tmp_path / 'file'} cannot be written")):
        package(tmp_path / "file")


@pytest.mark.spark
@pytest.mark.parametrize(
    ("text", "observed"), [("who holds it", True), ("who held it before", False), (None, False)]
)
def test_an_executor_says_whether_it_sees_the_very_file_that_was_written(
    tmp_path: Path, text: str | None, observed: bool
) -> None:
    from offsetwatch.history.spark.run_lock import build_folder_check

    if text is not None:
        (tmp_path / "_run.lock").write_text(text)
    folder_check = build_folder_check(str(tmp_path / "_run.lock"), "who holds it")
    (batch,) = folder_check(iter([pa.RecordBatch.from_pydict({"id": [1]})]))
    assert batch["seen"].to_pylist() == [observed]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("master", "local"),
    [
        ("local", True),
        ("local[*]", True),
        ("local-cluster[2,1,900]", False),
        ("spark://a:7077", False),
        ("yarn", False),
    ],
)
def test_only_one_process_needs_no_shared_folder(master: str, local: bool) -> None:
    from offsetwatch.history.spark.run_lock import is_local

    assert is_local(master) is local


@pytest.mark.spark
def test_a_submitted_run_without_the_jars_is_refused_by_name(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from offsetwatch.history.spark import session

    session._refuse_without_jars(spark)
    monkeypatch.setitem(session._JAR_CLASSES, "Kafka source", "org.example.Absent")
    with pytest.raises(HistoryError, match="Spark has no Kafka source on its class path"):
        session._refuse_without_jars(spark)


@pytest.mark.spark
def test_a_plain_path_is_a_folder_whatever_hadoops_default_is(spark: SparkSession) -> None:
    assert spark.conf.get("fs.defaultFS") == "file:///"
