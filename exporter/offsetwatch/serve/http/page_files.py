"""The files of the status page, from the package.

The page requests nothing but what this listener serves, and its policy makes the browser refuse all
else: no inline script or style, no other host, no form, no frame. Users choose the names of
connectors, so the page writes text alone, and may not parse HTML.
"""

from __future__ import annotations

import hashlib
import html
from dataclasses import dataclass
from importlib import resources
from typing import Final

_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_INDEX: Final = "page.html"
_VERSION: Final = b"@VERSION@"  # stands for it in the page
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # ask each time whether it is still this one
}


@dataclass(frozen=True, slots=True)
class Asset:
    """File of the status page, with its content type and its ETag."""

    body: bytes
    content_type: str
    etag: str


def load_assets(version: str) -> tuple[Asset, dict[str, Asset]]:
    """Return the page itself, and its other files by name."""
    folder = resources.files("offsetwatch.serve") / "static"
    assets = {
        file.name: file.read_bytes()
        for file in folder.iterdir()
        if file.is_file() and _suffix_of(file.name) in _TYPES
    }
    index = assets.pop(_INDEX).replace(_VERSION, html.escape(version).encode())
    return _build_asset(_INDEX, index), {
        name: _build_asset(name, body) for name, body in assets.items()
    }


def _build_asset(name: str, body: bytes) -> Asset:
    tag = hashlib.sha256(body).hexdigest()[:32]
    return Asset(body=body, content_type=_TYPES[_suffix_of(name)], etag=f'"{tag}"')


def _suffix_of(name: str) -> str:
    return name[name.rfind(".") :]
