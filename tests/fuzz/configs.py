"""Configuration files: a Config, or all mistakes in it at once; whatever stands there."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from offsetwatch.config import Config, WebConfig, load
from offsetwatch.config.schema import web
from offsetwatch.errors import ConfigError
from tests.fuzz.targets import Target

_CONFIGS: Final = Path(__file__).parents[1] / "unit/config"
_FILES: Final = (
    "secret-property",
    "secret-token",
    "secret-basic",
    "secret-key",
    "secret-hook",
    "secret-token-of-the-one-who-is-on-call",
    "ca.pem",
    "cert.pem",
    "key.pem",
)
# What YAML can do, and few files do.
_ODD: Final = (
    'kafka: &a {east: {bootstrap: "a:1"}}\nconnect: [*a]\n<<: *a\n',
    "a: !!int 7\nb: !!float 1.5\nc: !!timestamp 2001-12-14\n",
    "d: !!binary aGVsbG8=\ne: !!set {a, b}\n",
    "? [a, b]\n: {c: 0x1f, d: 0b11, e: 017, f: 1:30, g: .inf, h: 2001-12-14t21:59:43.10-05:00}\n",
    'a: "\\x41\\u00e9\\U0001F600 \\ud83d"\nb: >-\n  folded\n  text\nc: |+\n  kept\n\n',
    "--- !!map {a: !!seq [1, !!str 2], b: !!null null, c: !!omap [a: 1], d: !!pairs [a: 1]}\n...\n",
)
_PIECES: Final = (
    b"&a ",
    b"*a",
    b"<<: *a\n",
    b"? ",
    b"- ",
    b"\n- ",
    b"|\n ",
    b">\n ",
    b"!!int ",
    b"!!float ",
    b"!!bool ",
    b"!!timestamp ",
    b"!!map ",
    b"!!seq ",
    b"!!set ",
    b"!!omap ",
    b"!!binary ",
    b"!!python/name:os.system ",
    b"!local ",
    b"0x_",
    b"0b_",
    b"._",
    b"1:99:99",
    b"2001-99-99",
    b'"\\U00110000"',
    b'"\\ud800"',
    b"#",
    b"%YAML 9.9\n",
    b"---\n",
    b"${HOME}",
    b"${NOT_SET}",
    b"~",
    b"(?P<a>",
    b"(a{9}){9}",
)
_WEB: Final = (
    "tls_server_config: {cert_file: cert.pem, key_file: key.pem, client_ca_file: ca.pem,"
    " client_auth_type: RequireAndVerifyClientCert, min_version: TLS12}\n"
    "http_server_config: {http2: true, headers: {X-Frame-Options: deny}}\n"
    "basic_auth_users: {ada: $2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG}\n"
)


def in_folder(folder: Path) -> list[Target]:
    """The targets, with the files that configurations name in this folder of theirs."""
    for name in _FILES:
        path = folder / name
        path.write_text("a" * 40 + "\n")
        path.chmod(0o600)
    (folder / "worker.properties").write_text("key.converter=a.B\nvalue.converter=a.B\n")
    texts = [file.read_text() for file in sorted(_CONFIGS.rglob("*.yaml"))] + list(_ODD)
    return [
        Target(
            "configurations",
            [(text.encode(),) for text in texts],
            partial(_config, folder),
            share=9,
            pieces=_PIECES,
        ),
        Target("web_configurations", [(_WEB.encode(),)], partial(_web, folder), pieces=_PIECES),
    ]


def _written(folder: Path, raw: bytes | None) -> Path:
    path = folder / "offsetwatch.yaml"
    path.write_bytes((raw or b"")[:32_768])  # of a longer one nobody expects it within a second
    return path


def _config(folder: Path, raw: bytes | None) -> None:
    path = _written(folder, raw)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of `re`, about patterns that will mean something else
        _read(partial(load, path, {"HOME": "/root"}), Config)


def _web(folder: Path, raw: bytes | None) -> None:
    _read(partial(web.load_web_config, _written(folder, raw)), WebConfig)


def _read(how: Callable[[], object], kind: type) -> None:
    try:
        result = how()
    except ConfigError as exc:
        mistakes = exc.mistakes
    else:
        assert isinstance(result, kind)
        return
    assert mistakes
    assert all(isinstance(mistake, str) and mistake for mistake in mistakes)
