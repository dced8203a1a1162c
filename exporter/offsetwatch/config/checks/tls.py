"""Descriptions of PEM files that cannot be used, for the author of a configuration.

OpenSSL names the problem by a constant; no error repeats what a file holds.
"""

from __future__ import annotations

import ssl
from typing import Final

from offsetwatch.config.files import describe_file_error

_NO_CERTIFICATE: Final = "it has no certificate in PEM"
_NO_PAIR: Final = (
    "one has no PEM of its kind (certificate and key exchanged?), or the key's password is missing "
    "or wrong"
)
_REASON_WORDS: Final = {
    "BAD_DECRYPT": "the key's password is wrong",
    "CA_MD_TOO_WEAK": "its signature is too weak for this machine's OpenSSL",
    "EE_KEY_TOO_SMALL": "its key is too short for this machine's OpenSSL",
    "KEY_TYPE_MISMATCH": "the key does not belong to the certificate",
    "KEY_VALUES_MISMATCH": "the key does not belong to the certificate",
    "NO_CERTIFICATE_OR_CRL_FOUND": _NO_CERTIFICATE,
}


def describe_tls_error(error: OSError | ValueError, *, authorities: bool = False) -> str:
    """Return why a file of certificates, or a certificate with its key, cannot be used.

    `authorities`: the file has certificates to trust, and has no key.
    """
    if not isinstance(error, ssl.SSLError):
        return describe_file_error(error)
    words = _REASON_WORDS.get(error.reason or "")
    return f"cannot be used: {words or (_NO_CERTIFICATE if authorities else _NO_PAIR)}"
