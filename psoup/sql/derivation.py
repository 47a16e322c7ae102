"""Derived streams: from the syntax tree of CREATE STREAM … AS to a `StreamSpec`, and the query of its SELECT.

    SELECT text ── bound to the sources, with their columns at CREATE ──> StandingQuery ── its shape ──> Derivation

A stream can be derived by a query that needs no state: a selection from one stream, an inner join of streams, a join
with a table AS OF a stream. It may have one operator with state over them (`psoup.plan.derived_shape`) if windows bound
that state. Every other query is refused with the name of what it needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from psoup.derivation import INSTANT, Derivation, DerivedSource, StreamOperator
from psoup.expressions.supplied_functions import used_in
from psoup.expressions.tree import reads_now
from psoup.model import RESERVED_NAMES, STREAMED, Anchor, Attribute, Schema, StreamSpec, WindowClause
from psoup.phrases import counted
from psoup.plan.canonical import describe_duration
from psoup.plan.derived_shape import Stateful, is_admitted, shape_of, stateful_nodes
from psoup.plan.derived_stays import Stays, stays_of
from psoup.plan.inputs import Source
from psoup.plan.nodes import (
    Aggregate,
    Distinct,
    Filter,
    Having,
    Hop,
    Join,
    JoinKind,
    LastRows,
    Limit,
    Node,
    Over,
    PartnerJoin,
    Project,
    Relation,
    SetOperation,
    Sort,
    walk,
)
from psoup.plan.standing_query import StandingQuery
from psoup.sql.ddl import (
    MAX_ATTRIBUTES,
    check_name,
    create_statement,
    retention_of,
    stated_name,
    with_derivation,
)
from psoup.sql.derive_options import DeriveOptions, derive_options
from psoup.sql.derived_bounds import refuse_unbounded
from psoup.sql.derived_places import place_of, place_of_source, place_of_word, places_of_columns
from psoup.sql.derived_ticks import refuse_for_ticks, tick_width
from psoup.sql.parser.guards import MAX_BYTES
from psoup.sql.parser.syntax import DeriveNode
from psoup.sql.queries import query_of
from psoup.sql.select import Lookup
from psoup.sql.source import StatementText
from psoup.sql.time_domains import EVENT_TIME, time_domain

_IN_ORDER = ("first", "last", "any_value", "string_agg")
"""Aggregates whose result depends on the order of rows. A pump has the rows of a join in the order of instants."""
_EVERY = "write EVERY 1 MINUTE after the SELECT"
"""The way out for SELECTs that a pump can only evaluate as a whole."""
_NAMES_TO_READ = "query the derived stream instead, as in SELECT … FROM {}"


def derived_spec(source: StatementText, node: DeriveNode, lookup: Lookup, names: Sequence[str] = ()) -> StreamSpec:
    """The stream of a `DeriveNode`. Its sources have no stream IDs yet. Raises SqlError."""
    start, end = node.args["start"], node.args["end"]
    options = derive_options(source, node)
    inside = source.text[start:end]
    select = inside.strip()
    part = StatementText(select)
    begin = start + len(inside) - len(inside.lstrip())
    if not select:
        hint = "write the SELECT in the parentheses: CREATE STREAM name AS (SELECT … FROM …)"
        raise source.error("the SELECT of the stream is empty", start, hint=hint)
    with source.containing(part, begin):
        query = query_of(part, lookup, names)
    start = begin
    name = stated_name(source, node.this, "stream")
    if options.every is None:
        _refuse(source, query, start, name)
        if options.state_limit is None:
            widths, leaves = stays(query, options.operator).widths, options.operator is StreamOperator.DSTREAM
            refuse_unbounded(source, query, widths, start, leaves=leaves)
    else:
        refuse_for_ticks(source, query, start, name, options.state_limit)
    _refuse_empty(source, query, options, start)
    columns = _columns(source, node, query, start)
    sources = tuple(
        [
            DerivedSource(each.spec.name, 0, len(each.spec.schema.attributes), width)
            for each, width in zip(query.sources, _widths(query, options), strict=True)
        ]
    )
    retention = retention_of(source, node.args.get("retention"), node.args.get("archive"))
    event_time, from_now = _is_in_event_time(query), node.args.get("begins") == "NOW"
    spec = StreamSpec(name, Schema(columns), retention=retention)
    _check_length(source, spec, start)
    return with_derivation(spec, Derivation(select, sources, event_time, from_now, *options))


def _is_in_event_time(query: StandingQuery) -> bool:
    """Whether the instants are times of an event-time source. Tables count only where there are only tables."""
    streams = [each.spec for each in query.sources if each.spec.table is None]
    if streams:
        return time_domain(streams[0]) == EVENT_TIME
    return all(each.spec.event_time for each in query.sources)


def _check_length(source: StatementText, spec: StreamSpec, at: int) -> None:
    """Raise SqlError if the columns are too long for a statement. The log has them as one, and a start reads it."""
    size = len(create_statement(spec).encode())
    if size > MAX_BYTES:
        problem = f"the names of the {len(spec.declared):,} columns have {size:,} bytes, and {MAX_BYTES:,} is the most"
        raise source.error(problem, at, hint="select fewer columns, or give them shorter names")


def bound_derivation(derived: Derivation, lookup: Lookup) -> StandingQuery:
    """The query of a derivation, with the columns that its sources had at CREATE.

    `lookup`: finds the present definition of a source. Raises SqlError if the SELECT cannot be bound any more.
    """
    columns = {source.name.lower(): source.columns for source in derived.sources}

    def then(name: str) -> StreamSpec | None:
        spec, count = lookup(name), columns.get(name.lower())
        if spec is None or count is None or count == len(spec.schema.attributes):
            return spec
        return replace(spec, schema=Schema(spec.schema.attributes[:count]))

    return query_of(StatementText(derived.select), then)


def stays(query: StandingQuery, operator: StreamOperator = StreamOperator.ISTREAM) -> Stays:
    """The stays of the tuples of each source in their windows."""
    return stays_of(query.sources, shape_of(query.plan), leaves=operator is StreamOperator.DSTREAM)


def _widths(query: StandingQuery, options: DeriveOptions) -> list[int | None]:
    """The `DerivedSource.width` of each source: how long a pump needs a tuple after its time.

    An operator with state needs a tuple until it has left. A table AS OF a stream needs the versions at the times of
    the tuples that a pump still reads.
    """
    if options.every is not None:
        return [tick_width(source, options.every) for source in query.sources]
    shape, (lates, widths, _) = shape_of(query.plan), stays(query, options.operator)
    if options.operator is StreamOperator.DSTREAM or (shape is not None and shape.operator is not None):
        needed = read = [None if width is None else width + 1 for width in widths]
    else:
        read = list(lates)
        needed = read if len(query.sources) == 1 else list(widths)
    return [needed[each.place] if each.as_of is None else read[each.as_of] for each in query.sources]


def _columns(source: StatementText, node: DeriveNode, query: StandingQuery, start: int) -> tuple[Attribute, ...]:
    stated = [stated_name(source, name, "column") for name in node.expressions]
    outputs = query.select
    if stated and len(stated) != len(outputs):
        names = counted(len(stated), "name of a column", "names of columns")
        problem = f"the stream has {names}, and the SELECT {counted(len(outputs), 'column')}"
        hint = f"give {counted(len(outputs), 'name')} after the name of the stream, or none"
        raise source.error(problem, node.expressions[0], hint=hint)
    if len(outputs) > MAX_ATTRIBUTES:
        raise source.error(f"a stream has at most {MAX_ATTRIBUTES:,} columns", start)
    columns, seen, places = list[Attribute](), set[str](), places_of_columns(source, start)
    for place, output in enumerate(outputs):
        name = stated[place] if stated else output.name
        at = node.expressions[place] if stated else places.get(output.name.lower(), start)
        check_name(source, name, at, "column", "; write SELECT … AS name")
        if name.lower() in RESERVED_NAMES or name.lower() == INSTANT:
            hint = f"write SELECT … {output.name} AS another_name: every stream has {name} already"
            raise source.error(f"{name!r} is reserved", at, hint=hint)
        if name.lower() in seen:
            hint = "give the columns names: CREATE STREAM name (a, b) AS (SELECT …), or SELECT … AS b"
            raise source.error(f"two columns are called {name!r}", at, hint=hint)
        if output.type.kind not in STREAMED:
            hint = f"write CAST(… AS DECIMAL(18, {output.type.scale})) AS {name}"
            raise source.error(f"column {name!r} is {output.type}, which no stream has", at, hint=hint)
        seen.add(name.lower())
        columns.append(Attribute(name, replace(output.type, beside=0)))
    return tuple(columns)


def _refuse(source: StatementText, query: StandingQuery, at: int, name: str) -> None:
    """Raise NotSupported for a SELECT that no pump can run, or whose answer changes without new tuples."""
    if any(reads_now(output.expr) for output in query.select):
        hint = "leave it out; the tuples of the stream have _time"
        feature = "now() in a derived stream"
        raise source.unsupported(feature, place_of(source, at, feature), hint=hint)
    feature, hint = _feature(query.plan, name)
    if not feature:
        feature, hint = _of_sources(query)
    if not feature and (supplied := used_in([query.text])):
        hint = f"select its arguments, and call it in the queries over {name}"
        place = place_of_word(source, at, supplied[0].partition("(")[0])
        raise source.unsupported("a supplied function in a derived stream", place, hint=hint, yet=True)
    if feature:
        raise source.unsupported(feature, place_of(source, at, feature), hint=hint, yet=True)


def _refuse_empty(source: StatementText, query: StandingQuery, options: DeriveOptions, at: int) -> None:
    """Raise SqlError for a window that is always empty."""
    lates, widths, _ = stays(query, options.operator)
    for each, late, width in zip(query.sources, lates, widths, strict=True):
        if width is not None and late > width:
            raise source.error(
                f"the tuples of {each.spec.name!r} leave after {describe_duration(width)}, before they come in: their"
                f" window ends {describe_duration(late)} before NOW",
                place_of_source(source, at, query.sources, each.place),
                hint=f"create {each.spec.name} with a longer RETENTION, or write a window in brackets",
            )


def _feature(plan: Node, name: str) -> tuple[str, str]:
    """The first operator that a derived stream cannot have yet, and the way out. Two empty texts without one."""
    later = _NAMES_TO_READ.format(name)
    shape = shape_of(plan)
    if shape is not None:
        return _of_measures(shape.operator)
    for _, node in walk(plan):
        match node:
            case Project() | Filter() | Having() | Source() | Join() | Distinct() | Aggregate():
                pass
            case PartnerJoin() if node.kind is JoinKind.AS_OF:
                pass
            case PartnerJoin() if not is_admitted(node):
                hint = "JOIN … AS OF, without LEFT" if node.kind.is_as_of else "a LEFT JOIN, EXISTS or NOT EXISTS"
                if node.kind.is_as_of:
                    return f"{node.kind.value} in a derived stream", f"{_EVERY}, or write {hint}"
                return f"{node.kind.value} in a derived stream", f"{_EVERY}, or write an inner JOIN, or {hint}"
            case PartnerJoin():
                pass
            case Sort() | Limit():
                return "ORDER BY, LIMIT or OFFSET in a derived stream", f"{_EVERY}, or write it when you {later}"
            case Hop():
                way = f"{_EVERY}, or select the rows, and {later} GROUP BY …"
                return "windows of GROUP BY in a derived stream", way
            case Over():
                return "OVER in a derived stream", f"{_EVERY}, or select the rows, and {later}"
            case LastRows():
                return "a window of rows in a derived stream", f"{_EVERY}, or a window in time, as in [RANGE 1 HOUR]"
            case Relation() if isinstance(node.input, SetOperation):
                pass
            case SetOperation():
                pass
            case _:
                return "a subselect in a derived stream", f"{_EVERY}, or an inner JOIN, or a join with a table AS OF"
    first, *_ = stateful_nodes(plan)
    way = f"{_EVERY}, or derive a stream from the inner SELECT first"
    return f"{first.label} over another operator in a derived stream", way


def _of_measures(operator: Stateful | None) -> tuple[str, str]:
    """The first measure over a join that depends on the order of its rows, and the way out. Two empty texts without
    one."""
    if isinstance(operator, Aggregate) and len(operator.sources) > 1:
        for measure in operator.measures:
            if measure.function in _IN_ORDER:
                return f"{measure.function} over a join in a derived stream", "derive a stream from the join first"
    return "", ""


def _of_sources(query: StandingQuery) -> tuple[str, str]:
    """The first property of a source that no derived stream can have yet, and the way out. Two empty texts without
    one."""
    shape = shape_of(query.plan)
    several = len(query.sources) > 1 or (shape is not None and shape.operator is not None)
    for each in query.sources:
        spec = each.spec
        if spec.table is not None and each.as_of is None:
            return (
                f"the table {spec.name!r} without AS OF in a derived stream",
                f"{_EVERY}, or join it AS OF a stream, as in FROM s JOIN {spec.name} t AS OF s ON …",
            )
        if not _is_window(each.window):
            return (
                "such a window in a derived stream",
                "write a window of the last time, as in [RANGE 1 HOUR] or END (NOW - 5 MINUTES), or none; a window of"
                " rows needs EVERY 1 MINUTE after the SELECT",
            )
        if several and spec.retention.rows is not None:
            return (
                f"a join or state over {spec.name!r}, which has RETENTION in rows, in a derived stream",
                f"create {spec.name} with RETENTION in time",
            )
        if len(query.sources) > 1 and spec.idle_after is not None:
            return (
                f"a join of {spec.name!r}, which has IDLE AFTER, in a derived stream",
                f"create {spec.name} with WATERMARK BY CLOCK instead of IDLE AFTER",
            )
    return "", ""


def changes_are_known(query: StandingQuery) -> bool:
    """Whether a pump can follow the changes of the answer from instant to instant, as it does without EVERY.

    False for a query with tables or with RETENTION in rows, for which EVERY evaluates the whole answer.
    """
    plain = all(each.spec.table is None and each.spec.retention.rows is None for each in query.sources)
    return plain and not _feature(query.plan, "")[0] and not _of_sources(query)[0]


def _is_window(window: WindowClause) -> bool:
    """Whether a window has all tuples, or a time that moves with NOW."""
    begins = window.begin.anchor is Anchor.START or (window.begin.anchor is Anchor.NOW and window.begin.rows is None)
    return begins and window.end.anchor is Anchor.NOW and window.end.rows is None
