"""Certificates for tests of TLS, in files, from an authority that no other computer knows."""

from __future__ import annotations

import datetime
from pathlib import Path

import trustme


class Authority:
    """An authority whose certificates lie in `folder`; `ca` is its own."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder, self._authority = folder, trustme.CA(key_type=trustme.KeyType.ECDSA)
        self.ca = folder / f"{name}.pem"
        self._authority.cert_pem.write_to_path(str(self.ca))

    def issue(
        self, name: str, *, host: str = "localhost", days: tuple[float, float] = (-1, 1), common: str = ""
    ) -> tuple[Path, Path]:
        """Write a certificate of `host` and 127.0.0.1, valid between these days from now, and its key.

        `common`: the name of its subject, which nobody may believe.
        """
        now = datetime.datetime.now(datetime.UTC)
        made = self._authority.issue_cert(
            host,
            "127.0.0.1",
            common_name=common or None,
            key_type=trustme.KeyType.ECDSA,
            not_before=now + datetime.timedelta(days=days[0]),
            not_after=now + datetime.timedelta(days=days[1]),
        )
        certificate, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        certificate.write_bytes(b"".join(part.bytes() for part in made.cert_chain_pems))
        made.private_key_pem.write_to_path(str(key))
        return certificate, key
