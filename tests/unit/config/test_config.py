"""The configuration file: what it may say, and what is said of every mistake in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from offsetwatch.config import load, parse
from offsetwatch.errors import ConfigError

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
