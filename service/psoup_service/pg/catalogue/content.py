"""The rows of the catalogue: for streams and queries, and the rows that a new PostgreSQL database has.

    stream "trades"     ─> pg_class (relkind r), a row of pg_attribute for each column; a table's key in pg_constraint
    query with a key    ─> pg_class (relkind v), its statement in the definitions

A column that this module does not fill has 0, false or an empty text, by its type. Columns of other types have NULL.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from psoup_proto.v1 import types_pb2
from psoup_service.pg.catalogue.relations import relations
from psoup_service.pg.catalogue.types import by_name, lines

STREAMS, QUERIES, SYSTEM, INFORMATION = 2200, 2201, 11, 13241
"""The OIDs of the schemas streams, queries, pg_catalog and information_schema."""

OWNER, DATABASE, HEAP, BTREE = 10, 5, 2, 403
"""The OIDs of the only role, the only database, and the access methods of tables and indexes."""

SEARCH_PATH = "streams, queries"
"""The schemas in which a name without a schema is looked for, in order."""

MOST_SHOWN = 65_000
"""The characters of a statement up to which the catalogue shows it whole."""

_FIRST_STREAM, _FIRST_QUERY, _LAST = 16_384, 1 << 27, 1 << 31
FILLED = frozenset(
    ("pg_catalog", name)
    for name in (
        *("pg_am", "pg_attribute", "pg_class", "pg_collation", "pg_constraint", "pg_description", "pg_index"),
        *("pg_language", "pg_namespace", "pg_proc", "pg_rewrite", "pg_tablespace", "pg_type"),
    )
)
"""The relations that are tables with rows. All further ones are views over them (module `views`)."""

_KINDS = {
    types_pb2.KIND_BOOLEAN: "bool",
    types_pb2.KIND_BIGINT: "int8",
    types_pb2.KIND_DOUBLE: "float8",
    types_pb2.KIND_DECIMAL: "numeric",
    types_pb2.KIND_TEXT: "text",
    types_pb2.KIND_TIMESTAMP: "timestamptz",
    types_pb2.KIND_DATE: "date",
}

Row = dict[str, Any]


@dataclass(slots=True)
class Content:
    """Rows by schema and relation. The schema `known` has the tables that functions read."""

    rows: dict[tuple[str, str], list[Row]] = field(default_factory=dict)

    def add(self, schema: str, name: str, rows: Iterable[Row]) -> None:
        """Add rows to a relation."""
        self.rows.setdefault((schema, name), []).extend(rows)


def system_content() -> Content:
    """The rows that a new PostgreSQL database has."""
    content = Content()
    _add_system(content)
    return content


def content_of(streams: Iterable[Any], queries: Iterable[Any], shadows: Collection[str]) -> Content:
    """The rows for streams and queries with keys, as the contract's lists give them.

    `shadows`: the names of all streams, in lower case. A view with such a name needs its schema.
    """
    content = Content()
    for stream in streams:
        _add_stream(content, stream)
    for query in queries:
        _add_query(content, query, query.key.lower() in shadows)
    return content


def oids_of_stream(number: int) -> tuple[int, int, int]:
    """The OIDs of a stream, of the index of its primary key, and of the constraint. `number`: of the stream's ID."""
    oid = _FIRST_STREAM + number * 4 % (_FIRST_QUERY - _FIRST_STREAM)
    return oid, oid + 1, oid + 2


def oid_of_query(number: int) -> int:
    """The OID of a query's view. `number`: of the query's ID."""
    return _FIRST_QUERY + number % (_LAST - _FIRST_QUERY)


def number_of(identity: str) -> int:
    """The number at the end of the ID of a stream or query."""
    return int(identity.rsplit("-", 1)[1])


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    plain = name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit() and name == name.lower()
    return name if plain and name not in reserved() else '"' + name.replace('"', '""') + '"'


@cache
def reserved() -> frozenset[str]:
    """The words that must be quoted as names."""
    return frozenset(word for word, kind in lines("keywords.tsv") if kind != "U")


