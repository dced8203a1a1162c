"""Whom we speak to over TLS is verified, by whichever client, and nothing turns that off."""

from __future__ import annotations

import ast
import ssl
from pathlib import Path

import pytest

from lab.cluster.certificates import Authority
from offsetwatch.cli.remote import control_client
from offsetwatch.clients.http.auth import TlsContext
from offsetwatch.clients.kafka import inspector
from offsetwatch.clients.kubernetes.access import KubernetesAccess
from offsetwatch.config import Tls

ROOT = Path(__file__).parents[4]
# It compares the certificate byte by byte instead, before it sends anything.
PINNED = "exporter/offsetwatch/cli/remote/read_client.py"
# `tls.verify` of a source: what the operator asks for, as libpq's sslmode.
SOURCES = "exporter/offsetwatch/clients/databases/settings.py"


@pytest.fixture(scope="module")
def ca(tmp_path_factory) -> Path:
    return Authority(tmp_path_factory.mktemp("ca")).ca


@pytest.mark.parametrize(
    "context",
    [
        lambda _: TlsContext(None).get(),
        lambda _: TlsContext(None).get_for("http://localhost"),
        lambda ca: TlsContext(Tls(ca_file=ca)).get(),
        lambda _: KubernetesAccess(url="https://localhost").context(),
        lambda ca: KubernetesAccess(url="https://localhost", ca=ca.read_text()).context(),
        lambda _: KubernetesAccess(url="http://localhost").context(),
        lambda ca: control_client._build_tls_context(
            control_client.ControlEndpoint("https://localhost", ca_file=ca)
        ),
        lambda _: inspector._build_tls_context({"security.protocol": "SSL"}),
        lambda ca: inspector._build_tls_context(
            {"security.protocol": "SASL_SSL", "ssl.ca.location": str(ca)}
        ),
    ],
    ids=[
        "Connect or a webhook",
        "the same in the clear",
        "an authority of its own",
        "Kubernetes",
        "Kubernetes with an authority",
        "Kubernetes in the clear",
        "a control listener",
        "a broker",
        "a broker with an authority",
    ],
)
def test_a_client_verifies_whom_it_speaks_to_and_speaks_nothing_old(context, ca):
    result = context(ca)
    assert result.verify_mode is ssl.CERT_REQUIRED
    assert result.check_hostname
    assert result.minimum_version >= ssl.TLSVersion.TLSv1_2


def unverified(tree: ast.AST) -> list[str]:
    """Where a check of certificates or names is left out."""
    results = []
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr="CERT_NONE" | "_create_unverified_context" as name):
                results.append(name)
            case ast.Assign(
                targets=[ast.Attribute(attr="check_hostname")], value=ast.Constant(value=False)
            ):
                results.append("check_hostname")
            case ast.keyword(arg="verify" | "check_hostname" as name, value=ast.Constant(False)):
                results.append(name)
    return results


def test_only_pinned_certificates_and_settings_of_sources_leave_a_check_out():
    files = sorted((ROOT / "exporter").rglob("*.py"))
    results = {
        str(path.relative_to(ROOT)): calls
        for path in files
        if (calls := unverified(ast.parse(path.read_text())))
    }
    both = ["check_hostname", "CERT_NONE"]
    assert results == {PINNED: both, SOURCES: both}


@pytest.mark.parametrize(
    "line",
    [
        "context.verify_mode = ssl.CERT_NONE",
        "context.check_hostname = False",
        "httpx.Client(verify=False)",
        "ssl._create_unverified_context()",
    ],
)
def test_a_check_that_is_left_out_would_be_noticed(line: str):
    assert unverified(ast.parse(line))
