"""Access to a Kubernetes API server: its address, our credentials, and one bounded request.

Both come from the pod (the folder of its service account, whose token is read at each request,
because it rotates), or from a kubeconfig file. EKS, GKE and AKS name a program for credentials
there (`exec`); it is run as client-go does, without a terminal, bounded in time and output.
"""

from __future__ import annotations

import base64
import binascii
import os
import signal
import ssl
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import httpx
import msgspec

from offsetwatch.clients.http.auth import UnusableCredentials
from offsetwatch.clients.http.bodies import HTML_PAGE, VALUES_MAX, has_too_many_values, is_html
from offsetwatch.clients.http.client import build_async_client, describe_redirect, read_body
from offsetwatch.clients.http.exchange import (
    build_status_error,
    build_timeout,
    redact_secrets,
    run_exchange,
    translate_http_errors,
)
from offsetwatch.config.files import describe_tls_error, read_secret
from offsetwatch.decode.json_text import decode_strict
from offsetwatch.errors import ClientError, ConfigError, MalformedResponse, SizeLimitExceeded
from offsetwatch.yaml_file import parse_yaml

API_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
EXEC_TIMEOUT_S: Final = 30.0  # a login at a cloud takes one or two seconds
OUTPUT_BYTES_MAX: Final = 256 * 1024
MESSAGE_BYTES_MAX: Final = 4096
EXPIRY_MARGIN_S: Final = 10.0


