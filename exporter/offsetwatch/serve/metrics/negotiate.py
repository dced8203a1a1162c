"""Content negotiation of /metrics: the format for an Accept header.

Stricter than prometheus-client's chooser on purpose: quality values count, and a version that is
not written is never echoed back. (Prometheus marks a target down that claims OpenMetrics 2.0.0 and
sends 1.0 lines.) A client that accepts none of the formats still gets text 0.0.4, as the protocol
demands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

RANGES_MAX = 64  # media ranges looked at; Prometheus sends five, browsers up to ten

# Names and labels of ours need no escaping, so these schemes all leave them as they are and may be
# promised. `dots` would double every underscore; who asks for it gets the fallback.
_SUPPORTED_ESCAPING = frozenset({"allow-utf-8", "underscores", "values"})
_ESCAPING_FALLBACK = "underscores"

_QUALITY = re.compile(r"0(\.\d*)?|1(\.0*)?")


@dataclass(frozen=True, slots=True)
class Format:
    """Format of the exposition."""

    media: str
    version: str
    escaping: bool

    @property
    def openmetrics(self) -> bool:
        """Check for OpenMetrics.

        It differs in counter family names, help escaping and the end marker.
        """
        return self.media == "application/openmetrics-text"


TEXT_0_0_4 = Format(media="text/plain", version="0.0.4", escaping=False)
TEXT_1_0_0 = Format(media="text/plain", version="1.0.0", escaping=True)
OPENMETRICS_1_0_0 = Format(media="application/openmetrics-text", version="1.0.0", escaping=True)
OPENMETRICS_0_0_1 = Format(media="application/openmetrics-text", version="0.0.1", escaping=False)

FORMATS = (
    TEXT_0_0_4,
    TEXT_1_0_0,
    OPENMETRICS_1_0_0,
    OPENMETRICS_0_0_1,
)  # best first, all else equal


@dataclass(frozen=True, slots=True)
class Choice:
    """Chosen format, and its Content-Type header."""

    format: Format
    content_type: str


@dataclass(frozen=True, slots=True)
class _Range:
    """Entry of an Accept header."""

    media: str
    parameters: dict[str, str]
    quality: float

    def specificity(self, offer: Format) -> int:
        """Return how closely this entry names the format.

        0 is not at all, 1 `*/*`, 2 `type/*`, 3 the media type, 4 media type and version.
        """
        version = self.parameters.get("version")
        if version is not None and version != offer.version:
            return 0
        if self.media == offer.media:
            return 3 if version is None else 4
        if self.media == offer.media.split("/")[0] + "/*":
            return 2
        return int(self.media == "*/*")


def choose_format(accept: str) -> Choice:
    """Return the format with the highest quality.

    At a tie a named format precedes one that only a wildcard covers; then the order of the header
    decides.
    """
    ranges = _parse_ranges(accept)
    best: tuple[float, bool, int] | None = None
    chosen, chosen_range = TEXT_0_0_4, None
    for offer in FORMATS:
        matches = [
            (media_range.specificity(offer), media_range.quality, -n)
            for n, media_range in enumerate(ranges)
        ]
        closest, quality, order = max(matches, default=(0, 0.0, 0))
        rank = (quality, closest >= 3, order)
        if closest > 0 and quality > 0 and (best is None or rank > best):
            best, chosen, chosen_range = rank, offer, ranges[-order]
    return Choice(format=chosen, content_type=_format_content_type(chosen, chosen_range))


def is_gzip_accepted(accept_encoding: str) -> bool:
    """Check whether the client accepts gzip: by name, or by a wildcard if it is not named."""
    wanted = {coding.media: coding.quality for coding in _parse_ranges(accept_encoding)}
    return wanted.get("gzip", wanted.get("*", 0.0)) > 0


def _format_content_type(chosen: Format, media_range: _Range | None) -> str:
    text = f"{chosen.media}; version={chosen.version}; charset=utf-8"
    if not chosen.escaping:
        return text
    scheme = media_range.parameters.get("escaping", "") if media_range is not None else ""
    return f"{text}; escaping={scheme if scheme in _SUPPORTED_ESCAPING else _ESCAPING_FALLBACK}"


def _parse_ranges(header: str) -> list[_Range]:
    found = []
    for entry in header.split(",", RANGES_MAX)[:RANGES_MAX]:
        media, *rest = (part.strip() for part in entry.lower().split(";"))
        parameters = {}
        for parameter in rest:
            name, _, value = parameter.partition("=")
            parameters[name.strip()] = value.strip().strip('"')
        found.append(_Range(media, parameters, _parse_quality(parameters.get("q"))))
    return found


def _parse_quality(text: str | None) -> float:
    """Return the quality: 1 if there is none, 0 if it is invalid, which counts as a refusal."""
    if text is None:
        return 1.0
    return float(text) if _QUALITY.fullmatch(text) else 0.0
