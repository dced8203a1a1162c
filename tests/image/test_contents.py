"""What the images say of themselves, and what is in them."""

from __future__ import annotations

import json
import os
import re
import tomllib
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest

from offsetwatch import __version__
from offsetwatch.history.spark.jars import ARTIFACTS, folder_name
from tests.conftest import ROOT
from tests.image.building import REVISION, VERSION, Image
from tests.image.container import USER

pytestmark = [pytest.mark.image, pytest.mark.full]

TARGETS = ("daemon", "pipeline")
CONFIG = "/etc/offsetwatch/config.yaml"
STATE = "/var/lib/offsetwatch"
SBOM, JARS_SBOM = "offsetwatch.sbom", "offsetwatch.sbom.jars"
# What is ours on top of the base image. A day that it grows by a third is a day to look at it.
OWN_MEGABYTES_MAX = {"daemon": 130, "pipeline": 1500}


@pytest.fixture(params=TARGETS)
def image(request) -> Image:
    return request.getfixturevalue(request.param)


def test_it_runs_as_a_number_that_is_not_root_and_without_a_shell_in_between(image):
    assert image.config["User"] == f"{USER}:{USER}"
    assert image.config["Entrypoint"] == ["offsetwatch"]


def test_it_says_what_it_is_and_of_which_revision(image):
    labels = image.config["Labels"]
    reports = {
        name.removeprefix("org.opencontainers.image."): text
        for name, text in labels.items()
        if name.startswith("org.opencontainers.image.")
    }
    reports.pop("description")
    assert reports == {
        "title": "offsetwatch",
        "licenses": "Apache-2.0",
        "version": VERSION,
        "revision": REVISION,
    }


def test_the_daemon_is_started_queried_and_reached_by_default(daemon):
    assert daemon.config["Cmd"] == ["run", "--config", CONFIG]
    assert daemon.config["Healthcheck"]["Test"] == [
        *("CMD", "offsetwatch", "healthcheck", "--config", CONFIG)
    ]
    assert set(daemon.config["ExposedPorts"]) == {"9640/tcp", "9641/tcp"}


def test_the_pipeline_reads_on_by_default_and_serves_nothing(pipeline):
    assert pipeline.config["Cmd"] == ["history", "run", "--continuous", "--config", CONFIG]
    assert "Healthcheck" not in pipeline.config
    assert not pipeline.config.get("ExposedPorts")


def test_what_may_be_written_to_is_declared_and_the_users_own(daemon, pipeline):
    assert set(daemon.config["Volumes"]) == {STATE}
    assert set(pipeline.config["Volumes"]) == {STATE, "/tmp"}
    for image in (daemon, pipeline):
        assert image.config["WorkingDir"] == STATE
        result = (image.root / STATE.lstrip("/")).stat()
        assert (result.st_uid, result.st_gid, result.st_mode & 0o777) == (USER, USER, 0o755)


def test_nothing_else_belongs_to_the_user_or_can_be_written_by_everybody(image):
    own = [
        str(item.relative_to(image.root))
        for item in (image.root / "opt", image.root / "etc/offsetwatch")
        for item in (item, *item.rglob("*"))
        if not item.is_symlink() and (item.stat().st_uid != 0 or item.stat().st_mode & 0o022)
    ]
    assert own == []


def test_the_user_has_a_name(image):
    lines = (image.root / "etc/passwd").read_text().splitlines()
    assert [line.split(":")[:4] for line in lines if f":{USER}:" in line] == [
        ["offsetwatch", "x", str(USER), str(USER)]
    ]


def test_the_daemon_has_no_java_no_compiler_and_nothing_to_install_with(daemon):
    assert programs(daemon.root, "java", "mvn", "gcc", "cc", "make", "pip", "pip3", "git") == []
    installed = {item.name for item in daemon.packages.iterdir()}
    assert installed & {"pip", "setuptools", "wheel", "hatchling", "pyspark", "pytest"} == set()


def test_the_pipeline_has_java_and_still_nothing_to_build_with(pipeline):
    assert len(programs(pipeline.root, "java")) == 1
    assert programs(pipeline.root, "javac", "mvn", "gcc", "cc", "make", "pip", "pip3", "git") == []


def programs(root: Path, *names: str) -> list[str]:
    """Where a program by one of these names is, by the usual PATH."""
    folders = ("bin", "sbin", "usr/bin", "usr/sbin", "usr/local/bin", "opt/offsetwatch/bin")
    locations = {(root / folder).resolve() for folder in folders}
    return [
        str(path / name) for path in locations for name in names if os.path.lexists(path / name)
    ]


