"""
A certificate authority for one run: PEM files made with the `openssl` command.

Elliptic curves, as making an RSA key takes longer than everything else.
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError
from lab.processes.java import tool
from lab.processes.ports import LOOPBACK

_RUN_S_MAX = 30.0
_DAYS = "2"
_HERE = f"IP:{LOOPBACK},DNS:localhost"


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate and its key, which is PKCS#8 as Java's PEM stores want it."""

    cert: Path
    key: Path


class Authority:
    """Signs certificates for 127.0.0.1 and localhost that are good for both ends."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._own = self._files("ca")
        self._request("ca", "-days", _DAYS)

    @property
    def ca(self) -> Path:
        """The authority's own certificate, by which the others are trusted."""
        return self._own.cert

    def issue(self, name: str, *, password: str | None = None, names: str = _HERE) -> Certificate:
        """A new certificate with this common name and these alternative names; `password` encrypts
        its key.
        """
        certificate = self._files(name)
        self._request(
            name,
            *("-CA", str(self._own.cert), "-CAkey", str(self._own.key), "-days", _DAYS),
            *("-addext", f"subjectAltName={names}"),
            *("-addext", "basicConstraints=critical,CA:FALSE"),
        )
        if password is not None:
            plain = certificate.key.with_suffix(".plain")
            certificate.key.rename(plain)
            _openssl(
                *("pkcs8", "-topk8", "-in", str(plain), "-out", str(certificate.key)),
                *("-passout", f"pass:{password}"),
            )
            plain.unlink()
        return certificate

    def issue_expired(self, name: str, *, names: str = _HERE) -> Certificate:
        """The same, of yesterday."""
        certificate = self.issue(name, names=names)
        request = certificate.cert.with_suffix(".csr")
        _openssl(
            *("x509", "-x509toreq", "-copy_extensions", "copyall"),
            *("-in", str(certificate.cert), "-signkey", str(certificate.key), "-out", str(request)),
        )
        _openssl(
            *("x509", "-req", "-in", str(request), "-copy_extensions", "copyall", "-days", "-1"),
            *(
                "-CA",
                str(self._own.cert),
                "-CAkey",
                str(self._own.key),
                "-out",
                str(certificate.cert),
            ),
        )
        return certificate

    def _request(self, name: str, *arguments: str) -> None:
        files = self._files(name)
        _openssl(
            *("req", "-new", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-nodes", "-subj", f"/CN={name}"),
            *("-keyout", str(files.key), "-out", str(files.cert), *arguments),
        )

    def _files(self, name: str) -> Certificate:
        return Certificate(
            cert=self._directory / f"{name}.pem", key=self._directory / f"{name}-key.pem"
        )


def java_stores(own: Certificate, ca: Path, directory: Path, *, password: str) -> tuple[Path, Path]:
    """
    PKCS#12 files (keystore, truststore) for what cannot read PEM, as Connect's web server.

    keytool marks an authority as trusted; openssl can do that only in newer versions.
    """
    key, trust = directory / "key.p12", directory / "trust.p12"
    _openssl(
        *("pkcs12", "-export", "-in", str(own.cert), "-inkey", str(own.key)),
        *("-out", str(key), "-passout", f"pass:{password}"),
    )
    trust.unlink(missing_ok=True)
    _run(
        *(tool("keytool"), "-importcert", "-noprompt", "-alias", "ca", "-file", str(ca)),
        *("-keystore", str(trust), "-storetype", "PKCS12", "-storepass", password),
    )
    return key, trust


def _openssl(*arguments: str) -> None:
    _run("openssl", *arguments)


def _run(*command: str) -> None:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_RUN_S_MAX,
            check=False,
            text=True,
        )
    except OSError as exc:
        raise LabError(f"{command[0]} is needed for certificates: {exc}") from exc
    if done.returncode != 0:
        raise LabError(f"{' '.join(command[:2])}: {done.stdout[-500:]}{done.stderr[-500:]}")
