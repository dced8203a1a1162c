"""The configuration file: what it may say, and what is said of every mistake in it."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from offsetwatch.config import load, parse
from offsetwatch.config.load import PATH_PROPERTIES
from offsetwatch.errors import ConfigError
from offsetwatch.yaml_file import parse_yaml
from tests.unit.config.schema.test_root import folder, iterate_paths, whole

BAD = sorted((Path(__file__).parent / "bad").glob("*.yaml"))
SECRET = "hunter2"
SMALLEST = """
kafka:
  east: {bootstrap: "127.0.0.1:19092"}
  west: {bootstrap: "127.0.0.1:29192"}
connect:
  - {name: lab, kafka: east, url: "http://127.0.0.1:18083"}
listen: "127.0.0.1:9640"
"""


def mistakes(path: Path) -> list[str]:
    """Every mistake in a file, without the file's name."""
    with pytest.raises(ConfigError) as caught:
        load(path, {})
    names = (f"{path}: ", f"{path.name}: ")
    return [
        mistake.removeprefix(names[0]).removeprefix(names[1]) for mistake in caught.value.mistakes
    ]


def document(**changes) -> dict:
    return {
        "kafka": {"east": {"bootstrap": "127.0.0.1:19092"}},
        "connect": [{"name": "lab", "kafka": "east", "url": "http://127.0.0.1:18083"}],
        **changes,
    }


def test_the_smallest_useful_file_works(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(SMALLEST)
    config = load(path, {})
    assert config.kafka["west"].addresses == {"127.0.0.1:29192"}
    assert config.connect[0].offsets_topic is None
    assert config.listen == "127.0.0.1:9640"


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_every_mistake_has_its_exact_message(path):
    comments = [line for line in path.read_text().splitlines() if line.startswith("# ")]
    assert mistakes(path) == [line.removeprefix("# ") for line in comments]


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_no_message_repeats_a_secret(path):
    assert SECRET not in "".join(mistakes(path))


def test_every_message_names_its_file(tmp_path):
    path = tmp_path / "prod.yaml"
    path.write_text("zzz: 1")
    with pytest.raises(ConfigError) as caught:
        load(path, {})
    assert len(caught.value.mistakes) == 2
    assert all(mistake.startswith("prod.yaml: ") for mistake in caught.value.mistakes)


def test_a_file_that_is_not_there_is_a_mistake(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path / "missing.yaml", {})


def test_a_file_that_is_no_text_is_a_mistake(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_bytes(b"kafka: \xff\xfe")
    with pytest.raises(ConfigError, match="cannot be read"):
        load(path, {})
    path.write_bytes(b"kafka: \x00")
    with pytest.raises(ConfigError, match="line 1: a character that YAML does not allow"):
        load(path, {})


def test_the_environment_fills_in_strings_and_nothing_else():
    sasl = {"security.protocol": "SASL_SSL", "sasl.password": "${PASSWORD}"}
    secret = {**sasl, "client.id": "${USER}-${USER}", "plain": "$PASSWORD"}
    kafka = {"east": {"bootstrap": "${HOST}:9092", "properties": secret}}
    config = parse(document(kafka=kafka), {"PASSWORD": "a${USER}", "USER": "me", "HOST": "broker"})
    assert config.kafka["east"].client_properties() == {
        "bootstrap.servers": "broker:9092",
        "security.protocol": "SASL_SSL",
        "sasl.password": "a${USER}",  # what was filled in is not looked into again
        "client.id": "me-me",
        "plain": "$PASSWORD",
    }


def test_without_another_the_environment_is_that_of_the_process(tmp_path, monkeypatch):
    monkeypatch.setenv("BROKER", "broker:9092")
    path = tmp_path / "config.yaml"
    path.write_text(SMALLEST.replace("127.0.0.1:29192", "${BROKER}"))
    assert load(path).kafka["west"].bootstrap == "broker:9092"


def test_a_secret_is_in_the_clients_properties_and_in_no_picture_of_the_configuration():
    sasl = {"security.protocol": "SASL_SSL", "sasl.password": SECRET}
    kafka = {"east": {"bootstrap": "a:1", "properties": {**sasl, "b": "${SECRET}"}}}
    config = parse(document(kafka=kafka), {"SECRET": SECRET})
    assert config.kafka["east"].client_properties()["b"] == SECRET
    assert SECRET not in repr(config)
    assert SECRET not in str(config)


def test_a_secret_beside_a_mistake_is_in_no_message():
    sasl = {"security.protocol": "SASL_SSL", "sasl.password": [SECRET]}
    kafka = {"east": {"bootstrap": SECRET, "properties": {**sasl, "x": SECRET}}}
    with pytest.raises(ConfigError) as caught:
        parse(document(kafka=kafka, tick_s=SECRET, listen=SECRET), {})
    assert len(caught.value.mistakes) == 4
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_properties_cannot_replace_the_bootstrap_servers():
    config = parse(document(), {})
    assert config.kafka["east"].client_properties() == {"bootstrap.servers": "127.0.0.1:19092"}


def test_several_addresses_are_several():
    kafka = {"east": {"bootstrap": "a:1,b:2"}}
    assert parse(document(kafka=kafka), {}).kafka["east"].addresses == {"a:1", "b:2"}


def test_whole_numbers_are_numbers_of_seconds():
    assert parse(document(tick_s=2), {}).tick_s == 2.0


def test_a_configuration_does_not_change():
    with pytest.raises(ValueError, match="frozen"):
        parse(document(), {}).tick_s = 5.0


def unfolding(line: str) -> str:
    """Each line nine times the one before."""
    begun = "a0: &a0 {x: 1}\n"
    return begun + "".join(
        f"a{n}: &a{n} {line.format(', '.join([f'*a{n - 1}'] * 9))}\n" for n in range(1, 8)
    )


KIND = "a value is not of its kind"
UNFOLDS = "it refers to its own parts, or to others so often that it unfolds without an end"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("a: !!int x", f"line 1, column 4: {KIND}"),
        ("a: !!int ''", f"line 1, column 4: {KIND}"),
        ("a: !!bool x", f"line 1, column 4: {KIND}"),
        ("a: !!timestamp x", f"line 1, column 4: {KIND}"),
        ("a: 0x_", f"line 1, column 4: {KIND}"),
        ("a: 2001-99-99", f"line 1, column 4: {KIND}"),
        ("a: " + "9" * 5_000, f"line 1, column 4: {KIND}"),
        ("!!map x", f"line 1, column 1: {KIND}"),
        ("a: !!set [b]", f"line 1, column 4: {KIND}"),
        ('a: "\\UFFFFFFFF"', "an escape is no character"),
        ('a: "\\U00110000"', "an escape is no character"),
        ("[" * 5_000, "line 1, column 51: it is nested too deep"),
        ("- " * 900, "it is nested too deep"),
        ("kafka: &a {east: *a}", UNFOLDS),
        ("a: &a [[*a]]", UNFOLDS),
        (unfolding("[{}]"), UNFOLDS),
        (unfolding("{{<<: [{}]}}"), UNFOLDS),
    ],
    ids=lambda text: text[:20],
)
def test_what_yaml_stumbles_over_is_a_mistake_like_any_other(tmp_path, text, answer):
    path = tmp_path / "config.yaml"
    path.write_text(text)
    assert mistakes(path) == [f"not YAML: {answer}"]


