"""The base of sinks for the rows of a SELECT, which never copies."""

from __future__ import annotations

from collections.abc import Sequence

from psoup_service.pg.contract import Column, CopyEncoder


class RowsOnly:
    """The two methods of a `contract.Sink` that only COPY calls. A sink for the rows of a SELECT inherits them."""

    async def copy_out(self, columns: Sequence[Column], copied_format: int, encoder: CopyEncoder) -> None:
        """Never called: a SELECT does not copy."""
        raise AssertionError("a SELECT does not copy")

    async def copy_in(self, columns: int, copied_format: int) -> bytes:
        """Never called: a SELECT does not copy."""
        raise AssertionError("a SELECT does not copy")
