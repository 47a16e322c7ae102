"""The catalogue of a connection: it reads statements, and runs them over the streams and queries of the caller."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from psoup_service.pg.calls import Calls
from psoup_service.pg.catalogue.statement import CatalogueStatement, Prepared, Reading, Variables, prepared
from psoup_service.pg.catalogue.stores import Stores, Visitor
from psoup_service.pg.catalogue.types import by_oid
from psoup_service.pg.contract import Statement
from psoup_service.pg.statements.settings import SessionSettings

VERSION = "PostgreSQL 15.0 (PSoup)"


class Catalogue:
    """Statements over `pg_catalog` and `information_schema`. `options`: the parameters of the start-up packet.

    `tenant`: of the connection. `facts`: returns the facts of the session that change: its number (`pid`), its open
    cursors (see `Cursors.listed`), and the start of the port.
    """

    def __init__(
        self,
        stores: Stores,
        calls: Calls,
        tenant: str,
        options: Mapping[str, str],
        settings: SessionSettings,
        facts: Callable[[], Variables],
    ) -> None:
        self._facts = facts
        self._stores = stores
        self._tenant = tenant
        self._settings = settings
        self._reading = Reading(stores, Visitor(calls), tenant, settings, self._variables)
        user = options.get("user", "")
        self._values = {
            "user": user,
            "database": options.get("database") or user,
            "version": VERSION,
        }

    async def statement(self, text: str, types: Sequence[int] = ()) -> Statement | None:
        """The SELECT over the catalogue; None for a SELECT that reads streams only. Raises a PSoupError.

        `types`: OIDs of its parameters, 0 for unknown ones.
        """
        types_by_oid = by_oid()
        parameters = [types_by_oid[oid].name if oid in types_by_oid else "" for oid in types]
        schemas = self._settings.schemas
        values = {**self._values, "schema": schemas[0] if schemas else "", "schemas": ",".join(schemas)}
        work = lambda: prepared(text, values, parameters)  # noqa: E731
        statement: Prepared | None = await self._stores.read(self._tenant, len(text), work)
        if statement is None:
            return None
        self._stores.mention(statement.strange)
        return CatalogueStatement(self._reading, statement)

    def close(self) -> None:
        """Note that the connection has ended."""
        self._stores.leave(self._reading.visitor)

    def _variables(self) -> Variables:
        settings = {name.lower(): self._settings.get(name) for name in self._settings}
        return {
            **self._facts(),
            **{name: self._values[name] for name in ("user", "database", "version")},
            "settings": settings,
        }
