"""What a wrong use prints: the parameters of the command, then the mistake (KIP-199)."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from offsetwatch.cli import cli, main


def run_main(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    monkeypatch.setattr(sys, "argv", ["offsetwatch", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


@pytest.mark.parametrize(
    ("arguments", "parameter", "mistake"),
    [
        (("offsets", "export"), "--from-beginning", "say where: --connect"),
        (("offsets", "import", "--nope"), "--offsets", "No such option"),
        (("status", "--timeout", "5x"), "--timeout", '"5x" is not a duration: write 30s'),
        (("connectors", "restart"), "--only-failed", "Missing argument 'NAME'"),
        (
            ("explain", "orders"),
            "--url",
            "another host: --url http://host:9640, or OFFSETWATCH_URL",
        ),
        (("nope",), "doctor", "No such command 'nope'"),
        (
            ("offsets", "reset", "--flow", "a->b", "--to-offset", "x"),
            "--to-offset",
            "'x' is not a valid whole number",
        ),
    ],
)
def test_the_parameters_come_first_and_the_mistake_last(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    parameter: str,
    mistake: str,
) -> None:
    assert run_main(monkeypatch, *arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("Usage: ")
    assert parameter in printed.err
    assert mistake in printed.err.splitlines()[-1]


@pytest.mark.parametrize("arguments", [("--version",), ("offsets", "--help"), ("metrics",)])
def test_a_right_use_ends_with_0(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
) -> None:
    assert run_main(monkeypatch, *arguments) in {0, None}
    assert capsys.readouterr().err == ""


def test_a_reader_that_has_enough_is_no_bug() -> None:
    command = "sys.argv = ['offsetwatch', 'metrics']; main()"
    code = f"import sys; from offsetwatch.cli import main; {command}"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as ran:
        assert ran.stdout is not None
        assert ran.stderr is not None
        ran.stdout.close()
        assert ran.stderr.read() == b""


def test_a_group_knows_the_first_sentence_of_each_command():
    for group in (cli, *(item for item in cli.commands.values() if isinstance(item, click.Group))):
        context = click.Context(group)
        for name, command in group.commands.items():
            known = group.get_command(context, name)
            assert known is not None
            assert known.get_short_help_str(1000) == command.get_short_help_str(1000), name


def test_help_and_completion_of_names_load_no_command():
    code = (
        "import sys; from click.testing import CliRunner; from offsetwatch.cli import cli\n"
        "names = {'_OFFSETWATCH_COMPLETE': 'zsh_complete', 'COMP_WORDS': 'offsetwatch plan ', "
        "'COMP_CWORD': '2'}\n"
        "for arguments, env in ((['--help'], {}), (['plan', '--help'], {}), ([], names)):\n"
        "    done = CliRunner().invoke(cli, arguments, env=env, prog_name='offsetwatch')\n"
        "    assert 'how it ended' in done.output or 'List all plans' in done.output\n"
        "print(sorted(name for name in sys.modules if name in {'pydantic', 'httpx', 'rich'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
