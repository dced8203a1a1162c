"""Credentials by a program that a kubeconfig names under `exec`, as client-go runs it.

EKS, GKE and AKS log in this way (client.authentication.k8s.io/v1 and v1beta1). The program is run
without a terminal, and is bounded in time and output.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from offsetwatch.clients.http.auth import UnusableCredentials
from offsetwatch.clients.http.redaction import redact_secrets
from offsetwatch.errors import ConfigError

API_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
EXEC_TIMEOUT_S: Final = 30.0  # a login at a cloud takes one or two seconds
OUTPUT_BYTES_MAX: Final = 256 * 1024
MESSAGE_BYTES_MAX: Final = 4096
EXPIRY_MARGIN_S: Final = 10.0


class _ExecStatus(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None  # PEM
    client_key_data: str | None = None
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str
    status: _ExecStatus


@dataclass(eq=False)
class ExecPlugin:
    """Program of a kubeconfig for credentials. Thread-safe.

    Credentials are used until they expire, or until `forget` after an answer 401.
    """

    command: str
    args: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    api_version: str
    install_hint: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _status: _ExecStatus | None = field(default=None, repr=False)

    def get(self) -> _ExecStatus:
        """Return token or certificate. Raises UnusableCredentials."""
        with self._lock:
            expires = None if self._status is None else self._status.expiration_timestamp
            if expires is not None and expires.timestamp() - EXPIRY_MARGIN_S <= time.time():
                self._status = None
            if self._status is None:
                self._status = self._parse(self._run())
            return self._status

    def forget(self) -> None:
        """Run the program again for the next request."""
        with self._lock:
            self._status = None

    def _run(self) -> bytes:
        with tempfile.TemporaryFile() as errors:
            try:
                process = subprocess.Popen(  # noqa: S603 - the user names it, as for kubectl
                    [self.command, *self.args],
                    env={**os.environ, **self.environment},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    start_new_session=True,
                )
            except (OSError, ValueError) as exc:
                reason = getattr(exc, "strerror", None) or type(exc).__name__
                hint = f"; {redact_secrets(self.install_hint)}" if self.install_hint else ""
                raise self._error(f"cannot be run: {reason}{hint}") from None
            late = threading.Event()

            def end() -> None:
                late.set()
                _kill_group(process)

            timer = threading.Timer(EXEC_TIMEOUT_S, end)
            timer.start()
            try:
                with process:
                    assert process.stdout is not None
                    output = process.stdout.read(OUTPUT_BYTES_MAX + 1)
                    if len(output) > OUTPUT_BYTES_MAX:
                        _kill_group(process)
            finally:
                timer.cancel()
            if late.is_set():
                raise self._error(f"no credentials within {EXEC_TIMEOUT_S:g} s")
            if len(output) > OUTPUT_BYTES_MAX:
                raise self._error(f"more than {OUTPUT_BYTES_MAX} bytes of output")
            if process.returncode:
                errors.seek(0)
                message = redact_secrets(errors.read(MESSAGE_BYTES_MAX).decode(errors="replace"))
                detail = f": {message}" if message else ""
                raise self._error(f"exit status {process.returncode}{detail}")
        return output

    def _parse(self, output: bytes) -> _ExecStatus:
        try:
            credential = msgspec.json.decode(output, type=_ExecCredential)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise self._error("its output is no ExecCredential") from None
        status = credential.status
        if credential.api_version != self.api_version:
            raise self._error(f"its output has another apiVersion than {self.api_version}")
        if (status.client_certificate_data is None) != (status.client_key_data is None):
            raise self._error("its output has a certificate without a key, or a key without one")
        if status.token is None and status.client_certificate_data is None:
            raise self._error("its output has neither a token nor a certificate")
        return status

    def _error(self, detail: str) -> UnusableCredentials:
        return UnusableCredentials(f"exec {Path(self.command).name}: {detail}")


def build_exec_plugin(entry: object, cluster: Mapping[str, Any], path: Path) -> ExecPlugin:
    """Return the program of a user's `exec` in the kubeconfig `path`. Raises ConfigError."""

    def refuse(detail: str) -> ConfigError:
        return ConfigError((f"{path}: users: exec: {detail}",))

    if not isinstance(entry, dict) or not entry.get("command"):
        raise refuse("command is missing")
    api_version = str(entry.get("apiVersion"))
    if api_version not in API_VERSIONS:
        raise refuse(f"apiVersion is none of {', '.join(API_VERSIONS)}")
    if entry.get("interactiveMode") == "Always":
        raise refuse("interactiveMode Always: there is no terminal")
    command = str(entry["command"])
    if os.sep in command:
        command = str(path.parent / command)
    args, variables = entry.get("args") or [], entry.get("env") or []
    if not isinstance(args, list) or not isinstance(variables, list):
        raise refuse("args and env are lists")
    environment = {
        str(variable.get("name")): str(variable.get("value"))
        for variable in variables
        if isinstance(variable, dict)
    }
    spec: dict[str, Any] = {"interactive": False}
    if entry.get("provideClusterInfo"):
        names = ("server", "certificate-authority-data", "tls-server-name", "proxy-url")
        spec["cluster"] = {name: cluster[name] for name in names if name in cluster}
    info = {"apiVersion": api_version, "kind": "ExecCredential", "spec": spec}
    environment["KUBERNETES_EXEC_INFO"] = msgspec.json.encode(info).decode()
    hint = str(entry.get("installHint") or "")
    return ExecPlugin(command, tuple(map(str, args)), environment, api_version, hint)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the program and what it started, which may hold its output open."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
