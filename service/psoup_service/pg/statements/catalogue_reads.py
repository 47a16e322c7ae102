"""SELECTs over the catalogue, or without a relation. The first of them loads DuckDB, which the catalogue needs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from psoup.errors import NotSupported
from psoup_service.pg.calls import Calls
from psoup_service.pg.contract import Statement

_MODULES = ("psoup_service.pg.catalogue.catalogue", "psoup_service.pg.catalogue.statement")


class CatalogueReads:
    """The catalogue of a session. `options`: the parameters of the start-up packet."""

    def __init__(self, calls: Calls, options: Mapping[str, str]) -> None:
        self._calls = calls
        self._options = options
        self._loaded: tuple[Any, Any] | None = None

    async def statement(self, text: str, types: Sequence[int]) -> Statement | None:
        """The statement over the catalogue; None for a SELECT over streams. Raises a PSoupError."""
        if self._loaded is None:
            self._loaded = await asyncio.to_thread(self._load)
        catalogue, read = self._loaded
        if not await asyncio.to_thread(read.reads_text, text):
            return None
        statement: Statement = catalogue.statement(text, types)
        return statement

    def _load(self) -> tuple[Any, Any]:
        try:
            made, read = map(import_module, _MODULES)
        except ModuleNotFoundError as problem:
            if problem.name != "duckdb":
                raise
            raise NotSupported(
                "a SELECT without a stream, or over pg_catalog, is not supported",
                hint="install DuckDB beside the service: pip install 'psoup[pg]'",
            ) from None
        return made.Catalogue(self._calls, self._options), read
