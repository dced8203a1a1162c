"""`offsetwatch decode` in this process: its lines, its exit codes."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from offsetwatch.cli import cli

GOLDEN = Path(__file__).parents[3] / "golden"
KEY = b'["c",{"filename":"/in"}]'


def decode(text: str, *options: str, role: str = "connect_offsets") -> Result:
    return CliRunner().invoke(cli, ["decode", "--topic-role", role, *options, "-"], input=text)


def record(key: bytes | None, value: bytes | None, **more: object) -> str:
    texts = {"key": key and key.hex(), "value": None if value is None else value.hex()}
    return json.dumps({**more, **texts}) + "\n"


def lines(result: Result) -> list[dict]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_each_record_gives_one_line_and_keeps_its_other_fields() -> None:
    result = decode(record(KEY, b'{"position":5}', topic="t", partition=3) + record(KEY, None))
    assert result.exit_code == 0
    first, second = lines(result)
    assert (first["topic"], first["partition"]) == ("t", 3)
    assert first["observation"]["source_offset"] == {"position": 5}
    assert second["observation"]["value"] == "tombstone"


def test_an_undecodable_record_gives_its_reason_and_exit_code_1() -> None:
    result = decode(record(b"junk", b"{}", offset=7) + record(KEY, b"{}"))
    assert result.exit_code == 1
    assert lines(result)[0] == {"offset": 7, "undecodable": "key_not_json"}
    assert "observation" in lines(result)[1]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not a JSON map"),
        ("7", "not a JSON map"),
        ('{"key":null}', 'no "value"'),
        ('{"value":null}', 'no "key"'),
        ('{"key":7,"value":null}', 'no "key"'),
        ('{"key":"!","value":null}', '"key" is not base64'),
        ('{"key":null,"value":"\u00e9"}', '"value" is not base64'),
    ],
)
def test_a_line_that_is_no_record_is_named_and_exit_code_2(line: str, reason: str) -> None:
    result = decode("\n" + record(b"junk", None) + line + "\n" + record(KEY, None))
    assert result.exit_code == 2
    assert result.stderr.startswith("line 3: ")
    assert reason in result.stderr
    assert len(lines(result)) == 2


def test_base64_is_taken_where_a_key_or_a_value_is_no_hex() -> None:
    texts = [base64.b64encode(raw).decode() for raw in (KEY, b'{"position":5}')]
    line = json.dumps({"key": texts[0], "value": texts[1]})
    assert lines(decode(line))[0]["observation"]["source_offset"] == {"position": 5}
    assert lines(decode(line, "--encoding", "base64"))[0]["observation"]["source_offset"] == {
        "position": 5
    }
    refused = decode(line, "--encoding", "hex")
    assert refused.exit_code == 2
    assert '"key" is not hex' in refused.stderr
    # "e30=" is no hex, "e3e3" would be, and is not read as hex beside a key that is none.
    result = decode(json.dumps({"key": texts[0], "value": "e3e3"}))
    assert lines(result) == [{"undecodable": "value_not_json"}]


@pytest.mark.parametrize(
    ("role", "name", "count"),
    [
        ("connect_offsets", "east.connect-offsets", 46),
        ("offset_syncs", "west.mm2-offset-syncs.east.internal", 86),
        ("checkpoints", "east.west.checkpoints.internal", 2),
        ("heartbeats", "east.heartbeats", 16),
        ("status", "east.connect-status", 148),
    ],
)
def test_a_json_array_of_records_is_read_too(role: str, name: str, count: int) -> None:
    result = CliRunner().invoke(cli, ["decode", "--topic-role", role, str(GOLDEN / f"{name}.json")])
    assert (result.exit_code, len(lines(result))) == (0, count)


def test_a_record_of_an_array_is_named_by_its_number() -> None:
    result = decode("[" + record(KEY, None) + ", 7]")
    assert (result.exit_code, result.stderr) == (2, "record 2: not a JSON map\n")
    assert decode("[{").stderr == "line 1: not a JSON map\n"


def test_nothing_to_decode_is_no_mistake() -> None:
    assert decode("").exit_code == 0


def test_an_unknown_role_or_a_missing_file_is_a_usage_error() -> None:
    assert decode("", role="secrets").exit_code == 2
    missing = CliRunner().invoke(cli, ["decode", "--topic-role", "status", "/no/such/file"])
    assert missing.exit_code == 2


def test_exceptions_that_have_no_effect_are_a_mistake(tmp_path: Path) -> None:
    file = tmp_path / "offsetwatch.yaml"
    text = (
        'kafka: {k: {bootstrap: "127.0.0.1:1"}}\n'
        'connect: [{name: c, kafka: k, url: "http://127.0.0.1:1"}]\n'
        "remedy: {sink_data_errors: {a.B: [%s]}}\n"
    )
    file.write_text(text % "com.example.BadRow")
    assert CliRunner().invoke(cli, ["check", "--config", str(file)]).exit_code == 0
    file.write_text(text % "java.sql.SQLException")
    refused = CliRunner().invoke(cli, ["check", "--config", str(file)])
    assert refused.exit_code != 0
    assert "java.sql.SQLException has no effect" in refused.stderr + str(refused.exception)
