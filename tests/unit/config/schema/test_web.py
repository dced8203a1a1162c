"""A web config file: every mistake in it at once, each with the file and the key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from offsetwatch.config import load
from offsetwatch.config.schema import web
from offsetwatch.errors import ConfigError

HASH = "$2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG"
TLS = {"cert_file": "cert.pem", "key_file": "key.pem"}
CA = {"client_ca_file": "ca.pem"}
MAIN: dict[str, Any] = {
    "kafka": {"east": {"bootstrap": "127.0.0.1:19092"}},
    "connect": [{"name": "lab", "kafka": "east", "url": "http://127.0.0.1:18083"}],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("cert.pem", "key.pem", "ca.pem"):
        (tmp_path / name).write_text("PEM")
    return tmp_path


def mistakes(folder: Path, document: object) -> list[str]:
    file = folder / "web.yaml"
    file.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    with pytest.raises(ConfigError) as caught:
        web.load_web_config(file)
    assert all(mistake.startswith("web.yaml: ") for mistake in caught.value.mistakes)
    return [mistake.removeprefix("web.yaml: ") for mistake in caught.value.mistakes]


def tls(**more: Any) -> dict[str, Any]:
    return {"tls_server_config": {**TLS, **more}}


def headers(**more: str) -> dict[str, Any]:
    return {"http_server_config": {"headers": {k.replace("_", "-"): v for k, v in more.items()}}}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("", ["cannot be used: it is empty"]),
        ("# nothing\n", ["expected a mapping at the top level"]),
        ({"basic_auth": {}}, ['basic_auth: unknown key, did you mean "basic_auth_users"?']),
        (
            {"rate_limit": {"burst": 1}},
            [
                (
                    "rate_limit: unknown key (known: tls_server_config, http_server_config, "
                    "basic_auth_users)"
                )
            ],
        ),
        (
            {"tls_server_config": {}},
            [f"tls_server_config.{key}: required, and not given" for key in TLS],
        ),
        (
            tls(min_version="TLS11"),
            ["tls_server_config.min_version: expected TLS12 or TLS13"],
        ),
        (
            tls(min_version="TLS13", max_version="TLS12"),
            ["tls_server_config.min_version: is newer than max_version"],
        ),
        (
            tls(max_version="TLS12", cipher_suites=["TLS_AES_128_GCM_SHA256"]),
            ["tls_server_config.cipher_suites: names none that max_version TLS12 has"],
        ),
        (
            tls(client_auth_type="RequireAndVerifyClientCert"),
            [
                (
                    "tls_server_config.client_ca_file: required with RequireAndVerifyClientCert, "
                    "as what is shown is verified here"
                )
            ],
        ),
        (
            tls(**CA),
            [
                (
                    "tls_server_config.client_ca_file: of no use without a client_auth_type that "
                    "verifies"
                )
            ],
        ),
        (
            tls(**CA, client_auth_type="VerifyClientCertIfGiven", client_allowed_sans=["a"]),
            [
                (
                    "tls_server_config.client_allowed_sans: needs client_auth_type: "
                    "RequireAndVerifyClientCert"
                )
            ],
        ),
        (
            headers(X_Frame_Options="all"),
            ["http_server_config.headers.X-Frame-Options: expected deny or sameorigin"],
        ),
        (
            headers(X_Frame_Option="deny"),
            [
                (
                    "http_server_config.headers.X-Frame-Option: unknown key, did you mean "
                    '"X-Frame-Options"?'
                )
            ],
        ),
        (
            {"basic_auth_users": {"a": HASH, "b": "s3cret"}},
            ["basic_auth_users (number 2): expected a bcrypt hash, as $2y$10$ and 53 characters"],
        ),
        (
            {"basic_auth_users": {"a": HASH.replace("$10$", "$17$")}},
            [
                (
                    "basic_auth_users (number 1): the cost of a hash is from 4 to 16, as each "
                    "check takes that long"
                )
            ],
        ),
    ],
)
def test_a_mistake_has_its_exact_message(folder: Path, document: object, expected: list[str]):
    assert mistakes(folder, document) == expected


def test_all_mistakes_are_reported_at_once_with_those_of_the_configuration(folder: Path):
    (folder / "web.yaml").write_text(
        yaml.safe_dump({**tls(key_file="none.pem"), "basic_auth_users": {"a": "s3cret"}})
    )
    file = folder / "offsetwatch.yaml"
    file.write_text(yaml.safe_dump({**MAIN, "tick_s": 0, "web_config_file": "web.yaml"}))
    with pytest.raises(ConfigError) as caught:
        load(file, {})
    assert [mistake.removeprefix("offsetwatch.yaml: ") for mistake in caught.value.mistakes] == [
        "tick_s: 0s is less than 50ms",
        (
            "web_config_file: web.yaml: tls_server_config.key_file: cannot be read: No such file "
            "or directory"
        ),
        (
            "web_config_file: web.yaml: basic_auth_users (number 1): expected a bcrypt hash, as "
            "$2y$10$ and 53 characters"
        ),
    ]


@pytest.mark.parametrize("secret", [HASH, "s3cret"])
def test_no_message_repeats_a_user_a_password_or_a_hash(folder: Path, secret: str):
    for document in (
        {"basic_auth_users": {secret: "no hash"}},
        {"basic_auth_users": {"ada": f"{secret}x"}},
        {"basic_auth_users": [secret]},
        {"basic_auth_users": secret},
        {"basic_auth_users": {f"a:{secret}": HASH}},
        f"basic_auth_users: {{ada: '{secret}\n",
        f"basic_auth_users:\n  ada: {secret}\n tls: [",
    ):
        assert secret not in "".join(mistakes(folder, document))


@pytest.mark.parametrize(
    ("users", "control", "expected"),
    [
        (True, {"users": [{"name": "a", "role": "viewer", "user": "a"}]}, []),
        (
            True,
            {"users": [{"name": "a", "role": "viewer", "user": "b"}]},
            ["control.users[0].user: has no password under basic_auth_users"],
        ),
        (
            True,
            {
                "listen": "0.0.0.0:9641",
                "users": [{"name": "a", "role": "viewer", "user": "a"}],
                "clients": [{"name": "c", "role": "viewer", "san": "dns:c"}],
            },
            [
                (
                    "control.web_config_file: tls_server_config is required to listen on anything "
                    "but loopback"
                ),
                (
                    "control.web_config_file: verifies no certificates, so "
                    "control.clients cannot authenticate"
                ),
            ],
        ),
        (
            False,
            {"users": [{"name": "a", "role": "viewer", "user": "a"}]},
            ["control.users: control.web_config_file is required: it has the passwords"],
        ),
    ],
    ids=["fine", "no password", "no TLS", "no file"],
)
def test_what_the_control_listener_makes_of_one(
    folder: Path, users: bool, control: dict[str, Any], expected: list[str]
):
    (folder / "web.yaml").write_text(yaml.safe_dump({"basic_auth_users": {"a": HASH}}))
    named = {"web_config_file": "web.yaml"} if users else {}
    file = folder / "offsetwatch.yaml"
    file.write_text(yaml.safe_dump({**MAIN, "control": {**control, **named}}))
    results: tuple[str, ...] = ()
    try:
        load(file, {})
    except ConfigError as exc:
        results = exc.mistakes
    assert [name.removeprefix("offsetwatch.yaml: ") for name in results] == expected


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({"auth": {"bearer_token": "s3cret"}}, "knows no tokens"),
        ({"auth": {"username": "a"}}, "password or password_file is required"),
        ({"tls": {"key_file": "key.pem"}}, "of no use without cert_file"),
    ],
)
def test_who_we_are_ourselves_is_a_user_or_a_certificate(
    folder: Path, own: dict[str, Any], expected: str
):
    (folder / "web.yaml").write_text(yaml.safe_dump({"basic_auth_users": {"a": HASH}}))
    file = folder / "offsetwatch.yaml"
    file.write_text(yaml.safe_dump({**MAIN, "web_config_file": "web.yaml", "own_access": own}))
    with pytest.raises(ConfigError, match=expected) as caught:
        load(file, {})
    assert "s3cret" not in str(caught.value)
