"""What a configuration becomes: patterns, files, hooks, flows; and that its secrets stay in it."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml

from offsetwatch.config import Config, Patterns, parse
from offsetwatch.errors import ConfigError

HERE = Path(__file__).parents[1]
TOKEN_FILE = "secret-token-of-the-one-who-is-on-call"
FILES = (
    "secret-property",
    "secret-token",
    "secret-basic",
    "secret-key",
    "secret-hook",
    "secret-dsn",
    "secret-database",
    TOKEN_FILE,
)
SECRET = "s3cret"  # in each of them, and in each secret that stands in the file itself

WEB = """
tls_server_config:
  cert_file: cert.pem
  key_file: key.pem
  client_auth_type: VerifyClientCertIfGiven
  client_ca_file: ca.pem
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / name).write_text(f"{SECRET}-of-{name}\n")
    (tmp_path / "secret-dsn").write_text(f"postgresql://watcher:{SECRET}@db-1/shop\n")
    (tmp_path / TOKEN_FILE).chmod(0o600)
    worker = f"key.converter=a.B\nvalue.converter=a.B\nvalue.converter.x={SECRET}\n"
    (tmp_path / "worker.properties").write_text(worker)
    (tmp_path / "web-control.yaml").write_text(WEB)
    for name in ("ca.pem", "cert.pem", "key.pem"):
        (tmp_path / name).write_text("PEM")
    return tmp_path


WHOLE = yaml.load((HERE / "whole.yaml").read_text(), yaml.CSafeLoader)


def whole() -> Any:
    return deepcopy(WHOLE)


def read(folder: Path, document: object = None) -> Config:
    return parse(whole() if document is None else document, {}, folder=folder)


def patterns(**lists: list[str]) -> Patterns:
    return Patterns.model_validate(lists)


def test_files_are_searched_for_beside_the_configuration(folder: Path):
    connect = {cluster.name: cluster for cluster in read(folder).connect}
    assert connect["bearer-file"].auth.bearer_token_file == folder / "secret-token"
    assert connect["basic"].tls.ca_file == folder / "ca.pem"


@pytest.mark.parametrize(
    ("bootstrap", "expected", "addresses"),
    [
        ("[::1]:9092", "[::1]:9092", {"[::1]:9092"}),
        ("[2001:DB8::1]:9092", "[2001:DB8::1]:9092", {"[2001:db8::1]:9092"}),
        ("b-1:9092, b-2:9092 ,\tb-3:9092", "b-1:9092,b-2:9092,b-3:9092", None),
        (" b-1:9092 ", "b-1:9092", None),
    ],
)
def test_bootstrap_servers_may_be_of_ipv6_and_have_blanks_between_them(
    folder: Path, bootstrap: str, expected: str, addresses: set[str] | None
):
    document = whole()
    document["kafka"]["east"]["bootstrap"] = bootstrap
    kafka = read(folder, document).kafka["east"]
    assert kafka.client_properties()["bootstrap.servers"] == expected
    assert kafka.addresses == (set(expected.split(",")) if addresses is None else addresses)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("HTTP://host:8083", "http://host:8083"),
        ("Https://[::1]:8083/connect", "https://[::1]:8083/connect"),
        ("http://[2001:db8::1]", "http://[2001:db8::1]"),
        ("http://host/a@b", "http://host/a@b"),
    ],
)
def test_an_address_of_a_worker_may_be_of_ipv6_and_its_scheme_in_any_case(
    folder: Path, url: str, expected: str
):
    document = whole()
    connect = document["connect"][0]
    connect.pop("urls", None)
    connect.pop("tls")  # it is of no use with http
    connect["url"] = url
    assert read(folder, document).connect[0].url == expected


@pytest.mark.parametrize("listen", ["[::1]:9640", "[::]:9640", "0.0.0.0:9640", "localhost:9640"])
def test_the_daemon_may_listen_on_either_protocol(folder: Path, listen: str):
    document = whole()
    document["listen"] = listen
    assert read(folder, document).listen == listen


def test_an_address_of_a_webhook_may_have_a_query(folder: Path):
    document = whole()
    document["notify"]["webhooks"][0] = {"name": "w", "url": "https://h/?token=t"}
    assert read(folder, document).notify.webhooks[0].url == "https://h/?token=t"


