"""Statements whose refusal must be clear: SQL as DuckDB has it, well formed and not, a word at a time.

    cases()   ->   (statement, what reads it)        most of them are refused; how, is what a test looks at

Expressions are put into every clause that has one. Between statements stands ` ; `.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from psoup.sql import alter_stream, create_stream, standing_query, window_clause

SPEC = create_stream("CREATE STREAM x (b BIGINT, d DOUBLE, m DECIMAL(9,2), t TEXT, s TIMESTAMP, y DATE, f BOOLEAN)")
PLACES = (
    "SELECT {} FROM x",
    "SELECT b FROM x WHERE {}",
    "SELECT b FROM x ORDER BY {}",
    "SELECT {} AS v, b FROM x WHERE b > 1",
    "SELECT b FROM x WHERE NOT ({}) AND b = 1",
)
EXPRESSIONS = r"""
b ** 2 ; b ^ 2 ; b & 1 ; b | 1 ; b << 2 ; b >> 1 ; ~b ; @b ; b! ; b !~ 1 ; t ~ 'a' ; t !~ 'a' ; t ~~ 'a'
t !~~ 'a' ; t ~~* 'a' ; t ^@ 'a' ; t GLOB 'a*' ; t SIMILAR TO 'a' ; t NOT SIMILAR TO 'a' ; t ILIKE 'a'
t NOT ILIKE 'a' ; t NOT GLOB 'a' ; t REGEXP 'a' ; t RLIKE 'a' ; b IS DISTINCT FROM 1 ; b IS NOT DISTINCT FROM 1
f IS TRUE ; f IS NOT FALSE ; f IS UNKNOWN ; b ISNULL ; b NOTNULL ; b NOT NULL ; t COLLATE NOCASE = 'a'
s AT TIME ZONE 'UTC' ; b::HUGEINT ; b::STRUCT(a INT) ; b::INT[] ; b::JSON ; b::UUID ; b::TIME ; b::INTERVAL
b::BLOB ; b::BIT ; b::ENUM('a') ; b::MAP(INT,INT) ; b::UNION(a INT) ; b::VARCHAR(5) ; b::CHAR ; b::FLOAT
b::REAL ; b::TINYINT ; b::SMALLINT ; b::INTEGER ; b::UBIGINT ; b::TIMESTAMPTZ ; b::TIMESTAMP WITH TIME ZONE
b::TIMESTAMP_S ; b::TIMESTAMP_NS ; b::NUMERIC ; b::NUMERIC(5) ; b::DECIMAL(38,2) ; b::DECIMAL(5,9)
b::DECIMAL(0) ; b::VARINT ; b::NULL ; b:: ; CAST(b) ; CAST(b AS) ; CAST(AS INT) ; CAST(b INT) ; CAST b AS INT
CAST(b AS INT FORMAT 'x') ; TRY_CAST(b) ; CAST() ; CAST(b, INT) ; [1,2] ; [1,2][1] ; b[1] ; t[1:2] ; t[1]
{'a':1} ; MAP {'a':1} ; (1,2) ; (1,2) = (b,d) ; ROW(1,2) ; ARRAY[1,2] ; struct_pack(a := 1) ; x -> x + 1
list_transform([1], x -> x) ; list_filter([1,2], lambda x: x > 1) ; [x for x in [1,2]] ; t.a ; x.t ; x.x.t
x.x.x.t ; y.t ; x.* ; * ; COLUMNS(*) ; COLUMNS('b.*') ; * EXCLUDE (b) ; * REPLACE (1 AS b) ; * RENAME (b AS c)
* LIKE 'a%' ; count(*) ; count(b) ; count(DISTINCT b) ; sum(b) ; avg(b) ; min(b) ; max(b) ; first(b)
any_value(b) ; list(b) ; string_agg(t, ',') ; array_agg(b ORDER BY b) ; quantile_cont(b, 0.5)
percentile_cont(0.5) WITHIN GROUP (ORDER BY b) ; sum(b) FILTER (WHERE b > 1) ; sum(b) OVER ()
row_number() OVER (ORDER BY b)
lag(b) OVER (PARTITION BY t ORDER BY s ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) ; rank() OVER w ; (SELECT 1)
b IN (SELECT 1) ; EXISTS (SELECT 1) ; NOT EXISTS (SELECT 1) ; b = ANY (SELECT 1) ; b = ANY([1,2])
b > ALL (SELECT 1) ; b = SOME (SELECT 1) ; random() ; uuid() ; nextval('s') ; now() ; current_date
current_timestamp ; current_time ; today() ; localtime ; localtimestamp ; current_user ; user ; session_user
current_schema ; version() ; getvariable('a') ; $1 ; ? ; :a ; @a ; $a ; %s ; {a} ; ${a} ; abs() ; abs(1,2)
abs(*) ; abs(DISTINCT b) ; abs(b ORDER BY b) ; abs(x := b) ; abs(b) IGNORE NULLS ; ABS b ; nosuch(b) ; nosuch()
schema.f(b) ; a.b.c(1) ; substr(t) ; substr(t,1,2,3) ; substring(t FROM 2) ; substring(t FROM 2 FOR 3)
substring(t FOR 3) ; substring(t, 2 FOR 3) ; position('a' IN t) ; overlay(t PLACING 'a' FROM 1)
trim(BOTH 'a' FROM t) ; trim(LEADING FROM t) ; trim('a' FROM t) ; trim(t, t) ; trim(t FROM) ; extract(year s)
extract(FROM s) ; extract(nope FROM s) ; extract('year' FROM s) ; extract(year FROM b) ; date_part(t, s)
date_part('nope', s) ; date_trunc('nope', s) ; date_trunc(t, s) ; date_add(s, INTERVAL 1 DAY)
date_diff('day', s, s) ; datediff('day',s,s) ; strftime(s,'%Y') ; strptime(t,'%Y') ; age(s) ; make_date(1,2,3)
to_timestamp(b) ; epoch(s) ; year(s) ; month(s) ; dayname(s) ; s + INTERVAL 1 DAY ; s + INTERVAL '1' DAY
s + INTERVAL '1 day' ; s + INTERVAL '1 day 2 hours' ; s + INTERVAL b DAY ; s + INTERVAL (b) DAY ; s + INTERVAL
s + INTERVAL 1 ; s + INTERVAL 'x' DAY ; s + INTERVAL '1' NOPE ; s + INTERVAL '1' YEAR TO MONTH
INTERVAL '1' DAY ; INTERVAL '1' DAY + s ; INTERVAL '1' DAY - s ; INTERVAL '1' DAY * 2 ; s - s ; s - y ; s + 1
y + s ; b + t ; t + t ; t || 1 ; -t ; -f ; +b ; + b ; NOT b ; NOT t ; b AND t ; t OR f ; b = t ; b = 'x'
s = 'x' ; y = b ; f = b ; b BETWEEN 1 ; b BETWEEN 1 AND ; b BETWEEN AND 2 ; b BETWEEN SYMMETRIC 1 AND 2
b NOT BETWEEN 1 AND 2 ; b IN ; b IN () ; b IN 1 ; b IN (1,) ; b IN (1 2) ; b NOT IN (1) ; b IN [1,2] ; b IN t
b LIKE ; t LIKE 'a' ESCAPE ; t LIKE 'a' ESCAPE 'ab' ; t LIKE 'a' ESCAPE t ; t ESCAPE 'a'
t LIKE 'a\' ESCAPE '\' ; CASE ; CASE END ; CASE WHEN ; CASE WHEN f ; CASE WHEN f THEN ; CASE WHEN f THEN 1
CASE WHEN f THEN 1 ELSE ; CASE WHEN f THEN 1 ELSE END ; CASE WHEN f THEN 1 ELSE 2 ; CASE b WHEN 1 THEN 2
CASE ELSE 1 END ; CASE WHEN f THEN 1 WHEN END ; CASE WHEN f ELSE 1 END ; CASE f THEN 1 END ; IF(f,1,2)
IIF(f,1,2) ; coalesce() ; nullif(b) ; nullif(b,1,2) ; ifnull(b) ; greatest() ; least() ; 1 + ; + ; * 2 ; b b
b 1 ; 1 b ; 'a' b ; (b ; b) ; ((b) ; () ; (b,) ; b, ; ,b ; b..c ; .b ; b. ; 1.2.3 ; 1e ; 1e+ ; 0x1F ; 0b1
1_000 ; 1__0 ; _1 ; 'a ; "a ; `b` ; [b] ; 'a' 'b' ; 'a'\n'b' ; E'a' ; e'\n' ; U&'a' ; X'ab' ; B'01' ; N'a'
$$a$$ ; $tag$a$tag$ ; DATE 'x' ; DATE '2020-02-30' ; DATE 5 ; DATE b ; DATE ; TIMESTAMP 'x' ; TIMESTAMP
TIME '10:00' ; TIMESTAMPTZ '2020-01-01' ; INTERVAL 'x' ; DECIMAL(5,2) 'x' ; BIGINT 'x' ; BOOLEAN 'x' ; JSON '{}'
BLOB 'a' ; b -> 'a' ; b ->> 'a' ; t -> '$.a' ; b := 1 ; b = = 1 ; b == 1 ; b === 1 ; b <> 1 ; b != 1 ; b =! 1
b => 1 ; b =< 1 ; b <=> 1 ; b >< 1 ; b ||  ; || b ; b // 2 ; b div 2 ; b mod 2 ; b % 0 ; b / 0 ; 1 // 0 ; b AND
AND b ; b OR ; NOT ; b NOT ; b IS ; b IS NOT ; b IS 1 ; b IS NULL NULL ; b IS NULL IS NULL ; b = 1 = 1
b < 1 < 2 ; NOT NOT f ; b = NOT f ; - - b ; --b ; b -- c ; /* c */ b ; b /* c ; b ;  SELECT ; b  ; \ ; # ; b # c
@ ; ! ; ^ ; ~ ; & ; | ; b AS ; b AS c d ; b AS 'c' ; b AS "c" ; b "c" ; b 'c' ; b AS 1 ; b c ; b SELECT ; SELECT
FROM ; WHERE ; END ; BEGIN ; LIMIT ; ORDER ; BY ; NULL ; TRUE ; DEFAULT ; unknown ; nope ; "nope" ; 'nope' ; "B"
B ; x ; X.B ; rowid ; _id ; _time ; _nope ; NOW ; NOW() ; now() - INTERVAL '1' DAY ; DISTINCT b ; ALL b ; ON b
b USING c ; b PRECEDING ; ROWS ; b ROWS ; TABLE x ; VALUES (1) ; try(b) ; if(f,1) ; b FILTER (WHERE f)
GROUPING(b) ; UNNEST([1]) ; generate_series(1,2) ; b COLLATE ; b COLLATE x ; AT TIME ZONE 'x' ; s AT TIME ; s AT
prior b ; b(+) ; b!= ; < ; > ; = ; (SELECT) ; f IS JSON ; t IS DOCUMENT ; b MEMBER OF (c) ; t MATCH 'a'
t AGAINST 'a' ; t SOUNDS LIKE 'a' ; t STARTS WITH 'a' ; b OVERLAPS c ; b CONTAINS c ; x IS OF (INT) ; b XOR f
b BETWEEN 1 AND 2 AND 3 ; b IN (1) IN (2) ; (b IN (1)) IN (TRUE) ; b LIKE 'a' LIKE 'b' ; PIVOT ; QUALIFY
WINDOW ; OVER ; WITH ; b WITHIN GROUP ; b RESPECT NULLS
"""
"""Operators, functions, literals, types, and halves of them."""
STATEMENTS = r"""
SELECT ; SELECT FROM x ; SELECT b ; SELECT b x ; SELECT b FROM ; SELECT b FROM x x x ; SELECT b FROM x AS
SELECT b FROM x AS y WHERE ; SELECT b FROM x WHERE ; SELECT b FROM x, y ; SELECT b FROM x JOIN y ON x.b = y.b
SELECT b FROM x NATURAL JOIN y ; SELECT b FROM x LEFT JOIN y USING (b) ; SELECT b FROM x CROSS JOIN y
SELECT b FROM x ASOF JOIN y ON TRUE ; SELECT b FROM x POSITIONAL JOIN y ; SELECT b FROM x SEMI JOIN y USING(b)
SELECT b FROM x ANTI JOIN y USING(b) ; SELECT b FROM (SELECT b FROM x) ; SELECT b FROM (x) ; SELECT b FROM ((x))
SELECT b FROM 'x' ; SELECT b FROM "x" ; SELECT b FROM 'file.csv' ; SELECT b FROM read_csv('a')
SELECT b FROM x() ; SELECT b FROM range(5) ; SELECT b FROM a.x ; SELECT b FROM a.b.x
SELECT b FROM x TABLESAMPLE 10% ; SELECT b FROM x USING SAMPLE 10 ; SELECT b FROM x AS y(b)
SELECT b FROM x AT (VERSION => 1) ; SELECT b FROM x FOR UPDATE ; SELECT b FROM x GROUP BY b
SELECT b FROM x GROUP BY ALL ; SELECT b FROM x GROUP BY ROLLUP (b) ; SELECT b FROM x HAVING b > 1
SELECT b FROM x QUALIFY b ; SELECT b FROM x WINDOW w AS () ; SELECT b FROM x ORDER ; SELECT b FROM x ORDER BY
SELECT b FROM x ORDER BY b, ; SELECT b FROM x ORDER BY b ASC DESC ; SELECT b FROM x ORDER BY b NULLS
SELECT b FROM x ORDER BY b NULLS FIRST LAST ; SELECT b FROM x ORDER BY ALL ; SELECT b FROM x ORDER BY 1
SELECT b FROM x ORDER BY 2 ; SELECT b FROM x ORDER BY 'b' ; SELECT b FROM x ORDER BY b USING >
SELECT b FROM x ORDER BY b COLLATE NOCASE ; SELECT b FROM x LIMIT ; SELECT b FROM x LIMIT -1
SELECT b FROM x LIMIT 1.5 ; SELECT b FROM x LIMIT b ; SELECT b FROM x LIMIT 10%
SELECT b FROM x LIMIT 10 PERCENT ; SELECT b FROM x LIMIT ALL ; SELECT b FROM x LIMIT 1, 2
SELECT b FROM x LIMIT 1 OFFSET 2 ; SELECT b FROM x OFFSET 2 ; SELECT b FROM x LIMIT NULL
SELECT b FROM x LIMIT (1) ; SELECT b FROM x LIMIT 1+1 ; SELECT b FROM x LIMIT 1 WITH TIES
SELECT b FROM x FETCH FIRST 1 ROW ONLY ; SELECT TOP 1 b FROM x ; SELECT DISTINCT ON (b) b FROM x
SELECT DISTINCT FROM x ; SELECT ALL b FROM x ; SELECT DISTINCT b, FROM x ; SELECT b,, d FROM x
SELECT , b FROM x ; SELECT b, FROM x ; SELECT b INTO y FROM x ; SELECT * EXCLUDE b FROM x
SELECT * EXCLUDE (nope) FROM x ; SELECT *, b FROM x ; SELECT x.* FROM x ; SELECT nope.* FROM x
SELECT b d FROM x ; SELECT b AS d, d FROM x ; SELECT b FROM x UNION SELECT b FROM x
SELECT b FROM x UNION ALL BY NAME SELECT b FROM x ; SELECT b FROM x INTERSECT SELECT b FROM x
SELECT b FROM x EXCEPT SELECT b FROM x ; FROM x ; FROM x SELECT b ; TABLE x ; VALUES (1)
WITH y AS (SELECT 1) SELECT b FROM y ; WITH RECURSIVE y AS (SELECT 1) SELECT b FROM y ; (SELECT b FROM x)
((SELECT b FROM x)) ; SELECT b FROM x ; SELECT b FROM x WHERE b > 1 WHERE b < 2
SELECT b FROM x WHERE b > 1 AND ; SELECT b FROM x WHERE b > 1 b < 2 ; SELECT b WHERE b > 1 FROM x
SELECT b FROM x LIMIT 1 WHERE b ; SELECT b FROM x ORDER BY b WHERE b ; SELECT b FROM x LIMIT 1 LIMIT 2
SELECT b FROM x ORDER BY b ORDER BY d ; SELECT b FROM x PIVOT (sum(b) FOR t IN ('a')) ; PIVOT x ON t
UNPIVOT x ON t ; INSERT INTO x VALUES (1) ; UPDATE x SET b = 1 ; DELETE FROM x ; CREATE TABLE a (b INT)
CREATE VIEW a AS SELECT 1 ; DROP STREAM x ; DROP TABLE x ; ALTER TABLE x ADD b INT ; EXPLAIN SELECT b FROM x
DESCRIBE x ; SHOW TABLES ; SUMMARIZE x ; COPY x TO 'a' ; ATTACH 'a' ; USE a ; SET a = 1 ; PRAGMA a ; CALL a()
BEGIN ; COMMIT ; ROLLBACK ; VACUUM ; CHECKPOINT ; EXPORT DATABASE 'a' ; INSTALL a ; LOAD a ; GRANT a TO b
MERGE INTO x ; TRUNCATE x ; ANALYZE ; PREPARE a AS SELECT 1 ; EXECUTE a ; DEALLOCATE a
COMMENT ON TABLE x IS 'a' ; SELCT b FROM x ; SELECT b FORM x ; SELECT b FROM x WERE b
SELECT b FROM x ODER BY b ; SELECT b FROM x LIMT 5 ; SELECT b FROM x WHERE b > 1 ODER BY b ; --c ; /* */ ; hello
1 ; 'a' ; "a" ; ( ; ) ; * ; ? ; $1 ; SELECT b FROM x BEGIN ; SELECT b FROM x BEGIN (NOW - 1)
SELECT b FROM x BEGIN NOW - 1 END NOW ; SELECT b FROM x BEGIN (NOW + 1)
SELECT b FROM x BEGIN (START) END (START) ; SELECT b FROM x END (NOW) BEGIN (START)
SELECT b FROM x BEGIN (NOW - 1 PARSEC) ; SELECT b FROM x BEGIN (NOW - x) ; SELECT b FROM x BEGIN (NOW -)
SELECT b FROM x BEGIN () ; SELECT b FROM x BEGIN (1 ; SELECT b FROM x BEGIN (-1)
SELECT b FROM x BEGIN ('2020-01-01') ; SELECT b FROM x BEGIN (TIMESTAMP 'x') ; SELECT b FROM x BEGIN (TIMESTAMP)
SELECT b FROM x BEGIN (DATE '2020-01-01') END (NOW - 1 DAY) ; SELECT b FROM x BEGIN (NOW - 10 ROWS)
SELECT b FROM x BEGIN (NOW - 1.5 ROWS) ; SELECT b FROM x BEGIN (NOW - INTERVAL '1' DAY)
SELECT b FROM x BEGIN (NOW - INTERVAL '1 month') ; SELECT b FROM x BEGIN (NOW - 1 MONTH)
SELECT b FROM x BEGIN (NOW() - 1) ; SELECT b FROM x BEGIN (NOW(1)) ; SELECT b FROM x BEGIN (b)
SELECT b FROM x BEGIN (NOW * 2) ; SELECT b FROM x BEGIN (NOW - 1 - 1) ; SELECT b FROM x END
SELECT b FROM x BEGIN (NOW - 1) BEGIN (NOW - 2) ; SELECT b FROM x BEGIN (NOW - 1) WHERE b > 1
SELECT b FROM x BEGIN (1e400) ; SELECT b FROM x BEGIN (99999999999999999999)
"""
"""Clauses in and out of place, other statements, windows."""
STREAMS = r"""
CREATE STREAM ; CREATE STREAM a ; CREATE STREAM a ( ; CREATE STREAM a () ; CREATE STREAM a (b)
CREATE STREAM a (b INT,) ; CREATE STREAM a (b INT, b INT) ; CREATE STREAM a (b NOPE) ; CREATE STREAM a (b INT[])
CREATE STREAM a (b STRUCT(c INT)) ; CREATE STREAM a (b INT PRIMARY KEY) ; CREATE STREAM a (b INT DEFAULT 1)
CREATE STREAM a (b INT CHECK (b > 1)) ; CREATE STREAM a (b INT UNIQUE) ; CREATE STREAM a (b INT REFERENCES c)
CREATE STREAM a (b INT GENERATED ALWAYS AS (1)) ; CREATE STREAM a (b INT NOT)
CREATE STREAM a (b INT NULL NOT NULL) ; CREATE STREAM a (b INT) LATENESS ; CREATE STREAM a (b INT) LATENESS x
CREATE STREAM a (b INT) LATENESS -1 ; CREATE STREAM a (b INT) LATENESS 5 PARSECS
CREATE STREAM a (b INT) TIMESTAMP ; CREATE STREAM a (b INT) TIMESTAMP BY
CREATE STREAM a (b INT) TIMESTAMP BY b ; CREATE STREAM a (b INT) TIMESTAMP BY c
CREATE STREAM a (b INT) RETENTION ; CREATE STREAM a (b INT) RETENTION x ; CREATE STREAM a (b INT) RETENTION 0
CREATE STREAM a (b INT) ARCHIVE 5 ; CREATE STREAM a (b INT) NOPE ; CREATE STREAM a (b INT) WITH (x = 1)
CREATE STREAM a (b INT) PARTITION BY b ; CREATE STREAM a AS SELECT 1 ; CREATE STREAM a.b (c INT)
CREATE STREAM 'a' (b INT) ; CREATE STREAM 1 (b INT) ; CREATE STREAM a (1 INT) ; CREATE STREAM a ('b' INT)
CREATE STREAM select (b INT) ; CREATE STREAM "select" ("from" INT) ; CREATE STREAM a (select INT)
CREATE STREAM a (_id INT) ; CREATE STREAM a (b DECIMAL(99,2)) ; CREATE STREAM a (b DECIMAL(x))
CREATE STREAM a (b DECIMAL()) ; CREATE STREAM a (b VARCHAR(10)) ; CREATE STREAM a (b ENUM('a'))
CREATE STREAM a (b INT c) ; CREATE STREAM a b INT ; CREATE OR REPLACE STREAM a (b INT)
CREATE TEMP STREAM a (b INT) ; CREATE STREAM IF NOT EXISTS a (b INT) ; CREATE ; CREATE STREAM a (b INT))
CREATE STREAM a (b INT) (c INT) ; CREATE STREAM a (b INT) RETENTION 5 ROWS RETENTION 6 ROWS
CREATE STREAM a (b INT) IDLE ; CREATE STREAM a (b INT) IDLE AFTER
"""
"""CREATE STREAM."""
ALTERATIONS = r"""
ALTER ; ALTER STREAM ; ALTER STREAM x ; ALTER STREAM x DROP COLUMN b ; ALTER STREAM x RENAME TO y
ALTER STREAM x ADD ; ALTER STREAM x ADD COLUMN ; ALTER STREAM x ADD COLUMN c ; ALTER STREAM x ADD COLUMN c NOPE
ALTER STREAM x ADD COLUMN c INT NOT NULL ; ALTER STREAM x ADD COLUMN c INT,
ALTER STREAM x ADD COLUMN c INT, d INT ; ALTER STREAM x ADD (c INT) ; ALTER STREAM x ADD COLUMN IF NOT EXISTS c
ALTER STREAM x ALTER COLUMN b TYPE INT ; ALTER STREAM x SET RETENTION 5
ALTER STREAM x ADD COLUMN c INT DEFAULT 5 ; ALTER TABLE x ADD c INT
"""
"""ALTER STREAM."""
WINDOWS = r"""
BEGIN ; END ; BEGIN ( ; BEGIN NOW ; BEGIN (NOW - 5 MINUTES) END ; hello ; BEGIN (NOW) END (NOW) x
BEGIN (NOW) WHERE b ; END (NOW) BEGIN (START) ; BEGIN (TIMESTAMP '2020-13-01') ; SELECT
"""
"""Windows by themselves."""


def cases() -> Iterator[tuple[str, Callable[[], object]]]:
    """Every statement, and the call that reads it."""
    for form in PLACES:
        yield from ((text, query(text)) for text in map(form.format, _split(EXPRESSIONS)))
    yield from ((text, query(text)) for text in _split(STATEMENTS))
    yield from ((text, lambda text=text: create_stream(text)) for text in _split(STREAMS))
    yield from ((text, lambda text=text: alter_stream(text)) for text in _split(ALTERATIONS))
    yield from ((text, lambda text=text: window_clause(text)) for text in _split(WINDOWS))


def _split(listed: str) -> list[str]:
    return [text for line in listed.strip().splitlines() for text in line.split(" ; ")]


def query(text: str) -> Callable[[], object]:
    """A call that binds a SELECT over the stream x."""
    return lambda: standing_query(text, lambda name: SPEC if name.lower() == "x" else None, ["x"])