def test_what_is_merged_is_not_given_twice(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("""
kafka:
  east: &east {bootstrap: "127.0.0.1:19092", properties: {client.id: a}}
  west: &west {<<: *east, bootstrap: "127.0.0.1:29192"}
  north: {<<: *west, bootstrap: "127.0.0.1:39192"}
connect:
  - {name: lab, kafka: east, url: "http://127.0.0.1:18083"}
""")
    config = load(path, {})
    assert config.kafka["north"].addresses == {"127.0.0.1:39192"}
    assert config.kafka["north"].properties == {"client.id": "a"}


# --- paths ---------------------------------------------------------------------------------------

PATHS = """\
kafka:
  k:
    bootstrap: "a:1"
    properties:
      {security.protocol: SSL, ssl.ca.location: ca.pem, https.ca.location: probe, client.id: ca.pem}
connect: [{name: lab, kafka: k, url: "http://a:1", worker_logs: [connect.log, /var/log/c.log]}]
state_dir: ../state
history: {path: tables}
remedy: {kill_switch: STOP}
"""


def _paths(path: Path) -> dict[str, Any]:
    config = load(path)
    return {
        "state_dir": config.state_dir,
        "history": config.history.path,
        "kill_switch": config.remedy.kill_switch,
        "worker_logs": config.connect[0].worker_logs,
        "properties": config.kafka["k"].properties,
    }


@pytest.mark.parametrize("named", ["whole", "from its folder", "from beside it", "by a link"])
def test_paths_are_the_same_from_everywhere(tmp_path, monkeypatch, named):
    home, elsewhere = tmp_path / "etc", tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    path = home / "offsetwatch.yaml"
    path.write_text(PATHS)
    cwd, name = {
        "whole": (elsewhere, path),
        "from its folder": (home, Path(path.name)),
        "from beside it": (elsewhere, Path("../etc") / path.name),
        "by a link": (tmp_path, Path("link") / path.name),
    }[named]
    (tmp_path / "link").symlink_to(home)
    monkeypatch.chdir(cwd)
    assert _paths(name) == {
        "state_dir": str(tmp_path / "state"),
        "history": str(home / "tables"),
        "kill_switch": str(home / "STOP"),
        "worker_logs": [str(home / "connect.log"), "/var/log/c.log"],
        "properties": {
            "security.protocol": "SSL",
            "ssl.ca.location": str(home / "ca.pem"),
            "https.ca.location": "probe",
            "client.id": "ca.pem",
        },
    }


def test_defaults_are_beside_the_file_too(tmp_path):
    connect = {"connect": [{"name": "lab", "url": "http://a:1"}]}
    config = parse(connect, {}, folder=tmp_path)
    assert (config.state_dir, config.history.path) == (
        str(tmp_path / "state"),
        str(tmp_path / "history"),
    )


@pytest.mark.parametrize("name", sorted(PATH_PROPERTIES))
def test_every_path_that_librdkafka_takes_is_relative_to_the_file(name, tmp_path):
    tls = {"security.protocol": "SSL", "ssl.key.location": "/key"}
    kafka = {"k": {"bootstrap": "a:1", "properties": {**tls, name: "secrets/x"}}}
    connect = [{"name": "lab", "kafka": "k", "url": "http://a:1"}]
    config = parse({"kafka": kafka, "connect": connect}, {}, folder=tmp_path)
    assert config.kafka["k"].properties == {**tls, name: str(tmp_path / "secrets/x")}


# --- words ---------------------------------------------------------------------------------------

__all__ = ["folder"]

LIBRARIES = re.compile(
    r"[Ii]nput should|instance of|dictionary|after validation|valid (string|integer|boolean)|"
    r"[Ee]xtra inputs|validation|field required|pattern '|\^\S*\$|\\[sdwx]|"
    r"token\b(?! file)|scalar|\bnode\b|<[a-z ]+>|\bstream\b|codec|what is there|Errno|"
    r"\bNone\b|NoneType|class '|object at|__",
)
WRONG = (
    None,
    True,
    7,
    -1,
    1.5,
    "",
    "x y",
    "a" * 5_000,
    ["x"],
    [],
    {"x": "y"},
    {},
    date(2026, 1, 1),
)
# What a configuration says of tokens of clients, and placeholders of ours.
OURS = re.compile(r"control\.tokens|token_(file|sha256)|bearer_token|a token|the token|same token")


def messages(folder: Path, document: Any) -> tuple[str, ...]:
    try:
        parse(document, {}, folder=folder)
    except ConfigError as exc:
        return exc.mistakes
    return ()


@pytest.mark.parametrize(
    "location", list(iterate_paths(whole())), ids=lambda item: ".".join(map(str, item))
)
def test_no_message_is_in_the_words_of_a_library(folder: Path, location: tuple[Any, ...]):
    for wrong in WRONG:
        document = whole()
        inner = document
        for key in location[:-1]:
            inner = inner[key]
        inner[location[-1]] = wrong
        for message in messages(folder, document):
            assert not LIBRARIES.search(OURS.sub("", message)), message


def test_a_key_that_is_missing_or_misspelt_is_one_mistake(folder: Path):
    document = whole()
    address = document["kafka"]["east"].pop("bootstrap")
    missing = "config: kafka.east.bootstrap: required, and not given"
    assert messages(folder, document)[0] == missing
    document["kafka"]["east"]["bootstrap_server"] = address
    misspelt = 'config: kafka.east.bootstrap_server: unknown key, did you mean "bootstrap"?'
    assert misspelt in messages(folder, document)
    assert missing not in messages(folder, document)


# Two sections have every kind of node; each text is parsed in Python, a millisecond for 10 lines.
TEXT = yaml.safe_dump({name: whole()[name] for name in ("connect", "kafka")})
SIGNS = "\t@`%&*!|>'\"{}[],:?-#\\ \x00\n<"


def broken() -> list[str]:
    """The file with one character put in or left out, at places spread over it."""
    step = 24
    cut = [TEXT[:number] + TEXT[number + 1 :] for number in range(0, len(TEXT), step)]
    put = [
        TEXT[:offset] + SIGNS[number % len(SIGNS)] + TEXT[offset:]
        for number, offset in enumerate(range(0, len(TEXT), step // 3))
    ]
    begun = [f"a: {sign}\n" for sign in SIGNS] + [f"a: {sign}b c\n" for sign in SIGNS]
    return [*cut, *put, *begun, *(f"a: [b{sign}\nc: d" for sign in SIGNS)]


@pytest.mark.parametrize("text", ["a: {\n", "a: [\n", "a: {b: 1\n", "a: [1\n"])
def test_a_bracket_that_is_not_closed_is_named(text):
    with pytest.raises(ConfigError, match="before this is not closed"):
        parse_yaml(text, "f")


def test_what_is_no_yaml_is_described_without_the_words_of_its_parser():
    result = 0
    for text in broken():
        try:
            parse_yaml(text, "f")
        except ConfigError as exc:
            (message,) = exc.mistakes
            result += 1
            assert message.startswith("f: not YAML: ")
            assert not LIBRARIES.search(message), (message, text)
    assert result > 50
