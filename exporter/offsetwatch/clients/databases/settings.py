"""Settings that all readers of databases share: time limits, secrets, libraries of extras.

No error repeats a password, or a part of an address that may be one.
"""

from __future__ import annotations

import importlib
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Final, TypeVar

from offsetwatch.config.database_url import SCHEMES, DatabaseUrl, parse_database_url
from offsetwatch.config.files import describe_file_error, describe_tls_error, read_secret
from offsetwatch.config.schema.sources import Source, SourceTls
from offsetwatch.errors import (
    ClientError,
    IncompleteResponse,
    MalformedResponse,
    ResponseTimeout,
    SettingsRefused,
    TargetUnreachable,
)
from offsetwatch.formatting import format_extra_installation

CONNECT_TIMEOUT_S: Final = 5
STATEMENT_TIMEOUT_S: Final = 2  # on the server
ANSWER_TIMEOUT_S: Final = 4.0  # of a statement here, where a server is stopped or the network cut
APPLICATION: Final = "offsetwatch"
TLS_ADVICE: Final = (
    "check tls of this source: ca_file has the authority of the server's certificate, and the "
    "address has the name that is in it; and that the server offers TLS"
)
# psycopg's wheels bring an OpenSSL that has no authorities: of Debian, Red Hat, SUSE, Alpine.
_AUTHORITIES_FILES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
_TEXT_MAX: Final = 300
# What drivers in Python raise beside errors of their own: for an answer that is not of their
# protocol, a host name with an empty label, an option that they do not have.
DRIVER_ERRORS: Final = (ValueError, LookupError, NameError, TypeError, struct.error)
_Result = TypeVar("_Result")


class StatementTimeout(ResponseTimeout):
    """Error: a server ended a statement that took too long. The connection can be used again."""

    def __init__(self, name: str) -> None:
        super().__init__(name, f"a statement took longer than {STATEMENT_TIMEOUT_S} s")


def import_library(source: Source, library: str) -> ModuleType:
    """Return a module of an extra. Raises SettingsRefused that names the extra."""
    try:
        return importlib.import_module(library)
    except ImportError:
        raise SettingsRefused(
            source.name,
            f"a source of kind {source.kind} needs the Python package {library}, which is not "
            "installed",
            format_extra_installation(source.kind),
        ) from None


def read_dsn(source: Source) -> tuple[str, DatabaseUrl] | None:
    """Return the address and its parts; None if the source has other settings instead.

    Raises SettingsRefused.
    """
    dsn = read_source_secret(source, "dsn")
    if dsn is None:
        return None
    try:
        return dsn, parse_database_url(dsn, SCHEMES.get(source.kind, ()))
    except ValueError as exc:
        file = "" if source.dsn_file is None else "_file"
        raise SettingsRefused(
            source.name, f"dsn{file}: {exc}", f"correct the address of {source.name} under sources"
        ) from None


def find_user(source: Source) -> str | None:
    """Return the user of the connection; None if the source has none. Raises SettingsRefused."""
    dsn = read_dsn(source)
    return source.user if dsn is None else dsn[1].user


def read_source_secret(source: Source, name: str) -> str | None:
    """Return `dsn` or `password`, or the text of its file; None for neither.

    Raises SettingsRefused if the file cannot be read.
    """
    file, value = getattr(source, f"{name}_file"), getattr(source, name)
    if file is None:
        return None if value is None else str(value.get_secret_value())
    try:
        return read_secret(file)
    except (OSError, ValueError) as exc:
        raise SettingsRefused(
            source.name,
            f"{name}_file {describe_file_error(exc)}",
            f"correct {name}_file of {source.name} under sources, or the file",
        ) from None


def find_authorities_file() -> str | None:
    """Return the file of the operating system's authorities; None where it has none."""
    known = (ssl.get_default_verify_paths().cafile, *_AUTHORITIES_FILES)
    return next((file for file in known if file is not None and Path(file).is_file()), None)


def build_tls_context(source: Source, tls: SourceTls) -> ssl.SSLContext:
    """Return the TLS context of a connection. Raises SettingsRefused."""
    try:
        context = ssl.create_default_context(cafile=tls.ca_file)
    except (OSError, ValueError) as exc:
        raise _refuse_tls(source, "ca_file", describe_tls_error(exc, authorities=True)) from None
    if tls.verify != "full":
        context.check_hostname = False
    if tls.verify == "none":
        context.verify_mode = ssl.CERT_NONE
    if tls.cert_file is not None:
        try:
            # A password that is always given: OpenSSL would ask for one on the terminal.
            context.load_cert_chain(tls.cert_file, tls.key_file, password=lambda: "")
        except (OSError, ValueError) as exc:
            raise _refuse_tls(source, "cert_file or key_file", describe_tls_error(exc)) from None
    return context


def _refuse_tls(source: Source, what: str, problem: str) -> SettingsRefused:
    advice = f"correct tls of {source.name} under sources, or the file"
    return SettingsRefused(source.name, f"tls.{what}: {problem}", advice)


@contextmanager
def closing_after_error(close: Callable[[], None]) -> Iterator[None]:
    """Close the connection if a read fails in any way: the next one opens another."""
    try:
        yield
    except BaseException:
        close()
        raise


def call_library(
    call: Callable[[], _Result],
    errors: type[Exception] | tuple[type[Exception], ...],
    translate: Callable[[Exception], ClientError],
) -> _Result:
    """Call a library. Raises ClientError without a reference to the library's own error, which may
    hold the password.
    """
    try:
        return call()
    except errors as exc:
        error = translate(exc)
    raise error


def translate_driver_error(name: str, error: Exception, *, connecting: bool) -> ClientError:
    """Return the ClientError of one of DRIVER_ERRORS. Its text may quote an answer: it is left out.

    `name` is of the source.
    """
    if isinstance(error, UnicodeError) and not isinstance(error, UnicodeDecodeError):
        return TargetUnreachable(name, "its host name cannot be resolved", "correct its address")
    if connecting and isinstance(error, TypeError):
        advice = "correct what follows the ? in dsn"
        return SettingsRefused(name, "its driver does not take an option of its address", advice)
    kind = type(error).__name__
    return MalformedResponse(name, f"the server's answer is not of its protocol ({kind})")


def shorten_server_text(text: str, *secrets: str | None) -> str:
    """Return what a server or a library says as one line, without these secrets."""
    line = " ".join(text.split())
    for secret in secrets:
        if secret:
            line = line.replace(secret, "***")
    return line if len(line) <= _TEXT_MAX else f"{line[:_TEXT_MAX]}..."


def check_same_server(name: str, known: object, found: object) -> None:
    """Raise IncompleteResponse if a connection leads to another server than it was opened to.

    Then nothing that was read over it is of one server. `name` is of the source.
    """
    if found != known:
        raise IncompleteResponse(name, f"its address led to server {known}, and now to {found}")
