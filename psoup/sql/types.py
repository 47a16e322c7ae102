"""The names of types and of time units, and what they are here.

    BOOLEAN BOOL · BIGINT INT INTEGER SMALLINT TINYINT · DOUBLE FLOAT REAL · DECIMAL NUMERIC
    TEXT VARCHAR CHAR STRING · TIMESTAMP DATETIME · DATE

Narrow integers and floats are kept in the wide form, and a length of VARCHAR is not enforced, as in DuckDB; a new
stream is refused for one (`vague`).
"""

from __future__ import annotations

from sqlglot import exp

from psoup.model import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    MAX_DECIMAL_PRECISION,
    TEXT,
    TIMESTAMP,
    DataType,
    decimal,
)
from psoup.sql.source import Place, StatementText

_T = exp.DataType.Type
_TYPES: dict[exp.DType, DataType] = {
    _T.BOOLEAN: BOOLEAN,
    _T.BIGINT: BIGINT,
    _T.INT: BIGINT,
    _T.MEDIUMINT: BIGINT,
    _T.SMALLINT: BIGINT,
    _T.TINYINT: BIGINT,
    _T.DOUBLE: DOUBLE,
    _T.FLOAT: DOUBLE,
    _T.TEXT: TEXT,
    _T.VARCHAR: TEXT,
    _T.CHAR: TEXT,
    _T.TIMESTAMP: TIMESTAMP,
    _T.TIMESTAMPNTZ: TIMESTAMP,
    _T.DATETIME: TIMESTAMP,
    _T.DATE: DATE,
}
_DECIMALS = frozenset({_T.DECIMAL})
_WITH_LENGTH = frozenset({_T.VARCHAR, _T.CHAR, _T.TEXT})
KNOWN = "BOOLEAN, BIGINT, DOUBLE, DECIMAL(p, s), TEXT, TIMESTAMP and DATE"


def unit_name(word: str) -> str:
    """A unit's upper-case singular name, whether or not it is known."""
    word = word.upper()
    return word[:-1] if word.endswith("S") else word


def data_type(source: StatementText, node: exp.Expr) -> DataType:
    """The type that `node` (an exp.DataType) names; NotSupported for others."""
    kind = node.this
    params = [param.this for param in node.expressions]
    at = node
    if kind in _DECIMALS:
        return _decimal(source, params, at)
    found = _TYPES.get(kind) if isinstance(node, exp.DataType) else None
    if found is None or node.args.get("nested"):
        raise source.unsupported(f"the type {source.written(node)}", at, hint=f"the types are {KNOWN}")
    if params and kind not in _WITH_LENGTH:
        raise source.error(f"{found} takes no length", at)
    return found


def _decimal(source: StatementText, params: list[exp.Expr], at: Place) -> DataType:
    """DECIMAL is DECIMAL(18, 3) and DECIMAL(p) is DECIMAL(p, 0), as in DuckDB."""
    if not all(isinstance(p, exp.Literal) and not p.is_string and str(p.this).isdecimal() for p in params):
        raise source.error("DECIMAL takes two whole numbers: its digits, and those after the point", at)
    sizes = [int(str(param.this)[:9]) for param in params]
    precision, scale = [*sizes, 0][:2] if sizes else (MAX_DECIMAL_PRECISION, 3)
    if len(sizes) > 2 or not 1 <= precision <= MAX_DECIMAL_PRECISION or not 0 <= scale <= precision:
        shown = ", ".join(str(size) for size in sizes)
        raise source.error(
            f"DECIMAL({shown}) is out of range", at, hint="DECIMAL(p, s) needs 1 <= p <= 18 and 0 <= s <= p"
        )
    return decimal(precision, scale)
