"""Commands in an odd environment: no HOME, folders that cannot be read, few characters."""

from __future__ import annotations

import errno
import io
import json
import sys
from pathlib import Path

import pytest
import yaml

import offsetwatch.cli
from offsetwatch.cli.common import output
from offsetwatch.cli.offsets import execute
from offsetwatch.errors import ConfigError, HistoryError
from offsetwatch.history.spark.jars import cache_directory

NAMES = ["jörg", "注文", "\N{GRINNING FACE}"]


def ended(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    """The exit code of a command."""
    monkeypatch.setattr(sys, "argv", ["offsetwatch", *arguments])
    with pytest.raises(SystemExit) as error:
        offsetwatch.cli.main()
    return error.value.code


def written_to(monkeypatch: pytest.MonkeyPatch, encoding: str) -> io.BytesIO:
    """Standard output in another encoding from now on."""
    bytes_io = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(bytes_io, encoding=encoding))
    output.escape_unencodable_output()
    return bytes_io


every_encoding = pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])


@every_encoding
def test_json_is_the_same_in_every_locale(monkeypatch: pytest.MonkeyPatch, encoding: str):
    written = written_to(monkeypatch, encoding)
    output.print_json({"names": NAMES, "offset": 2**70})
    sys.stdout.flush()
    assert json.loads(written.getvalue().decode()) == {"names": NAMES, "offset": 2**70}


@every_encoding
def test_yaml_is_the_same_in_every_locale(monkeypatch: pytest.MonkeyPatch, encoding: str):
    written = written_to(monkeypatch, encoding)
    output.print_document(output.OutputFormat.YAML, {"names": NAMES})
    sys.stdout.flush()
    assert yaml.safe_load(written.getvalue().decode()) == {"names": NAMES}


@every_encoding
def test_a_table_is_printed_in_every_locale(monkeypatch: pytest.MonkeyPatch, encoding: str):
    written = written_to(monkeypatch, encoding)
    output.print_table("names", ("name",), [(name,) for name in NAMES])
    sys.stdout.flush()
    assert b"names" in written.getvalue()


def test_a_command_escapes_what_its_locale_does_not_have(monkeypatch: pytest.MonkeyPatch):
    bytes_io = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(bytes_io, encoding="ascii"))

    def name(**_: object) -> int:
        sys.stdout.write("注文")
        return 0

    monkeypatch.setattr(offsetwatch.cli, "cli", name)
    assert ended(monkeypatch) == 0
    sys.stdout.flush()
    assert bytes_io.getvalue() == b"\\u6ce8\\u6587"


@pytest.mark.parametrize(
    ("error", "code", "answer"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "/x/y"), 2, "/x/y: Permission denied"),
        (OSError(errno.ENAMETOOLONG, "File name too long", "/x"), 2, "/x: File name too long"),
        (OSError(errno.ENOSPC, "No space left on device"), 2, "cannot write: No space left"),
        (OSError(errno.EBADF, "Bad file descriptor"), 70, "this is a bug"),
        (OSError("x"), 70, "this is a bug"),
    ],
)
def test_what_is_wrong_with_this_machine_is_no_bug(
    error: OSError,
    code: int,
    answer: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(offsetwatch.cli, "cli", fail)
    assert ended(monkeypatch) == code
    assert answer in capsys.readouterr().err


def test_a_folder_of_a_user_that_cannot_be_looked_into_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("HOME", "/" + "x" * 5000)
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    assert ended(monkeypatch, "discover", "--strimzi", "kafka") == 2
    assert "File name too long" in capsys.readouterr().err


def test_a_user_without_a_home_is_told_what_to_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "OFFSETWATCH_CACHE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match="--state-dir"):
        execute.find_state_folder(None, None)
    with pytest.raises(HistoryError, match="OFFSETWATCH_CACHE"):
        cache_directory()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert execute.find_state_folder(None, None) == tmp_path / "offsetwatch" == cache_directory()
