"""Prints a digest of what the built web application is made of: its sources, and the messages of the contract in it.

`make web` keeps it in clients/web/built.sha256, so that a test without Node notices a build that is not fresh.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

WEB = Path(__file__).resolve().parent
CLIENT = WEB.parent / "typescript"
MESSAGES = [WEB.parents[1] / f"protos/psoup_proto/v1/{name}_pb2.py" for name in ("queries", "sync", "types")]
"""Descriptors of the contract that the page reads as bytes. They lack comments, so a comment changes no build."""


def digest() -> str:
    """The digest, in hexadecimal."""
    single = [WEB / name for name in ("index.html", "package-lock.json", "tsconfig.json", "vite.config.ts")]
    folders = (WEB / "src", WEB / "public", CLIENT / "src")
    below = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    hasher = hashlib.sha256()
    for path in sorted([*single, CLIENT / "package-lock.json", *below, *MESSAGES]):
        hasher.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return hasher.hexdigest()


if __name__ == "__main__":
    sys.stdout.write(digest() + "\n")