def _add_system(content: Content) -> None:
    content.add(
        "pg_catalog",
        "pg_namespace",
        [
            {"oid": oid, "nspname": name, "nspowner": OWNER}
            for oid, name in (
                (SYSTEM, "pg_catalog"),
                (STREAMS, "streams"),
                (QUERIES, "queries"),
                (INFORMATION, "information_schema"),
            )
        ],
    )
    content.add("pg_catalog", "pg_am", [_am(HEAP, "heap", "t"), _am(BTREE, "btree", "i")])
    content.add("pg_catalog", "pg_tablespace", [_tablespace(1663, "pg_default"), _tablespace(1664, "pg_global")])
    content.add("pg_catalog", "pg_language", [_language(12, "internal"), _language(14, "sql")])
    content.add("pg_catalog", "pg_collation", [_collation(100, "default"), _collation(950, "C")])
    content.add("pg_catalog", "pg_type", map(_type_row, by_name().values()))
    content.add("pg_catalog", "pg_proc", map(_function_row, lines("procs.tsv")))
    content.add("known", "reserved", ({"word": word} for word, kind in lines("keywords.tsv") if kind != "U"))
    content.add("known", "keywords", ({"word": word, "catcode": kind} for word, kind in lines("keywords.tsv")))
    content.add(
        "known", "types", ({"oid": kind.oid, "name": kind.name, "shown": kind.shown} for kind in by_name().values())
    )
    for relation in relations().values():
        schema = SYSTEM if relation.schema == "pg_catalog" else INFORMATION
        columns = [(name, kind, -1, False) for name, kind in relation.columns.items()]
        _add_relation(content, relation.oid, relation.name, schema, relation.kind, columns)
        shown = quoted(relation.name) if schema == SYSTEM else f"{relation.schema}.{quoted(relation.name)}"
        _name(content, relation.oid, shown, relation.schema, relation.name, schema == SYSTEM)


def _am(oid: int, name: str, kind: str) -> Row:
    return {"oid": oid, "amname": name, "amtype": kind}


def _tablespace(oid: int, name: str) -> Row:
    return {"oid": oid, "spcname": name, "spcowner": OWNER}


def _language(oid: int, name: str) -> Row:
    return {"oid": oid, "lanname": name, "lanowner": OWNER}


def _collation(oid: int, name: str) -> Row:
    return {"oid": oid, "collname": name, "collnamespace": SYSTEM, "collowner": OWNER, "collencoding": -1}


def _type_row(kind: Any) -> Row:
    row = kind.row
    return {
        "oid": kind.oid,
        "typname": kind.name,
        "typnamespace": SYSTEM,
        "typowner": OWNER,
        "typlen": int(row[2]),
        "typbyval": row[3] == "t",
        "typtype": row[4],
        "typcategory": row[5],
        "typispreferred": row[6] == "t",
        "typisdefined": True,
        "typdelim": row[7],
        "typelem": kind.element,
        "typarray": kind.array,
        "typinput": int(row[10]),
        "typoutput": int(row[11]),
        "typreceive": int(row[12]),
        "typsend": int(row[13]),
        "typmodin": int(row[14]),
        "typmodout": int(row[15]),
        "typalign": row[16],
        "typstorage": row[17],
        "typtypmod": -1,
        "typcollation": int(row[18]),
        "typsubscript": int(row[19]),
    }


def _function_row(row: Sequence[str]) -> Row:
    arguments = [int(oid) for oid in row[3].split()]
    return {
        "oid": int(row[0]),
        "proname": row[1],
        "pronamespace": SYSTEM,
        "proowner": OWNER,
        "prolang": 12,
        "prokind": "f",
        "provolatile": "i",
        "prorettype": int(row[2]),
        "proargtypes": arguments,
        "pronargs": len(arguments),
        "prosrc": row[1],
    }


def _columns(columns: Iterable[Any]) -> Iterator[tuple[str, str, int, bool]]:
    for column in columns:
        kind = _KINDS.get(column.type.kind, "text")
        modifier = (column.type.precision << 16 | column.type.scale) + 4 if kind == "numeric" else -1
        yield column.name, kind, modifier, not column.nullable


def _add_relation(
    content: Content,
    oid: int,
    name: str,
    schema: int,
    kind: str,
    columns: Sequence[tuple[str, str, int, bool]],
    **more: Any,
) -> None:
    content.add(
        "pg_catalog",
        "pg_class",
        [
            {
                "oid": oid,
                "relname": name,
                "relnamespace": schema,
                "relowner": OWNER,
                "relam": {"r": HEAP, "i": BTREE}.get(kind, 0),
                "relkind": kind,
                "relpersistence": "p",
                "relnatts": len(columns),
                "relreplident": "d" if kind == "r" else "n",
                "relispopulated": True,
                "relhasrules": kind == "v",
                "reltuples": -1.0,
                **more,
            }
        ],
    )
    content.add(
        "pg_catalog",
        "pg_attribute",
        (_attribute(oid, at + 1, *column) for at, column in enumerate(columns)),
    )


def _attribute(oid: int, number: int, name: str, kind: str, modifier: int, required: bool) -> Row:
    type_of_column = by_name()[kind]
    return {
        "attrelid": oid,
        "attname": name,
        "atttypid": type_of_column.oid,
        "attstattarget": -1,
        "attlen": int(type_of_column.row[2]),
        "attnum": number,
        "attcacheoff": -1,
        "atttypmod": modifier,
        "attbyval": type_of_column.row[3] == "t",
        "attalign": type_of_column.row[16],
        "attstorage": type_of_column.row[17],
        "attnotnull": required,
        "attislocal": True,
        "attcollation": int(type_of_column.row[18]),
    }


