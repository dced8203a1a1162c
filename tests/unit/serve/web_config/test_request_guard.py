"""The read listener with a web config file: TLS, certificates, passwords, headers."""

from __future__ import annotations

import contextlib
import ssl

import pytest
from structlog.testing import capture_logs

from lab.cluster.certificates import Authority
from offsetwatch.errors import ConfigError
from offsetwatch.serve.web_config.passwords import FAILURES_MAX
from tests.unit.serve.web_config.listeners import (
    ADA,
    HASH,
    OTHER_HASH,
    PASSWORD,
    WebListener,
    basic,
    request,
    status,
)
from tests.waiting import until

PATHS = ("/", "/metrics", "/-/healthy", "/-/ready", "/api/v1/findings", "/nowhere")


# --- TLS ------------------------------------------------------------------------------------------


def test_with_tls_plain_http_is_closed_and_nothing_is_said(listener: WebListener):
    with listener.serving(listener.tls()) as server:
        assert status(listener.get()) == 200
        assert b"HTTP" not in listener.plain()
        # Counted by its thread, which may be a moment behind what we see on the wire.
        until(lambda: server._refused["handshake"] == 1, "it is counted")


def test_older_versions_than_the_least_one_are_not_spoken(listener: WebListener):
    with listener.serving(listener.tls(min_version="TLS13")):
        old = listener.trusting()
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        assert listener.get(context=old) == b""
        assert status(listener.get()) == 200


def test_where_only_ciphers_of_tls_1_3_are_named_tls_1_2_is_not_spoken(listener: WebListener):
    with listener.serving(listener.tls(cipher_suites=["TLS_AES_128_GCM_SHA256"])):
        old = listener.trusting()
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        assert listener.get(context=old) == b""
        assert status(listener.get()) == 200


def test_the_ciphers_and_the_curve_that_are_named_are_the_only_ones(listener: WebListener):
    named = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"
    with listener.serving(listener.tls(cipher_suites=[named], curve_preferences=["CurveP384"])):
        old = listener.trusting()
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with listener.connect(context=old) as connection:
            assert connection.cipher()[0] == "ECDHE-ECDSA-CHACHA20-POLY1305"
        old.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
        assert listener.get(context=old) == b""
        other = listener.trusting()
        other.set_ecdh_curve("prime256v1")
        assert listener.get(context=other) == b""


# --- certificates ---------------------------------------------------------------------------------


def test_without_a_certificate_or_with_one_of_others_there_is_no_connection(listener: WebListener):
    with listener.serving(listener.mutual()):
        assert listener.get() == b""
        assert (
            listener.get(certificate=Authority(listener.folder / "other").issue("stranger")) == b""
        )
        assert listener.get(certificate=listener.authority.issue_expired("expired")) == b""
        assert status(listener.get(certificate=listener.authority.issue("client"))) == 200


def test_a_certificate_that_is_demanded_is_verified_whatever_the_type_is_called(
    listener: WebListener,
):
    demanded = {
        "client_auth_type": "RequireAnyClientCert",
        "client_ca_file": str(listener.authority.ca),
    }
    with capture_logs() as events, listener.serving(listener.tls(**demanded)):
        assert listener.get() == b""
        assert (
            listener.get(certificate=Authority(listener.folder / "other").issue("stranger")) == b""
        )
        assert status(listener.get(certificate=listener.authority.issue("client"))) == 200
    assert [event["event"] for event in events].count("web_config_in_part") == 1


def test_a_certificate_that_may_be_shown_is_verified_if_it_is(listener: WebListener):
    inputs = {
        "client_auth_type": "VerifyClientCertIfGiven",
        "client_ca_file": str(listener.authority.ca),
    }
    with listener.serving(listener.tls(**inputs)):
        assert status(listener.get()) == 200
        assert (
            listener.get(certificate=Authority(listener.folder / "other").issue("stranger")) == b""
        )
        assert status(listener.get(certificate=listener.authority.issue("client"))) == 200


@pytest.mark.parametrize(
    ("san", "allowed"),
    [
        ("DNS:scraper.example.com", "scraper.example.com"),
        ("IP:192.0.2.7", "192.0.2.7"),
        ("IP:2001:db8::7", "2001:db8::7"),
        ("IP:2001:db8::8", "2001:DB8:0::8"),
        ("URI:spiffe://example.com/scraper", "spiffe://example.com/scraper"),
        ("email:scraper@example.com", "scraper@example.com"),
    ],
)
def test_a_name_that_is_allowed_is_let_in_and_no_other(
    listener: WebListener, san: str, allowed: str
):
    with listener.serving(
        listener.mutual(client_allowed_sans=["first.example.com", allowed])
    ) as server:
        assert status(listener.get(certificate=listener.authority.issue("right", names=san))) == 200
        wrong = listener.authority.issue(
            allowed.replace("/", ""), names="DNS:x.scraper.example.com"
        )
        assert listener.get(certificate=wrong) == b""
        until(lambda: server._refused["certificate"] == 1, "it is counted")


