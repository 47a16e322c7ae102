"""EXPLAIN: the plan of a SELECT, as the calls Check and Explain give it.

    EXPLAIN SELECT * FROM queries.k ──> Explain: how the query is kept
    EXPLAIN SELECT … FROM trades    ──> Check: the nodes of the plan
    EXPLAIN ANALYZE SELECT …        ──> the same, then Ask: the number of rows

The plan is a text for people, or JSON for programs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from google.protobuf.json_format import MessageToDict

from psoup.errors import ResourceExhausted
from psoup.sql import first_word
from psoup_proto.v1 import queries_pb2
from psoup_service.pg.contract import Argument, Column, Description, Notice, Sink, Statement
from psoup_service.pg.rows_only import RowsOnly
from psoup_service.pg.statement_texts import QUERY_WORDS
from psoup_service.pg.statements.selects import Select
from psoup_service.pg.statements.words import Words
from psoup_service.pg.values.types import JSON, TEXT_OID

_ON, _OFF = frozenset({"", "ON", "TRUE", "1"}), frozenset({"OFF", "FALSE", "0"})
_FREE = frozenset({"VERBOSE", "COSTS", "SUMMARY"})
"""Options that may be on or off without an effect: a plan always has all details, and never costs."""

_REFUSED = frozenset({"BUFFERS", "WAL", "SETTINGS", "TIMING", "GENERIC_PLAN", "MEMORY", "SERIALIZE"})
"""Options that may be off only."""

_FRAME = "psoup.as_of and psoup.window are left out: this is the plan for the present and the statement's own window"
_PATTERN = "UPDATE_PATTERN_"

Explained = queries_pb2.CheckResponse | queries_pb2.ExplainResponse


@dataclass(frozen=True, slots=True)
class _Options:
    """The options of an EXPLAIN. `form`: TEXT or JSON. `analyze`: the SELECT runs, and its rows are counted."""

    form: str = "TEXT"
    analyze: bool = False


async def read_explain(words: Words, read: Callable[[str], Awaitable[Statement]]) -> Statement:
    """EXPLAIN, after its first word. `read`: reads a SELECT. Raises SqlError."""
    options = _listed(words) if words.accept("(") else _old(words)
    place = words.place
    word = first_word(words.rest)
    if not words.next():
        raise words.unexpected("a SELECT")
    if word not in QUERY_WORDS:
        raise words.source.unsupported(f"EXPLAIN {word}", place, hint="only a SELECT has a plan")
    select = await read(words.rest_in_place)
    if not isinstance(select, Select):
        hint = "only a SELECT over streams and queries has a plan"
        raise words.source.unsupported("EXPLAIN of a SELECT over the catalogue", place, hint=hint)
    return _Explain(select, options)


def _listed(words: Words) -> _Options:
    """Read options in parentheses: ANALYZE, FORMAT JSON, BUFFERS OFF. Raises SqlError."""
    form, analyze = "TEXT", False
    while True:
        place, name = words.place, words.name().upper()
        value = "" if words.next() in (",", ")") else words.value().upper()
        if name == "FORMAT":
            if value not in ("TEXT", "JSON"):
                raise words.source.unsupported(f"FORMAT {value[:20]}", place, hint="write FORMAT TEXT or FORMAT JSON")
            form = value
        elif value not in _ON | _OFF:
            raise words.source.error(f"{name[:40]} is on or off, and not {value[:20]!r}", place)
        elif name in ("ANALYZE", "ANALYSE"):
            analyze = value in _ON
        elif name not in _FREE and not (name in _REFUSED and value in _OFF):
            raise words.source.unsupported(f"EXPLAIN ({name[:40]})", place, hint="leave the option out")
        if not words.accept(","):
            break
    words.expect(")")
    return _Options(form, analyze)


def _old(words: Words) -> _Options:
    """Read options without parentheses: ANALYZE VERBOSE."""
    analyze = words.accept("ANALYZE") or words.accept("ANALYSE")
    words.accept("VERBOSE")
    return _Options("TEXT", analyze)


class _Explain:
    """See `contract.Statement`."""

    def __init__(self, select: Select, options: _Options) -> None:
        self._select = select
        self._options = options
        self._columns = (Column("QUERY PLAN", JSON if options.form == "JSON" else TEXT_OID),)

    async def describe(self) -> Description:
        """The parameters of the SELECT, and the column of the plan."""
        return Description((await self._select.describe()).parameters, self._columns)

    async def run(self, arguments: Sequence[Argument], sink: Sink) -> str:
        """Send the plan."""
        explained = await self._select.explained(arguments)
        if self._select.in_another_frame:
            explained.notes.append(_FRAME)
        ran = await _run(self._select, arguments) if self._options.analyze else None
        lines = [_json(explained, ran)] if self._options.form == "JSON" else _lines(explained, ran)
        await sink.begin(self._columns)
        await sink.batch(pa.RecordBatch.from_arrays([pa.array(lines, pa.string())], ["QUERY PLAN"]))
        return "EXPLAIN"


async def _run(select: Select, arguments: Sequence[Argument]) -> tuple[int, float]:
    """Run a SELECT. Returns the number of its rows, and the milliseconds."""
    sink, start = _Counter(), time.perf_counter()
    await select.run(arguments, sink)
    return sink.rows, (time.perf_counter() - start) * 1e3


def _lines(explained: Explained, ran: tuple[int, float] | None) -> list[str]:
    """The plan for people, line by line."""
    if isinstance(explained, queries_pb2.ExplainResponse):
        lines = list(explained.lines)
    else:
        lines = _tree(explained.nodes)
    lines += [f"Note: {note}" for note in explained.notes]
    if ran is not None:
        lines += [f"Rows: {ran[0]}", f"Execution Time: {ran[1]:.3f} ms"]
    return lines


def _tree(nodes: Sequence[queries_pb2.PlanNode]) -> list[str]:
    """A line for each node, indented below the node that reads it. Figures of a node follow it."""
    lines, depths = list[str](), [0] * len(nodes)
    for node in nodes:
        for place in node.inputs:
            depths[place] = depths[node.id] + 1
        depth = depths[node.id]
        arrow = "      " * (depth - 1) + "  ->  " if depth else ""
        lines.append(f"{arrow}{node.text}  ({', '.join([_pattern(node.update_pattern), *node.clocks])})")
        lines += [f"{'      ' * depth}  state: {node.state.text}"] if _has_state(node) else []
        lines += [f"{'      ' * depth}  {name}: {value:g}" for name, value in sorted(node.figures.items())]
    return lines


def _json(explained: Explained, ran: tuple[int, float] | None) -> str:
    """The plan for programs, in the form of PostgreSQL: each node has its inputs as `Plans`.

    Raises ResourceExhausted for a plan that is too deep for JSON.
    """
    plans = [_fields(node) for node in explained.nodes]
    for node, fields in zip(explained.nodes, plans, strict=True):
        if node.inputs:
            fields["Plans"] = [plans[place] for place in node.inputs]
    whole: dict[str, Any] = {"Plan": plans[0] if plans else {}}
    if explained.notes:
        whole["Notes"] = list(explained.notes)
    if isinstance(explained, queries_pb2.ExplainResponse):
        whole["Query"] = {name: value for name, value in MessageToDict(explained.details).items() if name != "plan"}
    if ran is not None:
        whole |= {"Rows": ran[0], "Execution Time": round(ran[1], 3)}
    try:
        return json.dumps([_with_integers(whole)], indent=2, ensure_ascii=False)
    except RecursionError:
        raise ResourceExhausted("the plan is too deep for JSON; ask for FORMAT TEXT", reason="TOO_DEEP") from None


def _has_state(node: queries_pb2.PlanNode) -> bool:
    """Whether keeping the rows of a node up to date takes a state, perhaps one without a bound."""
    return not (node.state.HasField("rows") and node.state.rows == 0)


def _fields(node: queries_pb2.PlanNode) -> dict[str, Any]:
    fields: dict[str, Any] = {"Node Type": node.operator, "Text": node.text, "Update": _pattern(node.update_pattern)}
    if node.clocks:
        fields["Clocks"] = list(node.clocks)
    if _has_state(node):
        fields["State"] = node.state.text
    return fields | dict(sorted(node.figures.items())) | dict(sorted(node.facts.items()))


def _with_integers(value: Any) -> Any:
    """The value with integers in the place of whole doubles: the messages have doubles only."""
    if isinstance(value, dict):
        return {name: _with_integers(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_with_integers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _pattern(value: queries_pb2.UpdatePattern.ValueType) -> str:
    return queries_pb2.UpdatePattern.Name(value).removeprefix(_PATTERN).lower().replace("_", " ")


class _Counter(RowsOnly):
    """A sink that counts rows. See `contract.Sink`."""

    def __init__(self) -> None:
        self.rows = 0

    async def begin(self, columns: Sequence[Column]) -> None:
        """Take the columns."""

    async def batch(self, rows: pa.RecordBatch) -> None:
        """Count rows."""
        self.rows += rows.num_rows

    def notice(self, notice: Notice) -> None:
        """Leave out a notice."""
