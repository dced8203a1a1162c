"""`check` makes what the daemon would make of certificates and keys, so that what cannot be used is
found before anything starts.
"""

from __future__ import annotations

import errno
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

import offsetwatch.cli
from lab.cluster.certificates import Authority
from offsetwatch.cli import cli, main
from offsetwatch.cli.common import options, output
from offsetwatch.cli.offsets import execute
from offsetwatch.cli.plans.options import service_options
from offsetwatch.cli.plans.service_access import (
    ServiceAccess,
    build_service_access,
)
from offsetwatch.errors import ConfigError, HistoryError
from offsetwatch.history.spark.jars import cache_directory
from tests.unit.remedy.services import ServiceBench

ROOT = Path(__file__).parents[3]
CONFIG = """\
kafka:
  east: {{bootstrap: "127.0.0.1:1", properties: {{security.protocol: SSL, {kafka}}}}}
connect:
  - {{name: lab, kafka: east, url: "https://127.0.0.1:1", tls: {{{connect}}}}}
"""
PAIR = "connect[0].tls.cert_file, key_file or key_password: cannot be used: "
NO_PAIR = (
    f"{PAIR}one has no PEM of its kind (certificate and key exchanged?), or the key's password is "
    "missing or wrong"
)
NO_KEY = "the file has no private key in PEM, or ssl.key.password is missing or wrong"
AT = "kafka.east.properties.ssl"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority(folder)
    for name in ("one", "two"):
        issued = authority.issue(name)
        (folder / f"{name}.pem").write_text(issued.cert.read_text())
        (folder / f"{name}-key.pem").write_text(issued.key.read_text())
    (folder / "ca.pem").write_text(authority.ca.read_text())
    return folder


def check(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, kafka: str = "", connect: str = ""
) -> int | str | None:
    path = folder / "offsetwatch.yaml"
    path.write_text(CONFIG.format(kafka=kafka, connect=connect))
    monkeypatch.setattr(sys, "argv", ["offsetwatch", "check", "--config", str(path)])
    try:
        main()
    except SystemExit as ended:
        return ended.code
    return 0


def test_files_that_fit_each_other_are_right(folder, monkeypatch, capsys):
    files = "ca_file: ca.pem, cert_file: one.pem, key_file: one-key.pem"
    of_kafka = "ssl.ca.location: ca.pem, ssl.certificate.location: one.pem"
    code = check(
        folder, monkeypatch, connect=files, kafka=f"{of_kafka}, ssl.key.location: one-key.pem"
    )
    assert code in {0, None}, capsys.readouterr().err
    assert "ok: 1 Kafka and 1 Connect cluster," in capsys.readouterr().out


@pytest.mark.parametrize(
    ("connect", "answer"),
    [
        ("cert_file: one-key.pem, key_file: one.pem", NO_PAIR),
        ("cert_file: one.pem", NO_PAIR),
        (
            "cert_file: one.pem, key_file: two-key.pem",
            f"{PAIR}the key does not belong to the certificate",
        ),
        (
            "ca_file: one-key.pem",
            "connect[0].tls.ca_file: cannot be used: it has no certificate in PEM",
        ),
    ],
)
def test_files_for_connect_that_do_not_fit_are_mistakes(
    folder, monkeypatch, capsys, connect, answer
):
    assert check(folder, monkeypatch, connect=connect) == 2
    assert capsys.readouterr().err == f"offsetwatch.yaml: {answer}\n"


@pytest.mark.parametrize(
    ("kafka", "answer"),
    [
        (
            "ssl.certificate.location: one.pem, ssl.key.location: two-key.pem",
            [f"{AT}.key.location: the key does not belong to the certificate"],
        ),
        (
            "ssl.certificate.location: one-key.pem, ssl.key.location: one.pem",
            [
                f"{AT}.certificate.location: the file has no certificate in PEM",
                f"{AT}.key.location: {NO_KEY}",
            ],
        ),
        (
            "ssl.ca.location: one-key.pem",
            [f"{AT}.ca.location: the file has no certificate in PEM"],
        ),
    ],
)
def test_files_for_kafka_that_do_not_fit_are_mistakes(folder, monkeypatch, capsys, kafka, answer):
    assert check(folder, monkeypatch, kafka=kafka) == 2
    assert capsys.readouterr().err.splitlines() == [f"offsetwatch.yaml: {line}" for line in answer]