def _shown(statement: str) -> str:
    """The beginning of a statement, so that work over all definitions stays small."""
    return statement if len(statement) <= MOST_SHOWN else f"{statement[:MOST_SHOWN]} /* and so on */"


def _name(content: Content, oid: int, shown: str, schema: str, name: str, visible: bool) -> None:
    spelled = {f"{schema}.{quoted(name)}", f'"{schema}"."{name}"', f'{schema}."{name}"'}
    if visible:
        spelled |= {quoted(name), f'"{name}"'}
        content.add("known", "visible", [{"oid": oid}])
    content.add("known", "names", ({"oid": oid, "name": text} for text in sorted(spelled)))
    content.add("known", "shown", [{"oid": oid, "shown": shown}])


def _add_stream(content: Content, stream: Any) -> None:
    oid, key = oids_of_stream(number_of(stream.stream_id))[0], list(stream.primary_key)
    columns = list(_columns(stream.columns))
    more = {"reltuples": float(stream.tuples), "relhasindex": bool(key)}
    _add_relation(content, oid, stream.name, STREAMS, "r", columns, **more)
    _name(content, oid, quoted(stream.name), "streams", stream.name, True)
    if stream.statement:
        comment = {"objoid": oid, "classoid": 1259, "description": _shown(stream.statement)}
        content.add("pg_catalog", "pg_description", [comment])
    if key:
        _add_key(content, oid, stream, key)


def _add_key(content: Content, oid: int, stream: Any, key: Sequence[str]) -> None:
    names = [column.name.lower() for column in stream.columns]
    numbers = [names.index(name.lower()) + 1 for name in key]
    columns = [(*column[:3], False) for column in _columns(stream.columns[number - 1] for number in numbers)]
    name = f"{stream.name}_pkey"
    _add_relation(content, oid + 1, name, STREAMS, "i", columns)
    _name(content, oid + 1, quoted(name), "streams", name, True)
    listed = ", ".join(quoted(column) for column in key)
    where = f"{quoted(stream.name)} USING btree ({listed})"
    content.add(
        "known",
        "indexes",
        [
            {
                "oid": oid + 1,
                "definition": f"CREATE UNIQUE INDEX {quoted(name)} ON streams.{where}",
                "columns": [quoted(column) for column in key],
            }
        ],
    )
    content.add("known", "constraints", [{"oid": oid + 2, "definition": f"PRIMARY KEY ({listed})"}])
    content.add("pg_catalog", "pg_index", [_index(oid, numbers)])
    content.add("pg_catalog", "pg_constraint", [_constraint(oid, name, numbers)])


def _index(oid: int, numbers: Sequence[int]) -> Row:
    """The row of a primary key in pg_index. `numbers`: of its columns, from 1."""
    zeros = [0] * len(numbers)
    return {
        "indexrelid": oid + 1,
        "indrelid": oid,
        "indnatts": len(numbers),
        "indnkeyatts": len(numbers),
        "indisunique": True,
        "indisprimary": True,
        "indimmediate": True,
        "indisvalid": True,
        "indisready": True,
        "indislive": True,
        "indkey": numbers,
        "indcollation": zeros,
        "indclass": zeros,
        "indoption": zeros,
    }


def _constraint(oid: int, name: str, numbers: Sequence[int]) -> Row:
    """The row of a primary key in pg_constraint."""
    return {
        "oid": oid + 2,
        "conname": name,
        "connamespace": STREAMS,
        "contype": "p",
        "convalidated": True,
        "conrelid": oid,
        "conindid": oid + 1,
        "conislocal": True,
        "connoinherit": True,
        "conkey": numbers,
    }


def _add_query(content: Content, query: Any, shadowed: bool) -> None:
    oid = oid_of_query(number_of(query.query_id))
    columns = [(*column[:3], False) for column in _columns(query.columns)]
    _add_relation(content, oid, query.key, QUERIES, "v", columns)
    shown = f"queries.{quoted(query.key)}" if shadowed else quoted(query.key)
    _name(content, oid, shown, "queries", query.key, not shadowed)
    content.add("known", "definitions", [{"oid": oid, "definition": _shown(query.statement.strip().rstrip(";")) + ";"}])
    content.add(
        "pg_catalog",
        "pg_rewrite",
        [{"oid": oid, "rulename": "_RETURN", "ev_class": oid, "ev_type": "1", "ev_enabled": "O", "is_instead": True}],
    )
