"""The text of access tokens: how it is made, and which parts are checked before any comparison.

    psoup_ 0aB9xYz3Qk 3Jd…43 characters… xY2_
           ID         secret, 256 bits   checksum, by which scanners recognize lost tokens

The service keeps the SHA-256 of the whole text. The secret is random and as long as the digest, so a slow hash would
gain nothing. Digests are compared in constant time (`psoup_service.gate.credentials`).
"""

from __future__ import annotations

import hashlib
import re
import secrets
import string
import zlib
from base64 import urlsafe_b64encode

PREFIX = "psoup_"
ID_LENGTH = 10
_LETTERS = string.ascii_letters + string.digits
_TOKEN = re.compile(r"psoup_([0-9A-Za-z]{10})[0-9A-Za-z_-]{47}", re.ASCII)


def new_token() -> tuple[str, str]:
    """A new token and its ID."""
    token_id = "".join(secrets.choice(_LETTERS) for _ in range(ID_LENGTH))
    body = f"{PREFIX}{token_id}{secrets.token_urlsafe(32)}"
    return body + _checksum(body), token_id


def id_of(token: str) -> str | None:
    """The ID in a text that has the form of a token, else None.

    The checksum is not verified: the digest proves more.
    """
    match = _TOKEN.fullmatch(token)
    return match[1] if match is not None else None


def digest_of(token: str) -> bytes:
    """The digest of a token that the service keeps: 32 bytes."""
    return hashlib.sha256(token.encode()).digest()


def _checksum(body: str) -> str:
    return urlsafe_b64encode(zlib.crc32(body.encode()).to_bytes(4, "big")[1:]).decode()
