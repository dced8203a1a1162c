"""The import contracts: what they must refuse, planted into the text of every module in turn.

The planted source is only read, never run. Each plant goes into a copy of the package at the end of
each module that may not have it; the linter has to name every one of these modules.
"""

from __future__ import annotations

import ast
import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
LINTER = "from importlinter.cli import lint_imports_command; lint_imports_command()"


class Plant(NamedTuple):
    """An import that a contract refuses.

    contract    its id in .importlinter
    line        the import
    imported    the module that the linter then names
    into        packages whose modules it is planted into; all if empty
    allowed     packages that may import it
    """

    contract: str
    line: str
    imported: str
    into: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()


PURE = (
    "offsetwatch.model",
    "offsetwatch.decode",
    "offsetwatch.state",
    "offsetwatch.judge",
    "offsetwatch.remedy.model",
    "offsetwatch.remedy.classify",
    "offsetwatch.remedy.locate",
    "offsetwatch.remedy.guards",
    "offsetwatch.remedy.engine",
    "offsetwatch.remedy.views",
)
SPARK = tuple(f"offsetwatch.history.{name}" for name in ["audit", "baselines", "pipeline", "spark"])
WRITERS = "offsetwatch.clients.write"
PLANTS = {
    **{
        f"write/{writer}": Plant(
            "writes",
            f"from {WRITERS} import {writer}",
            f"{WRITERS}.{writer}",
            allowed=("offsetwatch.remedy.drivers", WRITERS),
        )
        for writer in ("connect", "kafka", "kubernetes", "offsets")
    },
    "a clock": Plant("pure", "import time", "time", into=PURE),
    "a client": Plant(
        "pure",
        "from offsetwatch.clients.kafka import clients",
        "offsetwatch.clients.kafka.clients",
        into=PURE,
    ),
    "a driver": Plant(
        "pure",
        "from offsetwatch.remedy.drivers.rest import driver",
        "offsetwatch.remedy.drivers.rest.driver",
        into=PURE,
    ),
    "Spark": Plant("spark", "import pyspark", "pyspark", allowed=SPARK),
    "Kafka's client": Plant(
        "sockets", "import confluent_kafka", "confluent_kafka", allowed=("offsetwatch.clients",)
    ),
    **{
        f"the client {library}": Plant(
            "sockets", f"import {library}", library, allowed=("offsetwatch.clients",)
        )
        for library in ("psycopg", "pymysql", "sqlalchemy")
    },
    "an HTTP client": Plant(
        "http", "import httpx", "httpx", allowed=("offsetwatch.clients", "offsetwatch.cli.remote")
    ),
    "another HTTP client": Plant("one-http-client", "import requests", "requests"),
    "Spark, to read": Plant(
        "reads-without-a-jvm",
        "import pyspark",
        "pyspark",
        into=(
            "offsetwatch.cli.history.queries",
            "offsetwatch.cli.offsets",
            "offsetwatch.daemon",
            *(f"offsetwatch.history.{name}" for name in ["failover_report", "queries", "tables"]),
        ),
    ),
}


def in_package(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def modules(folder: Path) -> dict[str, Path]:
    results = {}
    for path in folder.rglob("*.py"):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        results[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return results


def linted(folder: Path, contract: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", LINTER, "--no-cache", "--no-logo", "--contract", contract],
        cwd=folder,
        env={"PYTHONPATH": str(folder / "exporter"), "COLUMNS": "400"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__", "static")
    shutil.copytree(ROOT / "exporter", tmp_path / "exporter", ignore=ignored)
    shutil.copy(ROOT / ".importlinter", tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", PLANTS)
def test_a_forbidden_import_breaks_the_contract_in_whatever_module_it_stands(copy: Path, name: str):
    plant = PLANTS[name]
    planted = {
        module: path
        for module, path in modules(copy / "exporter" / "offsetwatch").items()
        if not in_package(module, plant.allowed)
        and (not plant.into or in_package(module, plant.into))
        and module != plant.imported
    }
    for path in planted.values():
        path.write_text(f"{path.read_text()}\n{plant.line}\n")

    status, output = linted(copy, plant.contract)

    named = set(re.findall(rf"([\w.]+) -> {re.escape(plant.imported)}\b(?![.\w])", output))
    assert status == 1, output
    assert planted, "nothing was planted"
    assert set(planted) - named == set()


def test_without_a_plant_every_contract_holds(copy: Path):
    contracts = {plant.contract for plant in PLANTS.values()}

    assert {contract: linted(copy, contract)[0] for contract in contracts} == dict.fromkeys(
        contracts, 0
    )


def test_contracts_name_packages_and_never_single_modules():
    """The layers may, and so may what forbids one: a layer without parts is one module."""
    read = configparser.ConfigParser()
    read.read(ROOT / ".importlinter")
    named = {
        (section, name)
        for section in read.sections()
        if section not in {"importlinter", "importlinter:contract:layers"}
        for value in read[section].values()
        for name in re.findall(r"^offsetwatch[\w.]*$", value, re.MULTILINE)
    }

    single = {(section, name) for section, name in named if not _is_package(name)}
    assert {name for _, name in single} <= {"offsetwatch.clock", "offsetwatch.disk"}


def _is_package(name: str) -> bool:
    return (ROOT / "exporter" / name.replace(".", "/")).is_dir()


# What confluent-kafka and HTTP have to change something elsewhere with.
CHANGES = {
    "Producer",
    "create_topics",
    "create_partitions",
    "delete_topics",
    "delete_records",
    "delete_groups",
    "delete_consumer_groups",
    "alter_configs",
    "incremental_alter_configs",
    "alter_consumer_group_offsets",
    "create_acls",
    "delete_acls",
    "commit_transaction",
}
METHODS = {"POST", "PUT", "PATCH", "DELETE"}
# A review changes nothing (SelfSubjectAccessReview), and a notification is what people asked for.
HARMLESS = {
    ("offsetwatch.clients.kubernetes.reader", "POST"),
    ("offsetwatch.clients.http.webhook", "POST"),
}


def changing(source: str) -> set[str]:
    """What a module names of these."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in CHANGES:
            names.add(node.attr)
        if isinstance(node, ast.Constant) and node.value in METHODS:
            names.add(str(node.value))
    return names


def test_clients_that_can_change_anything_are_in_their_package():
    names = {
        (module, name)
        for module, path in modules(ROOT / "exporter" / "offsetwatch").items()
        if in_package(module, ("offsetwatch.clients",)) and not in_package(module, (WRITERS,))
        for name in changing(path.read_text())
    }

    assert names == HARMLESS


def test_what_can_change_anything_is_recognised():
    source = "ck.Producer({})\nadmin.delete_topics([])\nask('PATCH', path)\nread('GET', path)\n"

    assert changing(source) == {"Producer", "delete_topics", "PATCH"}
