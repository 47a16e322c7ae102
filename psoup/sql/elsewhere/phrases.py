"""Phrases of other systems: successive words that no statement here has, each with the advice for PSoup.

    SELECT k FROM trades EMIT CHANGES   ->   EMIT CHANGES is not supported
                                             hint: register the SELECT without EMIT; …

PSoup searches only refused statements for phrases, so a column may have any of these names.
"""

from __future__ import annotations

from typing import NamedTuple


class Phrase(NamedTuple):
    """The name of a phrase in messages, and the advice."""

    feature: str
    advice: str
    unless: frozenset[str] = frozenset()
    """The words of which one before the phrase makes it SQL."""


_BUCKET = "FROM trades … GROUP BY tumble(t, INTERVAL '10' MINUTE) makes windows side by side"
_HOP = "FROM trades … GROUP BY hop(t, INTERVAL '5' MINUTE, INTERVAL '10' MINUTE) makes windows that overlap"
_SLIDE = "BEGIN (NOW - 1 HOUR) at the end of the statement is a window that slides"
_EMIT = "register the SELECT without EMIT; invoke gives the answer, and watch([client.copy(query)]) tells each change"
_AS_OF = (
    "the time of an answer is not a part of the statement: invoke(query, as_of=time), psoup ask … --as-of TIME, or in"
    " psql SET psoup.as_of = '2026-07-01 12:30'. For the row of a table that held at the time of a tuple: s JOIN t"
    " AS OF s ON t.k = s.k. For the closest tuple of another stream: ASOF JOIN … ON a.k = b.k AND a.t >= b.t"
)
_WITHIN = (
    "write ON t.k = u.k AND u.at BETWEEN t.at - INTERVAL 10 MINUTE AND t.at + INTERVAL 10 MINUTE; a window of each"
    " source stands in brackets: FROM t [RANGE 10 MINUTES]"
)
_LATEST = "FROM t [PARTITION BY k ROWS 1] has the last row of each k; GROUP BY k takes arg_max(x, t) of each column"
DERIVE = (
    "CREATE STREAM name AS (SELECT …), with parentheses, derives a stream; psoup register 'SELECT …', or register(sql),"
    " keeps an answer ready"
)
"""The advice where other systems make a relation from a SELECT."""
_LEAVE = "leave it out"
_STREAM_OPTIONS = (
    "the options of CREATE STREAM are TIMESTAMP BY, LATENESS, WATERMARK BY, IDLE AFTER, AHEAD, RETENTION and ARCHIVE"
)
_LIST = "a value is not a list: push a row for each item"
_SAMPLE = "LIMIT n shows n rows; BEGIN (NOW - 1000 ROWS) at the end is a window of the newest rows"