class _ExecStatus(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None  # PEM
    client_key_data: str | None = None
    expiration_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


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
        credential = decode_strict(output, _ExecCredential)
        if credential is None:
            raise self._error("its output is no ExecCredential")
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


# --- access ---------------------------------------------------------------------------------------

SERVICE_ACCOUNT_DIR: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TIMEOUT_S: Final = 30.0  # the API server gives up on a request after 60 s, and lists are paged
BODY_BYTES_MAX: Final = 32 * 1024 * 1024  # a page of 500 large resources stays far below

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class KubernetesAccess:
    """Address of an API server, and the credentials for it.

    url         of the API server
    namespace   the default namespace
    ca          PEM of the authorities to trust; None for the operating system's
    token       the token itself; or token_file, read at each request
    cert, key   PEM of a client certificate, if it authenticates us
    plugin      a program for a token or a certificate, in place of these
    """

    url: str
    namespace: str = "default"
    ca: str | None = None
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    cert: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    plugin: ExecPlugin | None = None

    @property
    def name(self) -> str:
        """Return the name for messages."""
        try:
            return f"Kubernetes at {urlsplit(self.url).netloc}"
        except ValueError:  # of brackets that do not match
            return "Kubernetes at an address that is none"

    def headers(self) -> dict[str, str]:
        """Return the headers that authenticate us. Raises UnusableCredentials."""
        token = self.token
        if self.token_file is not None:
            try:
                token = read_secret(self.token_file)
            except (OSError, ValueError) as exc:
                raise UnusableCredentials(f"{self.token_file}: {_describe_problem(exc)}") from None
        if self.plugin is not None:
            token = self.plugin.get().token
        if token is None:
            return {}
        if not token or not token.isascii() or not token.isprintable():
            raise UnusableCredentials("its token is empty, or has characters no header can carry")
        return {"Authorization": f"Bearer {token}"}

    def context(self) -> ssl.SSLContext:
        """Return the TLS context with trusted authorities and client certificate.

        Raises UnusableCredentials.
        """
        if not self.url.startswith("https:"):
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context = ssl.create_default_context(cadata=self.ca)
            cert, key = self.cert, self.key
            if self.plugin is not None:
                status = self.plugin.get()
                cert, key = status.client_certificate_data, status.client_key_data
            if cert is not None and key is not None:
                # OpenSSL reads only files: through a short-lived one of mode 0600.
                with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
                    file.write(f"{cert}\n{key}\n")
                    file.flush()
                    context.load_cert_chain(file.name, password=lambda: "")
        except (OSError, ValueError) as exc:
            raise UnusableCredentials(f"its certificates: {_describe_problem(exc)}") from None
        return context


def _describe_problem(error: OSError | ValueError) -> str:
    return describe_tls_error(error) if isinstance(error, OSError) else "cannot be used"


# --- where ----------------------------------------------------------------------------------------


def find_kubernetes_access(
    kubeconfig: Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    account: Path = SERVICE_ACCOUNT_DIR,
) -> KubernetesAccess:
    """Return the access of the file; without one, that of the pod or of kubectl.

    kubectl's file is $KUBECONFIG or ~/.kube/config. Raises ConfigError.
    """
    environ = os.environ if environment is None else environment
    if kubeconfig is not None:
        return access_from_kubeconfig(kubeconfig)
    if environ.get("KUBERNETES_SERVICE_HOST") and _is_existing_path(account / "token"):
        return access_from_pod(environ, account)
    named = environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    default = Path(named) if named else Path(environ.get("HOME", "/")) / ".kube" / "config"
    if _is_existing_path(default):
        return access_from_kubeconfig(default)
    raise ConfigError(
        (f"no Kubernetes: this is no pod, and there is no {default}; name a file: --kubeconfig",)
    )


def _is_existing_path(path: Path) -> bool:
    """Check whether there is such a file. Raises ConfigError if that cannot be determined."""
    try:
        return path.exists()
    except OSError as exc:
        raise ConfigError((f"{path}: {_describe_problem(exc)}",)) from None


def access_from_pod(
    environment: Mapping[str, str], account: Path = SERVICE_ACCOUNT_DIR
) -> KubernetesAccess:
    """Return the access of a pod's service account. Raises ConfigError."""
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    port = environment.get("KUBERNETES_SERVICE_PORT", "443")
    try:
        ca = (account / "ca.crt").read_text()
        namespace = (account / "namespace").read_text().strip()
    except (OSError, ValueError) as exc:
        raise ConfigError((f"{account}: {_describe_problem(exc)}",)) from None
    address = f"[{host}]" if ":" in host else host
    return KubernetesAccess(
        url=f"https://{address}:{port}",
        namespace=namespace or "default",
        ca=ca,
        token_file=account / "token",
    )


def access_from_kubeconfig(path: Path) -> KubernetesAccess:
    """Return the access of a kubeconfig's current context. Raises ConfigError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as exc:
        raise ConfigError((f"{path}: {_describe_problem(exc)}",)) from None
    document = parse_yaml(text, str(path))
    if not isinstance(document, dict):
        raise ConfigError((f"{path}: no kubeconfig",))
    context = _find_entry(document, "contexts", "context", document.get("current-context"), path)
    cluster = _find_entry(document, "clusters", "cluster", context.get("cluster"), path)
    user = _find_entry(document, "users", "user", context.get("user"), path)
    _refuse_unsupported_settings(cluster, user, path)
    token, token_file, program = user.get("token"), user.get("tokenFile"), user.get("exec")
    return KubernetesAccess(
        url=str(cluster.get("server", "")).rstrip("/"),
        namespace=str(context.get("namespace") or "default"),
        ca=_read_pem(cluster, "certificate-authority", path),
        token=None if token is None else str(token),
        token_file=None if token_file is None else path.parent / str(token_file),
        cert=_read_pem(user, "client-certificate", path),
        key=_read_pem(user, "client-key", path),
        plugin=None if program is None else build_exec_plugin(program, cluster, path),
    )


def _refuse_unsupported_settings(cluster: Json, user: Json, path: Path) -> None:
    """Raise ConfigError for settings that would otherwise be ignored.

    A user must not wrongly believe that another identity or a protection is in use.
    """
    if user.get("auth-provider"):
        said = (
            f"{path}: users: auth-provider: no program is run for a token but that of exec; write "
            "the token of a ServiceAccount (`kubectl create token`) into a kubeconfig of its own"
        )
        raise ConfigError((said,))
    for name in ("as", "username", "password"):
        if user.get(name):
            raise ConfigError((f"{path}: users: {name} is not supported",))
    if cluster.get("insecure-skip-tls-verify"):
        raise ConfigError((f"{path}: insecure-skip-tls-verify: name certificate-authority",))
    if not str(cluster.get("server", "")).startswith(("http://", "https://")):
        raise ConfigError((f"{path}: clusters: server is missing",))


def _find_entry(document: Json, section: str, one: str, name: object, path: Path) -> Json:
    entries = document.get(section)
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("name") == name:
            value = entry.get(one)
            return value if isinstance(value, dict) else {}
    raise ConfigError((f"{path}: {section} has no {name}",))


def _read_pem(section: Json, name: str, path: Path) -> str | None:
    """Return PEM from `NAME-data`, base64, or from the file `NAME`, relative to the kubeconfig."""
    data, file = section.get(f"{name}-data"), section.get(name)
    try:
        if data is not None:
            return base64.b64decode(str(data), validate=True).decode("ascii")
        return None if file is None else (path.parent / str(file)).read_text()
    except (OSError, ValueError, binascii.Error) as exc:
        raise ConfigError((f"{path}: {name}: {_describe_problem(exc)}",)) from None


# --- an exchange ----------------------------------------------------------------------------------


class _Status(msgspec.Struct):
    """Error body of Kubernetes."""

    message: str = ""


def send_kubernetes_request(
    access: KubernetesAccess,
    method: str,
    path: str,
    *,
    body: bytes | None = None,
    content_type: str = "application/json",
    timeout_s: float = TIMEOUT_S,
    transport: httpx.AsyncBaseTransport | None = None,
) -> Json:
    """Send one request, once; return the object in the answer. Raises ClientError."""
    what = f"{method} {path.partition('?')[0]}"

    async def answer() -> tuple[int, bytes]:
        client = build_async_client(
            access.url,
            timeout=build_timeout(timeout_s),
            headers={"Accept": "application/json", **credentials},
            transport=transport,
            verify=context,
        )
        headers = {} if body is None else {"Content-Type": content_type}
        async with client, client.stream(method, path, content=body, headers=headers) as response:
            where = describe_redirect(response.status_code, response.headers.get("Location"))
            if where is not None:
                detail = f"HTTP {response.status_code}: {where}; server must name the API server"
                raise MalformedResponse(access.name, detail)
            return response.status_code, await read_body(response, BODY_BYTES_MAX)

    try:
        # Not in the loop below, which a program for credentials would stop.
        with translate_http_errors(access.name, timeout_s):
            credentials, context = access.headers(), access.context()
        status, received = run_exchange(access.name, answer(), timeout_s)
    except ClientError as exc:
        raise type(exc)(exc.target, f"{what}: {exc.detail}") from exc
    if status == httpx.codes.UNAUTHORIZED and access.plugin is not None:
        access.plugin.forget()
    if not 200 <= status < 300:
        raise _build_response_error(access.name, what, status, received)
    if len(received) > BODY_BYTES_MAX or has_too_many_values(received):
        bound = f"more than {BODY_BYTES_MAX} bytes or {VALUES_MAX} values"
        raise SizeLimitExceeded(access.name, f"{what}: {bound}")
    try:
        return msgspec.json.decode(received, type=Json)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        page = f"{HTML_PAGE}, and not the Kubernetes API"
        instead = page if is_html(received) else "a body that is no object"
        raise MalformedResponse(access.name, f"{what}: HTTP {status} with {instead}") from exc


def _build_response_error(name: str, what: str, status: int, body: bytes) -> ClientError:
    """Return the error with the server's message, which names resources, never secret values."""
    error = decode_strict(body, _Status)
    message = redact_secrets(error.message) if error is not None else ""
    if error is None and is_html(body):
        message = HTML_PAGE
    return build_status_error(
        name, status, f"{what}: HTTP {status}" + (f": {message}" if message else "")
    )
