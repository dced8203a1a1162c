"""A request to a daemon's read listener over one connection, without what credentials need."""

from __future__ import annotations

import http.client
import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from offsetwatch.addresses import format_address
from offsetwatch.documents import CLUSTERS_HEADER, FILE_HEADER
from offsetwatch.errors import SizeLimitExceeded, TargetUnreachable

REQUEST_TIMEOUT_S: Final = 2.0
BODY_BYTES_MAX: Final = 64 * 1024 * 1024
_NO_DAEMON_ADVICE: Final = (
    "check the address, and that the daemon runs there: `offsetwatch healthcheck` on its host"
)


class DaemonResponse(NamedTuple):
    """Response of a daemon.

    clusters    hashes of the clusters that it watches (config/identity.py); None if it sends none
    file_stamp  stamp of its configuration file (disk.hash_file_stamp); None if it sends none
    """

    status: int
    body: bytes
    clusters: str | None = None
    file_stamp: str | None = None


def find_local_address(listen: str) -> str:
    """Return the address at which a daemon with this `listen` is reached on this machine."""
    host, _, port = listen.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if bare in {"", "0.0.0.0", "*"}:  # noqa: S104 - compared only
        bare = "127.0.0.1"
    return format_address("::1" if bare == "::" else bare, port)


def split_address(where: str) -> tuple[str, int]:
    """Return host and port of `host:port`, the host without brackets."""
    host, _, port = where.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)


def request_plainly(where: str, path: str, timeout_s: float) -> DaemonResponse:
    """Return the response to one GET over HTTP without credentials.

    Raises TargetUnreachable and SizeLimitExceeded.
    """
    connection = http.client.HTTPConnection(*split_address(where), timeout=timeout_s)
    open_connection(connection, where)
    return exchange(connection, where, path, {}, timeout_s)


def open_connection(connection: http.client.HTTPConnection, where: str) -> None:
    """Connect. Raises TargetUnreachable."""
    try:
        connection.connect()
    except (OSError, UnicodeError) as exc:
        connection.close()
        raise _build_request_error(where, exc) from exc


def exchange(
    connection: http.client.HTTPConnection,
    where: str,
    path: str,
    headers: Mapping[str, str],
    timeout_s: float,
) -> DaemonResponse:
    """Return the response to one GET over an open connection, and close it.

    Raises TargetUnreachable and SizeLimitExceeded.
    """
    try:
        with _shutting_down(connection, where, timeout_s):
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            body = answer.read(BODY_BYTES_MAX + 1)
    except (OSError, UnicodeError, http.client.HTTPException) as exc:
        raise _build_request_error(where, exc) from exc
    finally:
        connection.close()
    if len(body) > BODY_BYTES_MAX:
        raise SizeLimitExceeded(where, f"an answer of more than {BODY_BYTES_MAX} bytes")
    return DaemonResponse(
        answer.status, body, answer.getheader(CLUSTERS_HEADER), answer.getheader(FILE_HEADER)
    )


@contextmanager
def _shutting_down(
    connection: http.client.HTTPConnection, where: str, timeout_s: float
) -> Iterator[None]:
    """Shut the connection down after `timeout_s`, and raise TargetUnreachable then.

    The time limit of a socket is for each part of an answer alone.
    """
    late = threading.Event()
    # Its own descriptor: the other one may be closed, and its number be another file's.
    wire = socket.socket(fileno=os.dup(connection.sock.fileno()))

    def shut_down() -> None:
        late.set()
        with suppress(OSError):
            wire.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(timeout_s, shut_down)
    timer.start()
    try:
        yield
    except (OSError, http.client.HTTPException):
        if not late.is_set():
            raise
    finally:
        timer.cancel()
        timer.join()
        wire.close()
    if late.is_set():
        raise TargetUnreachable(where, f"no whole answer within {timeout_s:g} s", _NO_DAEMON_ADVICE)


def _build_request_error(
    where: str, error: OSError | UnicodeError | http.client.HTTPException
) -> TargetUnreachable:
    """Return the error of a request that got no whole answer."""
    said = (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
    return TargetUnreachable(where, said, _NO_DAEMON_ADVICE)