def test_an_alias_of_a_flow_may_be_empty(folder: Path):
    document = whole()
    document["flows"][0]["source"] = ""
    assert read(folder, document).flows[0].source == ""


def test_a_property_from_a_file_is_the_files_text_without_its_last_newline(folder: Path):
    (folder / "secret-property").write_text(" two\nlines \r\n")
    result = read(folder).kafka["east"].client_properties()
    assert result["sasl.password"] == " two\nlines "
    assert "sasl.password_file" not in result


def test_a_hook_is_what_librdkafka_will_call(folder: Path):
    hook = read(folder).kafka["east"].client_properties()["oauth_cb"]
    assert hook("x") == ("token for x", 2_000_000_000.0)
    assert "oauth_cb" not in read(folder).kafka["west"].client_properties()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "it is empty"),
        (b"\n", "it is empty"),
        (b"\xff\xfe", "it is not UTF-8"),
        (b"x" * (1024 * 1024 + 1), "it is larger than 1 MiB"),
    ],
)
def test_a_file_that_can_be_no_secret_is_a_mistake(folder: Path, content, problem):
    for name in ("secret-property", "secret-token"):
        (folder / name).write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read(folder)
    assert caught.value.mistakes == (
        f"config: kafka.east.properties.sasl.password_file: cannot be used: {problem}",
        f"config: connect[2].auth.bearer_token_file: cannot be used: {problem}",
    )


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o602], ids=oct)
def test_a_token_file_that_others_can_read_or_write_is_a_mistake(folder: Path, mode):
    (folder / TOKEN_FILE).chmod(mode)
    with pytest.raises(ConfigError) as caught:
        read(folder)
    problem = "others may read or write it; chmod 600 is what it needs"
    assert caught.value.mistakes == (
        f"config: control.tokens[0].token_file: cannot be used: {problem}",
    )


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("s3cret", "a token has 32 printable characters or more"),
        ("s3cret" * 6 + "\n\n", "a token has 32 printable characters or more"),
        ("s3cret" * 6 + "\x00", "a token has 32 printable characters or more"),
        ("s3crét" * 6, "a token has 32 printable characters or more"),
        (" s3cret" * 6, "a token has no spaces"),
        ("\n".join(f"{n}{'s3cret' * 6}" for n in range(3)), "it has more than 2 lines"),
    ],
)
def test_a_token_that_is_weak_or_that_no_header_can_carry_is_a_mistake(folder, content, problem):
    (folder / TOKEN_FILE).write_text(content)
    with pytest.raises(ConfigError) as caught:
        read(folder)
    assert caught.value.mistakes == (
        f"config: control.tokens[0].token_file: cannot be used: {problem}",
    )


def test_a_token_is_of_one_name_wherever_it_stands(folder: Path):
    token = (folder / TOKEN_FILE).read_text().rstrip("\n")
    document = whole()
    document["control"]["tokens"][1]["token_sha256"] = sha256(token.encode()).hexdigest()
    with pytest.raises(ConfigError) as caught:
        read(folder, document)
    assert caught.value.mistakes == (
        "config: control.tokens[1]: has the same token as control.tokens[0]",
    )


def test_an_expiry_is_the_same_with_and_without_quotes(folder: Path):
    document = whole()
    plain = read(folder).control.tokens[1].expires
    document["control"]["tokens"][1]["expires"] = "2030-01-31T02:00:00+02:00"
    assert read(folder, document).control.tokens[1].expires == plain


@pytest.mark.parametrize("listen", ["127.0.0.1:1", "[::1]:1", "localhost:1", "127.9.9.9:1"])
def test_loopback_needs_no_tls(folder: Path, listen):
    document = whole()
    document["control"].update(listen=listen, clients=[])
    del document["control"]["web_config_file"]
    assert read(folder, document).control.listen == listen


def test_exclude_wins_and_an_empty_include_is_everything():
    expected = patterns(include=["a.*", "b"], exclude=["a-test"])
    assert [name for name in ("a", "ab", "b", "a-test", "c") if expected.allows(name)] == [
        "a",
        "ab",
        "b",
    ]
    assert patterns().allows("anything")
    assert not patterns(exclude=[".*"]).allows("anything")


