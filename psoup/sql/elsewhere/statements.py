"""Statements of other systems by their first word, or by the object they create, each with the advice for PSoup."""

from __future__ import annotations

from psoup.sql.elsewhere.phrases import DERIVE

_WATCH = "register the SELECT; watch([client.copy(query)]) has each change, psoup recharge keeps copies up to date"
_ENDS = "psoup unregister ID, or unregister(query), ends a query"
_LISTS = "see psoup stream list, psoup queries; streams(), describe(name), queries()"
_PUSH = "rows come in by a push: psoup push STREAM FILE, push(stream, rows); CREATE TABLE is for rows that change"
_SETTINGS = "settings are those of the service: psoup serve --help, psoup.toml"

STATEMENTS: dict[str, str] = {
    **dict.fromkeys(("SUBSCRIBE", "TAIL", "LISTEN", "PRINT", "FETCH", "CURSOR", "DECLARE"), _WATCH),
    **dict.fromkeys(("DESC", "LIST", "PRAGMA", "SUMMARIZE", "HELP"), _LISTS),
    **dict.fromkeys(("REPLACE", "UPSERT", "MERGE", "IMPORT"), _PUSH),
    **dict.fromkeys(
        ("TERMINATE", "KILL", "PAUSE", "RESUME"), f"{_ENDS}; ALTER STREAM name SUSPEND halts a derived stream"
    ),
    **dict.fromkeys(("SET", "RESET", "USE", "ATTACH", "DETACH"), _SETTINGS),
    **dict.fromkeys(("TABLE", "VALUES"), "write SELECT … FROM stream"),
    **dict.fromkeys(("CACHE", "REFRESH", "ANALYZE", "OPTIMIZE", "VACUUM"), "it is not needed: answers are kept ready"),
    **dict.fromkeys(("GRANT", "REVOKE"), "rights go with tokens: psoup token --help"),
    **dict.fromkeys(("COMMIT", "ROLLBACK", "START"), "each statement and each push is a transaction of its own"),
}
"""The advice for each statement that PSoup refuses, by its first word."""

CREATED: dict[str, str] = {
    **dict.fromkeys(
        ("SOURCE", "FOREIGN"), "write CREATE STREAM name (column TYPE, ...), or CREATE TABLE for rows that change"
    ),
    **dict.fromkeys(("VIEW", "MATERIALIZED", "CONTINUOUS", "LIVE"), DERIVE),
    "SINK": "watch([client.copy(query)]) has each change of an answer; psoup recharge keeps copies up to date",
    "INDEX": "no index is declared: PSoup makes and drops its own as queries need them",
    **dict.fromkeys(("FUNCTION", "AGGREGATE"), "an operator adds functions: psoup serve --functions"),
    **dict.fromkeys(("USER", "ROLE"), "rights go with tokens: psoup token --help"),
    **dict.fromkeys(("DATABASE", "SCHEMA"), "a stream has one name; tenants are apart by their tokens"),
    **dict.fromkeys(("OR", "TEMP", "TEMPORARY"), "write CREATE STREAM name (column TYPE, ...)"),
}
"""The advice for each CREATE statement that PSoup refuses, by the word after CREATE."""