OF_SELECT: dict[str, Phrase] = {
    "EMIT CHANGES": Phrase("EMIT CHANGES", _EMIT),
    "EMIT FINAL": Phrase("EMIT FINAL", _EMIT),
    "EMIT ON WINDOW CLOSE": Phrase("EMIT ON WINDOW CLOSE", _EMIT),
    "EMIT": Phrase("EMIT", _EMIT),
    "WINDOW TUMBLING": Phrase("WINDOW TUMBLING", f"{_BUCKET}; {_SLIDE}"),
    "WINDOW HOPPING": Phrase("WINDOW HOPPING", f"{_HOP}; {_SLIDE}"),
    "WINDOW SESSION": Phrase("WINDOW SESSION", f"there are no session windows: {_BUCKET}"),
    "TUMBLE ( TABLE": Phrase("TUMBLE in FROM", _BUCKET),
    "FROM TUMBLE (": Phrase("TUMBLE in FROM", _BUCKET),
    "JOIN TUMBLE (": Phrase("TUMBLE in FROM", _BUCKET),
    "HOP ( TABLE": Phrase("HOP in FROM", f"{_HOP}; {_SLIDE}"),
    "FROM HOP (": Phrase("HOP in FROM", f"{_HOP}; {_SLIDE}"),
    "JOIN HOP (": Phrase("HOP in FROM", f"{_HOP}; {_SLIDE}"),
    "CUMULATE ( TABLE": Phrase("CUMULATE in FROM", f"{_BUCKET}; BEGIN (START) is a window that grows"),
    "SESSION ( TABLE": Phrase("SESSION in FROM", f"there are no session windows: {_BUCKET}"),
    "WINDOW (": Phrase("the function window", f"{_BUCKET}; {_SLIDE}"),
    "WITHIN #": Phrase("WITHIN in a join", _WITHIN),
    "WITHIN (": Phrase("WITHIN in a join", _WITHIN),
    "WITHIN INTERVAL": Phrase("WITHIN in a join", _WITHIN),
    "FOR SYSTEM_TIME": Phrase("FOR SYSTEM_TIME AS OF", _AS_OF),
    "FOR TIMESTAMP AS OF": Phrase("FOR TIMESTAMP AS OF", _AS_OF),
    "FOR VERSION AS OF": Phrase("FOR VERSION AS OF", _AS_OF),
    "AS OF #": Phrase("AS OF with a time", _AS_OF),
    "AS OF '": Phrase("AS OF with a time", _AS_OF),
    "AS OF TIMESTAMP": Phrase("AS OF with a time", _AS_OF),
    "AS OF NOW": Phrase("AS OF with a time", _AS_OF),
    "AT ( TIMESTAMP": Phrase("AT (TIMESTAMP …)", _AS_OF),
    "SAMPLE BY": Phrase("SAMPLE BY", "GROUP BY tumble(t, INTERVAL '1' HOUR) has a row for each hour"),
    "LATEST ON": Phrase("LATEST ON", _LATEST),
    "LATEST BY": Phrase("LATEST BY", _LATEST),
    "SAMPLE (": Phrase("SAMPLE", _SAMPLE),
    "TABLESAMPLE": Phrase("TABLESAMPLE", _SAMPLE),
    "USING SAMPLE": Phrase("USING SAMPLE", _SAMPLE),
    "PREWHERE": Phrase("PREWHERE", "write WHERE"),
    "SETTINGS": Phrase("SETTINGS", f"{_LEAVE}: a statement has no settings"),
    "FORMAT JSON": Phrase("FORMAT", f"{_LEAVE}: psoup ask … --format says how rows are shown"),
    "WITH ( NOLOCK": Phrase("WITH (NOLOCK)", f"{_LEAVE}: readers never wait for a writer"),
    "FOR UPDATE": Phrase("FOR UPDATE", f"{_LEAVE}: tuples never change"),
    "CROSS APPLY": Phrase("CROSS APPLY", "JOIN the stream, with the conditions in ON"),
    "OUTER APPLY": Phrase("OUTER APPLY", "JOIN the stream, with the conditions in ON"),
    "LATERAL VIEW": Phrase("LATERAL VIEW", _LIST),
    "ARRAY JOIN": Phrase("ARRAY JOIN", _LIST),
    "UNNEST (": Phrase("UNNEST", _LIST),
    "FLATTEN (": Phrase("FLATTEN", _LIST),
    "MINUS SELECT": Phrase("MINUS", "write EXCEPT"),
    "START WITH": Phrase("START WITH", "PSoup has no CONNECT BY: JOIN the stream with itself for one step"),
    "CONNECT BY": Phrase("CONNECT BY", "JOIN the stream with itself for one step"),
    "( + )": Phrase("(+), an outer join", "write a LEFT JOIN b ON a.k = b.k"),
    "LT JOIN": Phrase("LT JOIN", "write ASOF JOIN … ON a.k = b.k AND a.t > b.t"),
    "SPLICE JOIN": Phrase("SPLICE JOIN", "write ASOF JOIN … ON a.k = b.k AND a.t >= b.t"),
    "POSITIONAL JOIN": Phrase("POSITIONAL JOIN", "tuples have no common positions: JOIN … ON what they have in common"),
    "MATCH_RECOGNIZE (": Phrase(
        "MATCH_RECOGNIZE", "join the stream with itself: FROM s a JOIN s b ON a.k = b.k AND b.t > a.t AND …"
    ),
    "QUANTILE ( # ) (": Phrase("quantile(0.5)(x)", "write quantile_cont(x, 0.5)"),
    "INTO": Phrase("INTO", DERIVE),
    "LIMIT # BY": Phrase("LIMIT BY", "GROUP BY k with arg_max(x, t) has the latest row of each k"),
    "FROM DUAL": Phrase("FROM dual", "name a stream: SELECT … FROM stream LIMIT 1"),
    "DISTRIBUTE BY": Phrase("DISTRIBUTE BY", f"{_LEAVE}: work is divided as it is needed"),
    "CLUSTER BY": Phrase("CLUSTER BY", f"{_LEAVE}: work is divided as it is needed"),
    "SORT BY": Phrase("SORT BY", "write ORDER BY"),
    "PARTITION BY": Phrase("PARTITION BY", "GROUP BY k has a row for each k", frozenset({"OVER", "WINDOW", "["})),
    "TIMESTAMP BY": Phrase("TIMESTAMP BY in a SELECT", "it is part of the stream: CREATE STREAM … TIMESTAMP BY at"),
    "DIV": Phrase("the operator DIV", "write a // b"),
    "XOR": Phrase("the operator XOR", "write xor(a, b) of numbers, a <> b of conditions"),
    "&&": Phrase("the operator &&", "write AND"),
    "= <": Phrase("the operator =<", "write <="),
    "=>": Phrase("the operator =>", "write >="),
    "= = =": Phrase("the operator ===", "write ="),
    "== =": Phrase("the operator ===", "write ="),
    "@@": Phrase("the operator @@", "write contains(x, 'part'), or x LIKE '%part%'"),
    "ANY ( SELECT": Phrase("ANY", "x = ANY (SELECT y …) is taken, as IN; x > ANY (…) is x > (SELECT min(y) …)"),
    "LIKE ANY": Phrase("LIKE ANY", "write x LIKE 'a%' OR x LIKE 'b%'"),
    "ANY ( ARRAY": Phrase("ANY", "write x IN (1, 2)"),
    "ANY (": Phrase("ANY", "write x IN (1, 2)"),
    "{ TS ' }": Phrase("{ts '…'}", "write TIMESTAMP '2026-07-01 10:00:00'"),
    "{ D ' }": Phrase("{d '…'}", "write DATE '2026-07-01'"),
    "BETWEEN SYMMETRIC": Phrase("BETWEEN SYMMETRIC", "write BETWEEN least(a, b) AND greatest(a, b)"),
    "SAMPLE #": Phrase("SAMPLE", _SAMPLE),
    "PLACING": Phrase("OVERLAY … PLACING", "write substr(x, 1, 3) || 'new' || substr(x, 5)"),
    "USING >": Phrase("USING in ORDER BY", "write DESC"),
    "USING <": Phrase("USING in ORDER BY", "write ASC"),
    "MATCH '": Phrase("the operator MATCH", "write contains(x, 'part'), or x LIKE '%part%'"),
    "INDEXED BY": Phrase("INDEXED BY", f"{_LEAVE}: PSoup makes its own indexes"),
    "FILTER WHERE": Phrase("FILTER without parentheses", "write FILTER (WHERE condition)"),
    "KEEP (": Phrase("KEEP", "arg_max(x, t) has the x of the greatest t, arg_min(x, t) the x of the least"),
    "( INSERT INTO": Phrase("INSERT in WITH", "rows come in by a push: psoup push STREAM FILE, push(stream, rows)"),
    "AT ( VERSION": Phrase("AT (VERSION …)", _AS_OF),
    "GLOB": Phrase("GLOB", "write LIKE: % for *, _ for ?"),
}
"""Phrases in a SELECT, by their words. # stands for any number.

The first phrase in the text counts. If several begin at one place, the first in this table counts.
"""

OF_CREATE: dict[str, Phrase] = {
    "AS SELECT": Phrase("CREATE … AS SELECT", DERIVE),
    "WATERMARK FOR": Phrase("WATERMARK FOR", "write behind the columns: TIMESTAMP BY at LATENESS 5 SECONDS"),
    "PRIMARY KEY": Phrase(
        "PRIMARY KEY", "write CREATE TABLE for rows with a key that change; in a stream an equal row is another tuple"
    ),
    "KEY": Phrase("KEY", "write CREATE TABLE for rows with a key: PRIMARY KEY (column)"),
    "WITH (": Phrase("WITH (…)", f"{_LEAVE}: {_STREAM_OPTIONS}"),
    "PARTITIONED BY": Phrase("PARTITIONED BY", f"{_LEAVE}: {_STREAM_OPTIONS}"),
    "ENGINE =": Phrase("ENGINE", f"{_LEAVE}: {_STREAM_OPTIONS}"),
}
"""Phrases in a CREATE STREAM, by their words."""

OF_TABLE = {words: phrase for words, phrase in OF_CREATE.items() if words not in ("PRIMARY KEY", "KEY")}
"""Phrases in a CREATE TABLE, by their words."""