def test_no_cache_of_a_build_no_secret_and_none_of_our_tests_is_left(image):
    remaining = ("root/.cache", "root/.m2", "wheel", "build", "src", "report.json", "etc/pip.conf")
    assert [name for name in remaining if (image.root / name).exists()] == []
    assert list((image.root / "var/lib/apt/lists").glob("*Packages*")) == []
    packages = {item.name for item in image.packages.iterdir()}
    assert packages & {"tests", "lab", "tools", "bench", "dashboards"} == set()


def test_everything_of_ours_is_compiled_already(image):
    """As nothing can be kept of what is compiled at a start."""
    sources = [
        item
        for item in (image.packages / "offsetwatch").rglob("*.py")
        if "__pycache__" not in item.parts
    ]
    assert len(sources) > 200
    compiled = {item.name.partition(".")[0] for item in image.packages.rglob("__pycache__/*.pyc")}
    assert {source.stem for source in sources} - compiled == set()


def test_what_is_ours_is_as_large_as_it_has_to_be(image, record_property):
    target = image.name.rpartition(":")[2]
    own, whole = image.megabytes(image.venv), image.megabytes()
    print(f"{target}: {own:.0f} MB of ours, {whole:.0f} MB with the base image")  # noqa: T201
    assert own < OWN_MEGABYTES_MAX[target]


def test_the_pipeline_has_its_six_jars_where_it_searches_for_them(pipeline):
    (cache,) = [
        value.partition("=")[2]
        for value in pipeline.config["Env"]
        if value.startswith("OFFSETWATCH_CACHE=")
    ]
    jars = sorted((pipeline.root / cache.lstrip("/") / folder_name()).glob("*.jar"))
    assert len(jars) == len(ARTIFACTS)


def bill_of(image: Image, label: str = SBOM) -> dict[str, Any]:
    """The document that a label names."""
    location = image.config["Labels"][label]
    document: dict[str, Any] = json.loads((image.root / location.lstrip("/")).read_text())
    return document


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def listed_versions(image: Image) -> dict[str, str]:
    """Packages of Python, by their names."""
    return {normalised(each["name"]): each["version"] for each in bill_of(image)["components"]}


def test_the_sbom_names_what_is_installed_all_of_it_and_nothing_else(image):
    installed = distributions(path=[str(image.packages)])
    versions = {normalised(each.metadata["Name"]): each.version for each in installed}
    assert listed_versions(image) == versions
    assert versions["offsetwatch"] == __version__
    for component in bill_of(image)["components"]:
        name = normalised(component["name"])
        expected = f"pkg:pypi/{name}@{component['version']}"
        # What was installed from a file of ours is on no index.
        assert component.get("purl") == (None if name == "offsetwatch" else expected)


def test_the_sbom_says_what_the_product_needs_itself(image):
    edges = bill_of(image)["dependencies"]
    (own,) = (each for each in edges if each["ref"].startswith("offsetwatch"))
    needs = {normalised(ref.partition("==")[0]) for ref in own["dependsOn"]}
    expected = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = ["postgresql", "mysql", "sql"]  # as in the Dockerfile
    if image.name.endswith("pipeline"):
        extras.append("history")
    texts = [text for extra in extras for text in expected["optional-dependencies"][extra]]
    texts += expected["dependencies"]
    assert needs == {normalised(re.split(r"[\[<>=~]", text)[0]) for text in texts}


def test_the_sbom_names_the_jars_that_are_there_with_what_they_hash_to(daemon, pipeline):
    jars = {item.name: item for item in (pipeline.venv / "share/cache").rglob("*.jar")}
    components = bill_of(pipeline, JARS_SBOM)["components"]
    listed = {f"{jar['name']}-{jar['version']}.jar": jar for jar in components}
    assert listed.keys() == jars.keys()
    for name, jar in listed.items():
        assert {"alg": "SHA-256", "content": sha256(jars[name])} in jar["hashes"]
    assert JARS_SBOM not in daemon.config["Labels"]


def sha256(path: Path) -> str:
    import hashlib

    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_versions_are_the_pinned_ones(image):
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = (line.split("==") for line in lines if "==" in line)
    pinned = {normalised(name): version for name, version in pairs}
    listed = listed_versions(image)
    del listed["offsetwatch"]
    assert listed.items() <= pinned.items()
