"""The file of the results that `--out` names: whether it can be written is known before the first experiment."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def make_out_file(out: Path) -> None:
    """Make the file, its folder, and the file beside it that ends in .json.

    Raises OSError if one of them cannot be written, or if the name has no ending or the ending .json: the other
    results have the same name with another ending, or without one.
    """
    if out.suffix in ("", ".json"):
        raise OSError(errno.EINVAL, f"the name ends in {out.suffix}" if out.suffix else "the name has no ending")
    if out.parent.is_file():
        raise OSError(errno.ENOTDIR, f"{os.fspath(out.parent)} is not a folder")
    out.parent.mkdir(parents=True, exist_ok=True)
    for file in (out, out.with_suffix(".json")):
        if file.is_dir():
            raise OSError(errno.EISDIR, f"{os.fspath(file)} is a folder")
        file.touch()