# --- environment ---------------------------------------------------------------------------------

TOKEN = "0123456789abcdef" * 2


@click.command()
@service_options
@click.pass_context
def reach(context: click.Context, **where: object) -> None:
    """Print nothing; hand over what the options come to."""
    context.obj.append(build_service_access(**where))


def reached(*arguments: str, env: dict[str, str] | None = None) -> ServiceAccess:
    results: list[ServiceAccess] = []
    done = CliRunner().invoke(reach, arguments, env=env or {}, obj=results)
    assert done.exit_code == 0, done.output
    return results[0]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "etc" / "offsetwatch.yaml"
    path.parent.mkdir()
    path.write_text('connect: [{name: lab, url: "http://127.0.0.1:1"}]\nremedy: {mode: propose}\n')
    return path


@pytest.mark.parametrize("how", ["-c", "--config", "environment", "default"])
def test_the_configuration_is_found(config, monkeypatch, how):
    monkeypatch.setattr(options, "CONFIG_DEFAULT", config if how == "default" else config / "none")
    typed = [how, str(config)] if how.startswith("-") else []
    env = {"OFFSETWATCH_CONFIG": str(config)} if how == "environment" else {}
    done = CliRunner().invoke(cli, ["check", *typed], env=env)
    assert (done.exit_code, "offsetwatch.yaml: ok" in done.output) == (0, True)


def test_without_any_the_three_ways_are_named(tmp_path, monkeypatch):
    default = str(options.CONFIG_DEFAULT)
    monkeypatch.setattr(options, "CONFIG_DEFAULT", tmp_path / "none")
    done = CliRunner().invoke(cli, ["check"])
    assert done.exit_code == 2
    for way in ("-c", "OFFSETWATCH_CONFIG", default):
        assert way in done.output


def test_state_is_the_same_from_every_folder(config, tmp_path, monkeypatch):
    """Plans were looked for in the folder of whoever asked, and `pause` found no daemon."""
    bureau = ServiceBench(config.parent / "state")
    bureau.proposed()
    for folder in (config.parent, tmp_path, Path("/")):
        monkeypatch.chdir(folder)
        done = CliRunner().invoke(cli, ["plan", "list", "-c", str(config)])
        assert (done.exit_code, "p1" in done.stdout) == (0, True)
        pause = ["pause", "--indefinitely", "--because", "stop", "-c", str(config)]
        assert CliRunner().invoke(cli, pause).exit_code == 0
    assert bureau.office.switches().pause is not None


def test_a_folder_that_no_daemon_used_is_named(config, monkeypatch):
    monkeypatch.chdir(config.parent)
    done = CliRunner().invoke(cli, ["plan", "list", "-c", config.name])
    assert isinstance(done.exception, ConfigError)
    assert str(config.parent / "state") in str(done.exception)


def test_the_daemon_and_the_token_of_the_environment(tmp_path):
    url = {"OFFSETWATCH_CONTROL_URL": "https://watch:9641"}
    result = reached(env={**url, "OFFSETWATCH_TOKEN": TOKEN})
    assert (result.listener.url, result.listener.token) == ("https://watch:9641", TOKEN)
    assert TOKEN not in repr(result)
    file = tmp_path / "token"
    assert reached(env={**url, "OFFSETWATCH_TOKEN_FILE": str(file)}).listener.token_file == file
    typed = reached("--token-file", str(file), env={**url, "OFFSETWATCH_TOKEN": TOKEN})
    assert (typed.listener.token, typed.listener.token_file) == (None, file)


