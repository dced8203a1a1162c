"""docs/acls.md against what the code asks for: doctor's checks, and every request to Connect."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from offsetwatch.cli.inspect import diagnosis
from offsetwatch.cli.inspect.source_diagnosis import check_source_end
from offsetwatch.clients.connect.reader import ConnectReader
from offsetwatch.clients.kafka.inspector import TopicShape
from offsetwatch.config.schema.sources import Source
from offsetwatch.model.source_ends import MysqlEnd, PostgresqlEnd, ReplicationSlot, SourceEnd
from offsetwatch.remedy.engine.requests import build_step_request
from offsetwatch.remedy.model.plan import (
    Alter,
    AnyStep,
    Create,
    Delete,
    PartitionOffset,
    RequestedState,
    Reset,
    Restart,
    ToState,
)

PAGE = (Path(__file__).parents[2] / "docs" / "acls.md").read_text()
COMMANDS = re.findall(r"^    (kafka-acls .*)$", PAGE, re.MULTILINE)
SECTIONS_OF_KAFKA = [
    section
    for section in re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    if section not in {"Connect's REST API", "Databases"}
]
# What kafka-acls takes for each kind of resource (KIP-11 and its successors).
OPERATIONS = {
    "--topic": {
        *("Read", "Write", "Create", "Delete", "Alter"),
        *("Describe", "DescribeConfigs", "AlterConfigs"),
    },
    "--group": {"Read", "Describe", "Delete"},
    "--transactional-id": {"Describe", "Write"},
}
DOCTORS = {"Describe": "DESCRIBE", "Read": "READ", "DescribeConfigs": "DESCRIBE_CONFIGS"}


def rows(section: str) -> Iterator[list[str]]:
    """Cells of the tables of rights in a section."""
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("|") and len(cells) == 5 and cells[0] not in {"cluster", "---"}:
            yield cells


def rights(section: str, resource: str) -> set[str]:
    (result,) = (row[2] for row in rows(section) if row[1].startswith(resource))
    return set(result.split(", "))


def verdicts(operations: set[str], groups: set[str]) -> list[str]:
    shape = TopicShape("id", 25, 3, frozenset(DOCTORS[operation] for operation in operations))
    requests = {"connect-out": frozenset(DOCTORS[group] for group in groups)}
    permissions = diagnosis.check_permissions("kafka east", {"connect-offsets": shape}, requests)
    return [line.verdict for line in permissions]


def test_doctor_is_content_with_what_the_page_grants():
    granted = rights("Watching", "topic: offsets topic")
    assert verdicts(granted, rights("Watching", "group: groups of sinks")) == ["ok", "ok"]


@pytest.mark.parametrize("operation", ["Describe", "Read", "DescribeConfigs"])
def test_the_page_grants_no_more_than_doctor_requests(operation: str):
    granted = rights("Watching", "topic: offsets topic")
    assert verdicts(granted - {operation}, {"Describe"}) != ["ok", "ok"]


@pytest.mark.parametrize(
    ("kind", "end"),
    [
        ("postgresql", PostgresqlEnd(1, {"cdc": ReplicationSlot("cdc", None, active=True)})),
        ("mysql", MysqlEnd(mariadb=True, server_id=1, gtids="0-1-1")),
        ("mysql", MysqlEnd(mariadb=False, server_id=1, gtids="")),
    ],
)
def test_the_page_has_every_right_on_a_database_that_doctor_misses(kind: str, end: SourceEnd):
    source = Source.model_validate(
        {"name": "shop", "kind": kind, "connectors": [{"connect": "lab"}]}
    )
    section = PAGE.split("\n## Databases\n")[1]
    missing = [line.advice for line in check_source_end(source, "u", end) if line.verdict == "warn"]
    assert missing
    for advice in missing:
        granted = re.match(r"GRANT (?:EXECUTE ON FUNCTION )?([\w() ]+?) (?:ON \*\.\* )?TO ", advice)
        assert granted is not None, advice
        assert f"`{granted[1]}`" in section, advice


def test_without_describe_on_groups_doctor_says_so():
    assert "fail" in verdicts(rights("Watching", "topic: offsets topic"), set())


@pytest.mark.parametrize("section", SECTIONS_OF_KAFKA)
def test_every_right_is_one_that_kafka_knows_and_says_what_is_lost_without_it(section: str):
    result = list(rows(section))
    assert result
    for _, resource, operations, what_for, without in result:
        kind = f"--{resource.split(':')[0]}"
        known = OPERATIONS.get(kind, {"IdempotentWrite"})
        assert set(operations.split(", ")) <= known, resource
        assert what_for
        assert without


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_grants_a_principal_rights_on_one_resource(command: str):
    words = shlex.split(command)
    (kind,) = OPERATIONS.keys() & set(words)
    inputs = {words[offset + 1] for offset, word in enumerate(words) if word == "--operation"}
    assert inputs
    assert inputs <= OPERATIONS[kind]
    assert words[words.index("--allow-principal") + 1].startswith("User:")
    assert "--add" in words


# --- Connect -------------------------------------------------------------------------------------


def read_requests() -> set[str]:
    """What our reader may ask for, found by asking."""
    names: set[str] = set()

    def answer(request: httpx.Request) -> httpx.Response:
        names.add(f"{request.method} {request.url.path}")
        return httpx.Response(200, json={})

    reader = ConnectReader(
        "lab", ("http://worker:8083",), 1.0, transport=httpx.MockTransport(answer)
    )
    for ask in (
        reader.root,
        reader.connectors,
        reader.connector_names,
        reader.connector_infos,
        reader.plugins,
    ):
        ask()
    of_one = (
        reader.connector,
        reader.status,
        reader.connector_config,
        reader.tasks,
        reader.offsets,
    )
    for ask_of in of_one:
        ask_of("{c}")
    return {text.replace("%7Bc%7D", "{c}") for text in names}


STEPS: tuple[AnyStep, ...] = (
    *(ToState(state) for state in RequestedState),
    Restart(include_tasks=True, only_failed=True),
    Alter((PartitionOffset("{}", "{}"),)),
    Reset(),
    Create(config_sha256=""),
    Delete(),
)


def write_requests() -> set[str]:
    """What a step of a plan may ask for."""
    request = [build_step_request("{c}", step) for step in STEPS]
    return {f"{item.method} {item.path.split('?')[0]}" for item in request if item is not None}


def test_every_request_to_connect_is_on_the_page_and_no_other():
    request = read_requests() | {text.replace("%7Bc%7D", "{c}") for text in write_requests()}
    names = set(re.findall(r"`((?:GET|PUT|POST|PATCH|DELETE) /[^`]*)`", PAGE))
    assert names == request


def test_every_question_of_the_reader_was_queried():
    public = {name for name in vars(ConnectReader) if not name.startswith("_")}
    covered = {"root", "connectors", "plugins", "status", "connector_config", "tasks", "offsets"}
    covered |= {"connector_names", "connector_infos", "connector"}
    assert public - {"close"} == covered
