"""A web config file that changes while a listener uses it."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from lab.cluster.certificates import Authority
from offsetwatch.serve.web_config.reloader import WebConfigReloader

from .listeners import ADA, OTHER_HASH, WebListener, basic, status

Change = Callable[[WebListener], object]


def served(cluster: WebListener) -> bytes:
    """The certificate that is shown now."""
    with cluster.connect() as connection:
        result = connection.getpeercert(binary_form=True)
    assert result is not None
    return result


def der(path: Path) -> bytes:
    return ssl.PEM_cert_to_DER_cert(path.read_text())


def test_a_renewed_certificate_is_shown_to_the_next_connection(listener: WebListener):
    with listener.serving(listener.tls()) as server:
        assert served(listener) == der(listener.own.cert)
        new = listener.authority.issue("renewed")
        listener.own.cert.write_bytes(new.cert.read_bytes())  # without its key: half of the change
        with capture_logs() as events:
            assert served(listener) != der(new.cert)
        assert [event["event"] for event in events] == ["web_config_unusable"]
        assert events[0]["log_level"] == "error"
        listener.own.key.write_bytes(new.key.read_bytes())
        assert served(listener) == der(new.cert)
        assert server._web.status.successful
        assert server._web.status.failures == 1


def test_another_authority_counts_from_the_next_connection_on(listener: WebListener):
    other = Authority(listener.folder / "other")
    theirs = other.issue("theirs")
    with listener.serving(listener.mutual()):
        own = listener.authority.issue("mine")
        assert status(listener.get(certificate=own)) == 200
        assert listener.get(certificate=theirs) == b""
        listener.write(listener.mutual() | {"http_server_config": {"http2": False}})
        (listener.folder / "ca" / "new.pem").write_bytes(other.ca.read_bytes())
        changed = listener.mutual()
        changed["tls_server_config"]["client_ca_file"] = str(listener.folder / "ca" / "new.pem")
        listener.write(changed)
        assert status(listener.get(certificate=theirs)) == 200
        assert listener.get(certificate=own) == b""


def _text(text: str) -> Change:
    return lambda cluster: cluster.file.write_text(text)


def _parts(*parts: str, **more: Any) -> Change:
    """All that protects but what is left out."""

    def change(cluster: WebListener) -> None:
        whole = {"tls": cluster.mutual(**more), "plain tls": cluster.tls(), "users": ADA}
        cluster.write(*(whole[part] for part in parts))

    return change


BAD: dict[str, Change] = {
    "empty": _text(""),
    "no YAML": _text("basic_auth_users: ["),
    "not a mapping": _text("- 1\n"),
    "unknown key": _text("basic_auth: {}\n"),
    "no hash": _text("basic_auth_users: {ada: s3cret}\n"),
    "gone": lambda cluster: cluster.file.unlink(),
    "without TLS": _parts("users"),
    "without passwords": _parts("tls"),
    "without certificates": _parts("plain tls", "users"),
    "without names": _parts("tls", "users"),
    "a key that is gone": lambda cluster: cluster.own.key.unlink(),
    "an authority that is none": lambda cluster: cluster.authority.ca.write_text("none"),
}


@pytest.mark.parametrize("change", BAD.values(), ids=BAD)
def test_what_cannot_be_used_or_protects_less_changes_nothing(
    listener: WebListener, change: Change
):
    names = {"client_allowed_sans": ["localhost"]}
    certificate = listener.authority.issue("client")
    with listener.serving(listener.mutual(**names), ADA) as server:
        trusting = listener.trusting(certificate)  # before the files are gone

        def answers() -> tuple[int, ...]:
            return (
                status(listener.get(head=basic(), context=trusting)),
                status(listener.get(context=trusting)),
                status(listener.get(head=basic(), context=unknown)),
            )

        unknown = listener.trusting()
        assert answers() == (200, 401, 0)
        with capture_logs() as events:
            change(listener)
            assert answers() == (200, 401, 0)
            assert b"HTTP" not in listener.plain(head=basic())
        results = [event for event in events if event["event"] == "web_config_unusable"]
        assert len(results) == 1  # not once for each request
        assert results[0]["mistakes"]
        assert "s3cret" not in str(events)
        text = listener.get("/metrics", basic(), context=trusting).decode()
        for line in (
            'offsetwatch_web_config_last_reload_successful{listener="read"} 0',
            'offsetwatch_web_config_reload_failures_total{listener="read"} 1',
        ):
            assert line in text
        assert not server._web.status.successful


def test_what_is_right_again_is_taken_up(listener: WebListener):
    with listener.serving(ADA) as server:
        listener.file.write_text("")
        assert status(listener.plain(head=basic())) == 200
        assert not server._web.status.successful
        listener.write(listener.tls(), {"basic_auth_users": {"bob": OTHER_HASH}})  # more, not less
        assert b"HTTP" not in listener.plain()
        assert status(listener.get(head=basic("bob", "s3cret-of-bob"))) == 200
        assert server._web.status.successful


def test_a_file_that_does_not_change_is_read_once(
    listener: WebListener, monkeypatch: pytest.MonkeyPatch
):
    listener.write(listener.tls(), ADA)
    current = WebConfigReloader(listener.file, "read")
    monkeypatch.setattr(
        "offsetwatch.serve.web_config.reloader._read_web_config",
        lambda _: pytest.fail("read again"),
    )
    first = current.get()
    assert all(current.get() is first for _ in range(3))