def test_a_pattern_matches_a_whole_name_or_not_at_all():
    assert not patterns(include=["b|c"]).allows("ab")
    assert not patterns(include=["b|c"]).allows("bc")
    assert not patterns(include=["a"]).allows("a\n")
    assert patterns(exclude=["b"]).allows("bb")


def test_workers_are_one_several_or_none(folder: Path):
    assert {
        cluster.name: cluster.worker_urls
        for cluster in read(folder).connect
        if cluster.name[:2] != "ba"
    } == {
        "bearer": ("https://w1:8083", "https://w2:8083"),
        "bearer-file": ("http://w:1",),
        "mm2": (),
    }


def test_a_flow_is_run_by_the_connect_cluster_it_names_or_by_the_only_one_that_can(folder: Path):
    document = whole()
    del document["flows"][0]["connect"]
    for config in (read(folder), read(folder, document)):
        assert config.connect_of(config.flows[0]) == "mm2"


def test_no_picture_of_a_configuration_shows_a_secret(folder: Path):
    config = read(folder)
    pictures = [repr(config), str(config), f"{config.connect} {config.kafka}"]
    pictures.append(f"{config.control} {config.control.tokens} {config.control.web_config_file!r}")
    servers = (*config.connect, *config.notify.alertmanagers, *config.notify.webhooks)
    pictures += [
        repr(server) + repr(server.auth) + repr(server.tls) + str(server.auth) for server in servers
    ]
    assert SECRET not in "".join(pictures)


def iterate_paths(value: Any, path: tuple = ()) -> Iterator[tuple]:
    """The path to everything in a document but the document itself."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield (*path, key)
        if isinstance(item, dict | list):
            yield from iterate_paths(item, (*path, key))


@pytest.mark.parametrize("wrong", [None, "x", 7, ["x"], {"x": "y"}], ids=repr)
@pytest.mark.parametrize(
    "location", list(iterate_paths(whole())), ids=lambda item: ".".join(map(str, item))
)
def test_whatever_is_wrong_beside_a_secret_no_message_shows_it(folder: Path, location, wrong):
    document = deepcopy(whole())
    at = document
    for key in location[:-1]:
        at = at[key]
    at[location[-1]] = wrong
    try:
        config = read(folder, document)
    except ConfigError as exc:
        text = f"{exc} {exc!r} {exc.mistakes} {exc.__cause__} {exc.__context__}"
    else:
        text = f"{config} {config!r}"
    assert SECRET not in text


SECRETS = [
    ("kafka", "east", "properties", "sasl.password_file"),
    ("kafka", "west", "properties", "sasl.password"),
    ("connect", 0, "auth", "password"),
    ("connect", 0, "tls", "key_password"),
    ("connect", 0, "tls", "key_file"),
    ("connect", 1, "auth", "bearer_token"),
    ("connect", 2, "auth", "bearer_token_file"),
    ("connect", 3, "auth", "password_file"),
    ("connect", 3, "auth", "username"),
    ("connect", 1, "urls", 0),
    ("notify", "alertmanagers", 0, "auth", "bearer_token"),
    ("notify", "webhooks", 0, "url"),
    ("notify", "webhooks", 1, "url_file"),
    ("control", "web_config_file"),
    ("control", "tokens", 0, "token_file"),
    ("control", "tokens", 1, "token_sha256"),
    ("control", "tokens", 1, "expires"),
    ("control", "clients", 0, "san"),
    ("kafka", "east", "bootstrap"),
    ("listen",),
]


@pytest.mark.parametrize("location", SECRETS, ids=lambda item: ".".join(map(str, item)))
@pytest.mark.parametrize("wrong", [SECRET, [SECRET], {"a": SECRET}, f"http://u:{SECRET}@w:1"])
def test_a_secret_in_the_wrong_place_is_not_repeated(folder: Path, location, wrong):
    document = whole()
    at = document
    for key in location[:-1]:
        at = at[key]
    at[location[-1]] = wrong
    try:
        text = repr(read(folder, document).connect[0])
    except ConfigError as exc:
        text = f"{exc} {exc!r}"
    assert SECRET not in text
