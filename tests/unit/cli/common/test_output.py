import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import click
import msgspec
import pytest
import yaml
from click.testing import CliRunner

from offsetwatch.cli import cli
from offsetwatch.cli.common import output
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.errors import NoReadableCluster


def test_square_brackets_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table(
        "Offsets", ("partition", "n#"), [("filename=/data/[red]in.txt", 1), (None, 2)]
    )
    printed = capsys.readouterr().out
    assert "filename=/data/[red]in.txt" in printed
    assert printed.splitlines()[-1].split() == ["-", "2"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, None),
        (0.0, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (61.0, "1 min 1 s"),
        (3599.7, "1 h 0 min"),
        (90_061.0, "1 d 1 h"),
    ],
)
def test_an_age_is_reported_in_its_two_largest_units(
    seconds: float | None, text: str | None
) -> None:
    assert output.format_age(seconds) == text


def test_what_others_wrote_does_not_move_the_cursor(capsys):
    output.print_error("a\x1b[2Jb\u202ec\r\nd \u00e9")
    assert capsys.readouterr().err == "a\\x1b[2Jb\\u202ec\\r\nd \u00e9\n"
    output.print_table("T", ("a",), [("x\x1b]0;y\x07",)])
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize("name", ["a[/b]", "[red]", "[link=http://h]x", "x\x1b]0;y\x07", "\u202ex"])
def test_a_name_in_a_heading_is_text_too(name: str, capsys: pytest.CaptureFixture[str]):
    output.print_table(f"Plans of {name}", ("a",), [("x",)])
    assert (
        capsys.readouterr().out.splitlines()[0].rstrip()
        == f"Plans of {output.escape_controls(name)}"
    )


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, columns, rows) -> str:
    """A table as a pseudo-terminal gets it."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    reader, writer = os.openpty()
    try:
        with os.fdopen(writer, "w") as terminal, monkeypatch.context() as stdout:
            stdout.setattr(sys, "stdout", terminal)
            output.print_table("T", columns, rows)
            terminal.flush()
            return os.read(reader, 65_536).decode()
    finally:
        os.close(reader)


@pytest.mark.parametrize(
    ("column", "text", "code"),
    [
        ("state", "FAILED", "1;31"),
        ("state", "FAILED (stalled)", "1;31"),
        ("verdict", "stalled", "31"),
        ("verdict", "ok", "32"),
        ("severity", "warning", "33"),
    ],
)
def test_a_condition_has_a_colour_on_a_terminal(monkeypatch, column, text, code):
    printed = on_a_terminal(monkeypatch, ("connector", column), [(text, text)])
    assert printed.count(f"\x1b[{code}m{text}") == 1  # a connector of that name has none


def test_a_condition_has_no_colour_in_a_file(capsys):
    output.print_table("T", ("state",), [("FAILED",)])
    assert "\x1b" not in capsys.readouterr().out


def test_a_table_without_rows_is_one_line(capsys):
    output.print_table("Failover", ("flow", "group"), ())
    assert capsys.readouterr().out == "Failover: none\n"


def test_a_table_without_names_of_columns_has_no_line_for_them(capsys):
    output.print_table("lab/c", ("", ""), [("up", True), ("paused", False)])
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["lab/c"],
        ["up", "yes"],
        ["paused", "no"],
    ]


def test_an_error_of_the_operating_system_is_printed_as_that_and_not_as_pythons(capsys):
    error = FileNotFoundError(2, "No such file or directory", "/var/x")
    output.print_error(f"the backup cannot be read: {error}")
    output.print_error("unreachable: http://h:1: [Errno 111] Connection refused")
    assert capsys.readouterr().err.splitlines() == [
        "the backup cannot be read: No such file or directory: /var/x",
        "unreachable: http://h:1: Connection refused",
    ]


def test_clusters_of_which_none_could_be_read_have_a_line_each(capsys):
    lines = ("not read: Kafka cluster a", "not read: Kafka cluster b")
    output.print_client_error(NoReadableCluster(lines, "offsetwatch doctor --config a.yaml"))
    first, second, last = capsys.readouterr().err.splitlines()
    assert (first, second) == ("not read: Kafka cluster a", "not read: Kafka cluster b")
    assert last.startswith("no connector could be read: `offsetwatch doctor --config a.yaml`")


def test_yaml_has_the_content_of_json_with_its_numbers_as_they_were(capsys):
    raw = msgspec.Raw(b'{"big":12345678901234567890123,"exact":1.10,"far":1e400}')
    value = {"raw": raw, "texts": ["yes", "1.5", "a\x1b[2J", None], "none": ()}
    output.print_document(OutputFormat.YAML, value)
    printed = capsys.readouterr().out
    assert "exact: 1.10\n" in printed
    assert "\x1b" not in printed
    result = yaml.safe_load(printed)
    assert result["texts"] == value["texts"]
    assert result["none"] == []
    assert result["raw"]["big"] == 12345678901234567890123


def verbs(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, result in group.commands.items():
        if isinstance(result, click.Group):
            yield from verbs(result, (*path, name))
        else:
            yield (*path, name), result


def test_every_verb_with_json_has_the_one_option_of_formats():
    results = {" ".join(path): [param.opts for param in verb.params] for path, verb in verbs(cli)}
    formatted = {name for name, options in results.items() if ["-o"] in options}
    assert {"status", "plan list", "metrics", "history audit", "doctor"} <= formatted
    assert {name for name, options in results.items() if ["--json"] in options} == formatted


@pytest.mark.parametrize("inputs", [("--json",), ("-o", "json"), ("--json", "-o", "json")])
def test_json_is_short_for_the_format(inputs):
    printed = CliRunner().invoke(cli, ["metrics", *inputs]).stdout
    of_yaml = CliRunner().invoke(cli, ["metrics", "-o", "yaml"]).stdout
    assert json.loads(printed) == yaml.safe_load(of_yaml)
    assert len(json.loads(printed)) > 10


def test_a_table_is_the_default_and_two_formats_are_a_mistake():
    assert CliRunner().invoke(cli, ["metrics"]).stdout.startswith("Metrics")
    done = CliRunner().invoke(cli, ["metrics", "--json", "-o", "yaml"])
    assert done.exit_code == 2
    assert "--json is -o json" in done.stderr
