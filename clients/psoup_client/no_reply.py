"""Messages for calls that no service answered, or that another program answered.

gRPC says "failed to connect to all addresses; last error: …". The message of the SDK says why, and the way out.
"""

from __future__ import annotations

import os

_NOBODY = "failed to connect to all addresses; last error: "
"""The beginning of gRPC's message if it cannot connect. The reason follows, with the address once more."""

_NO_NAME = "errors resolving ", "DNS resolution failed"
"""The beginnings of gRPC's message if the name of the host is not known."""


_START = "start one with: psoup serve, and wait until it says that it listens; or name its address: PSOUP_ADDRESS"


def among_several(message: str) -> str:
    """Leave the usual way out of a message about one of several addresses."""
    return message.removesuffix(f"; {_START}")


def who_answered(message: str) -> str:
    """Describe the program that answered without knowing the call, by the words of gRPC."""
    return "no PSoup service is there" if "HTTP status" in message else "it is of an older version than this"


_WAYS = (
    ("Hostname Verification", "its certificate has other names: use a name that is in it"),
    ("Failed parsing HTTP/2", "no gRPC service listens on that port: the page and the metrics have others"),
)
"""Words of gRPC about the program that answers, and the advice for the user."""


def may_be_sent(message: str) -> bool:
    """Whether a call that gRPC ended with this message may have reached a service: it did not without a connection."""
    return not message.startswith((_NOBODY, *_NO_NAME))


def unanswered(message: str, address: str) -> str:
    """Describe why no service answers, and the way out.

    gRPC reports a refused certificate only as a broken connection.
    """
    nobody, secured = message.startswith(_NOBODY), address.startswith("https://")
    why = message.removesuffix(": OK").rpartition(": ")[2] if nobody else message
    why = "the name of the host is not known" if "address lookup failed" in message else why
    way = next((way for said, way in _WAYS if said in message), _START)
    if nobody and secured and ("handshake" in message or why == "Socket closed") and "Hostname" not in message:
        way = (
            "name the authority that signed its certificate with PSOUP_CA, and if it wants yours, PSOUP_CERT and"
            " PSOUP_KEY"
        )
        if os.environ.get("PSOUP_CERT"):
            way = (
                "it may refuse the certificate of PSOUP_CERT: see when that ends, and whether who signed it is in the"
                " service's --tls-client-ca"
            )
        way += "; if it listens without TLS, leave https:// away"
    elif nobody and why == "Socket closed":
        way = f"if it listens with TLS, write https://{address}"
    return f"no PSoup service answers at {address} ({why}); {way}"