def test_a_name_that_is_taken_away_ends_connections_that_are_open(listener: WebListener):
    names = {"client_allowed_sans": ["a.example.com", "b.example.com"]}
    with listener.serving(listener.mutual(**names)):
        certificate = listener.authority.issue("a", names="DNS:a.example.com")
        with listener.connect(certificate) as connection:
            connection.sendall(b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")
            listener.write(listener.mutual(client_allowed_sans=["b.example.com"]))
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                assert request(connection, "/metrics", "") == b""


# --- passwords ------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PATHS)
def test_no_path_is_open_without_a_password(listener: WebListener, path: str):
    with listener.serving(ADA):
        answer = listener.plain(path)
        assert status(answer) == 401
        assert b"www-authenticate: basic realm=" in answer.lower()
        assert status(listener.plain(path, basic())) == (404 if path == "/nowhere" else 200)


@pytest.mark.parametrize(
    "head",
    [
        basic(password="wrong"),
        basic(user="nobody"),
        basic(user="ADA"),
        basic(password=""),
        "Authorization: Bearer s3cret\r\n",
        "Authorization: Basic !!!\r\n",
        "Authorization: Basic YWRh\r\n",
        basic() + basic(),
        "Authorization: Basic " + "A" * 7000 + "\r\n",
    ],
    ids=[
        "wrong",
        "unknown user",
        "other case",
        "empty",
        "token",
        "not base64",
        "no colon",
        "twice",
        "long",
    ],
)
def test_what_is_no_password_is_refused_and_said_without_it(listener: WebListener, head: str):
    with capture_logs() as events, listener.serving(ADA) as server:
        assert status(listener.plain("/metrics", head)) == 401
        assert server._refused["unauthorised"] == 1
    assert [event["address"] for event in events if event["event"] == "read_unauthorised"] == [
        "127.0.0.1"
    ]


def test_passwords_and_certificates_are_both_requested(listener: WebListener):
    with listener.serving(listener.mutual(), ADA):
        certificate = listener.authority.issue("client")
        assert listener.get(head=basic()) == b""
        assert status(listener.get(certificate=certificate)) == 401
        assert status(listener.get(head=basic(), certificate=certificate)) == 200


def test_after_ten_wrong_ones_no_more_are_inspected_but_who_was_right_goes_on(
    listener: WebListener,
):
    with capture_logs() as events, listener.serving(ADA) as server:
        assert status(listener.plain("/metrics", basic())) == 200
        wrong = [
            status(listener.plain("/metrics", basic(password=f"s3cret{number}")))
            for number in range(FAILURES_MAX + 2)
        ]
        assert wrong == [401] * FAILURES_MAX + [429] * 2
        assert status(listener.plain("/metrics", basic())) == 200
        text = listener.plain("/metrics", basic()).decode()
        assert 'offsetwatch_read_refused_total{reason="throttled"} 2' in text
        assert 'offsetwatch_read_refused_total{reason="unauthorised"} 10' in text
        assert server._refused["throttled"] == 2
    # Whoever floods us does not fill the log.
    assert [event["event"] for event in events].count("read_unauthorised") == FAILURES_MAX


def test_a_user_that_is_taken_away_is_refused_on_a_connection_that_is_open(listener: WebListener):
    both = {"basic_auth_users": {"ada": HASH, "bob": OTHER_HASH}}
    with listener.serving(listener.tls(), both), listener.connect() as connection:
        head = f"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n{basic()}\r\n".encode()
        connection.sendall(head)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        listener.write(listener.tls(), {"basic_auth_users": {"bob": OTHER_HASH}})
        connection.sendall(head)
        assert connection.recv(65536).startswith(b"HTTP/1.1 401")


def test_a_password_that_was_changed_is_not_remembered(listener: WebListener):
    with listener.serving(ADA):
        assert status(listener.plain(head=basic())) == 200
        listener.write({"basic_auth_users": {"ada": OTHER_HASH}})
        assert status(listener.plain(head=basic())) == 401
        assert status(listener.plain(head=basic(password="s3cret-of-bob"))) == 200


# --- headers --------------------------------------------------------------------------------------


def test_headers_are_on_every_answer_and_blank_ones_on_none(listener: WebListener):
    headers = {"X-Frame-Options": "deny", "X-XSS-Protection": "", "Content-Security-Policy": "a"}
    with listener.serving(ADA, {"http_server_config": {"headers": headers}}):
        for answer in (
            listener.plain("/"),
            listener.plain("/nowhere", basic()),
            listener.plain("/metrics", basic()),
        ):
            assert b"\r\nX-Frame-Options: deny\r\n" in answer
            assert b"\r\nContent-Security-Policy: a\r\n" in answer
            assert b"X-XSS-Protection" not in answer


# --- secrets --------------------------------------------------------------------------------------


def test_no_password_and_no_hash_is_in_a_log_or_in_an_answer(
    listener: WebListener, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(0)
    with capture_logs() as events, listener.serving(listener.tls(), ADA):
        observed = [
            listener.get("/metrics", basic()),
            listener.get("/", basic()),
            listener.get("/metrics", basic(password=f"{PASSWORD}x")),
            listener.get("/metrics", f"Authorization: Basic {PASSWORD}\x01\r\n"),
            listener.get("/metrics", f"{PASSWORD}\r\n"),
        ]
        listener.file.write_text(f"basic_auth_users: {{{HASH}: {PASSWORD}, ada: '{HASH}'}}\nx: [")
        observed.append(listener.get("/metrics", basic()))
        listener.write(listener.tls(), {"basic_auth_users": {HASH: PASSWORD}, PASSWORD: HASH})
        observed.append(listener.get("/metrics", basic()))
    assert [status(content) for content in observed[:2]] == [200, 200]
    logged = f"{events}{caplog.text}"
    assert logged.count("web_config_unusable") >= 2
    encoded = basic().split()[-1]
    answers = b"".join(answer for answer in observed if status(answer) != 400).decode(
        errors="replace"
    )
    for secret in (HASH, HASH[7:], encoded):
        assert secret not in logged
        assert secret not in answers
    assert PASSWORD not in answers


def test_a_file_that_cannot_be_used_is_a_mistake_before_anything_listens(listener: WebListener):
    other = Authority(listener.folder / "other").issue("other")
    with (
        pytest.raises(ConfigError, match=r"web\.yaml: tls_server_config\.cert_file or key_file"),
        listener.serving(listener.tls(key_file=str(other.key))),
    ):
        pytest.fail("it was started")
