"""SELECTs over the catalogue, or without a relation. The first of them loads DuckDB, which the catalogue needs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from psoup.errors import NotSupported
from psoup_service.pg.calls import Calls
from psoup_service.pg.contract import Statement
from psoup_service.pg.statements.settings import SessionSettings
from psoup_service.pg.versions import CatalogueSource

_MODULES = ("psoup_service.pg.catalogue.catalogue", "psoup_service.pg.catalogue.stores")

Facts = Mapping[str, str | Mapping[str, str]]
"""Facts of a session by name: its number, and its cursors."""


class Catalogues:
    """The catalogues of a port. `source`: its streams and queries.

    `started`: the port's start, as ISO 8601. `moment`: returns the present time in this form. `now`: returns it in
    microseconds.
    """

    def __init__(self, source: CatalogueSource) -> None:
        self.started, self.moment, self.now = source.moment(), source.moment, source.now
        self._source = source
        self._loaded: tuple[Any, Any] | None = None

    async def loaded(self) -> tuple[Any, Any]:
        """The class Catalogue, and the stores of all catalogues. Raises NotSupported without DuckDB."""
        if self._loaded is None:
            made, stores = await asyncio.to_thread(_load)
            self._loaded = self._loaded or (made.Catalogue, stores.Stores(self._source))
        return self._loaded

    def close(self) -> None:
        """End the threads of the stores."""
        if self._loaded is not None:
            self._loaded[1].close()


class CatalogueReads:
    """The catalogue of a session of a tenant.

    `options`: the parameters of the start-up packet. `facts`: see `Catalogue`.
    """

    def __init__(
        self,
        catalogues: Catalogues,
        calls: Calls,
        tenant: str,
        options: Mapping[str, str],
        settings: SessionSettings,
        facts: Callable[[], Facts],
    ) -> None:
        self._catalogues = catalogues
        every = lambda: {"started": catalogues.started, **facts()}  # noqa: E731
        self._parts = calls, tenant, options, settings, every
        self._catalogue: Any = None

    async def statement(self, text: str, types: Sequence[int]) -> Statement | None:
        """The statement over the catalogue; None for a SELECT over streams. Raises a PSoupError."""
        if self._catalogue is None:
            made, stores = await self._catalogues.loaded()
            self._catalogue = made(stores, *self._parts)
        statement: Statement | None = await self._catalogue.statement(text, types)
        return statement

    def close(self) -> None:
        """Note that the session has ended."""
        if self._catalogue is not None:
            self._catalogue.close()


def _load() -> tuple[Any, Any]:
    try:
        made, stores = map(import_module, _MODULES)
    except ModuleNotFoundError as problem:
        if problem.name != "duckdb":
            raise
        raise NotSupported(
            "a SELECT without a stream, or over pg_catalog, is not supported",
            hint="install DuckDB beside the service: pip install 'psoup[pg]'",
        ) from None
    return made, stores