def test_what_is_typed_goes_before_the_environment(config):
    env = {"OFFSETWATCH_CONTROL_URL": "https://watch:9641", "OFFSETWATCH_CONFIG": "/nowhere"}
    assert reached("-c", str(config), env=env).listener is None
    assert reached("--state-dir", str(config.parent), env=env).listener is None
    assert reached(env=env).listener.url == "https://watch:9641"
    assert reached("--url", "https://other:1", env=env).listener.url == "https://other:1"


def test_a_token_file_of_the_environment_is_no_mistake_without_a_daemon_elsewhere(config):
    env = {"OFFSETWATCH_TOKEN_FILE": "/nowhere"}
    assert reached("-c", str(config), env=env).listener is None


def test_a_workers_own_file_goes_without_the_configuration_of_the_environment(tmp_path):
    worker = tmp_path / "worker.properties"
    worker.write_text("offset.storage.file.filename=/nowhere\n")
    env = {"OFFSETWATCH_CONFIG": str(tmp_path / "none.yaml")}
    done = CliRunner().invoke(cli, ["offsets", "list", "--worker-config", str(worker)], env=env)
    assert "none.yaml" not in f"{done.output}{done.exception}"


def test_without_connect_the_connect_clusters_of_the_file_are_named(tmp_path):
    path = tmp_path / "offsetwatch.yaml"
    path.write_text(
        'kafka: {k: {bootstrap: "127.0.0.1:1"}}\n'
        "connect:\n"
        '  - {name: lab, kafka: k, url: "http://127.0.0.1:1"}\n'
        '  - {name: prod, kafka: k, url: "http://127.0.0.1:2"}\n'
    )
    for verb in (("export",), ("next", "c"), ("reset", "c"), ("rewind", "c", "--to", "1h ago")):
        done = CliRunner().invoke(cli, ["offsets", *verb, "-c", str(path)])
        assert isinstance(done.exception, ConfigError)
        assert done.exception.mistakes == ("--connect: name the Connect cluster, of: lab, prod",)


# --- usage ---------------------------------------------------------------------------------------


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


SLOW = "aiohttp confluent_kafka deltalake httpx pyarrow pydantic pyspark rich structlog yaml"


def test_help_and_completion_of_names_import_nothing_slow():
    code = (
        "import sys; import click; from click.testing import CliRunner\n"
        "from offsetwatch.cli import cli\n"
        "def paths(group, path=()):\n"
        "    yield list(path)\n"
        "    for name, command in group.commands.items():\n"
        "        if isinstance(command, click.Group):\n"
        "            yield from paths(command, (*path, name))\n"
        "        else:\n"
        "            yield [*path, name]\n"
        "names = {'_OFFSETWATCH_COMPLETE': 'zsh_complete', 'COMP_WORDS': 'offsetwatch plan ', "
        "'COMP_CWORD': '2'}\n"
        "done = CliRunner().invoke(cli, [], env=names, prog_name='offsetwatch')\n"
        "assert 'List all plans' in done.output\n"
        "count = 0\n"
        "for path in paths(cli):\n"
        "    done = CliRunner().invoke(cli, [*path, '--help'])\n"
        "    assert done.exit_code == 0 and 'Usage: ' in done.output, path\n"
        f"    slow = set(sys.modules) & set('{SLOW}'.split())\n"
        "    assert not slow, (path, slow)\n"
        "    count += 1\n"
        "print(count > 50)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_every_declared_command_has_its_function():
    for path in (ROOT / "exporter").rglob("commands.py"):
        for target in re.findall(r'@(?:calls|reads)\(\s*"([^"]+)"', path.read_text()):
            module, _, name = target.partition(":")
            file = ROOT / "exporter/offsetwatch/cli" / f"{module.replace('.', '/')}.py"
            assert f"\ndef {name}(" in file.read_text(), target


# --- this machine --------------------------------------------------------------------------------

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


def test_a_folder_of_a_user_that_cannot_be_inspected_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("HOME", "/" + "x" * 5000)
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    assert ended(monkeypatch, "discover", "--strimzi", "kafka") == 2
    assert "File name too long" in capsys.readouterr().err


def test_a_user_without_a_home_is_advised_what_to_name(
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
