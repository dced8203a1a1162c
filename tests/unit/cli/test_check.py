"""`check` makes what the daemon would make of certificates and keys, so that what cannot be used is
found before anything starts.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lab.cluster.certificates import Authority
from offsetwatch.cli import main

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
    assert "ok: 1 Kafka and 1 Connect cluster(s)" in capsys.readouterr().out


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
