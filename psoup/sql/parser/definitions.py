"""The grammar of definitions: CREATE, ALTER and DROP of streams and tables.

    CREATE TABLE t (k TEXT, price DOUBLE NOT NULL, PRIMARY KEY (k)) TIMESTAMP BY at LATENESS 5 SECONDS HISTORY 7 DAYS
                    └────── StreamColumn ───────┘ └──── key ─────┘  └──────────────── options ───────────────────┘
    CREATE TABLE t FROM STREAM s PRIMARY KEY (k) HISTORY 7 DAYS
                        └─origin─┘
    CREATE STREAM x (a, b) AS ISTREAM (SELECT …) FROM NOW RETENTION 7 DAYS
                    names─┘   operator └ text ┘  └─────── options ──────┘

The parser checks no meaning; `psoup.sql.ddl` does.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from psoup.derivation import RESUME, RESUME_FROM_NOW, SUSPEND
from psoup.sql.parser.derivations import Derivations
from psoup.sql.parser.syntax import AlterStreamNode, CreateStreamNode, DropStreamNode, StreamColumn

_STREAM_OPTIONS = "TIMESTAMP BY, LATENESS, WATERMARK BY, IDLE AFTER, AHEAD, RETENTION, ARCHIVE"
_TABLE_OPTIONS = (
    "TIMESTAMP BY, LATENESS, WATERMARK BY, IDLE AFTER, AHEAD, HISTORY, DELETED FOR, FIRST VERSION FROM, EXPIRES BY"
)
_WATERMARK_NEEDS = (
    "WATERMARK BY needs CLOCK or ROWS: the watermark of a live stream follows the clock, too, or only its rows"
)
_LATENESS_NEEDS = "LATENESS needs a duration, as in LATENESS 5 SECONDS"
_AHEAD_NEEDS = "AHEAD needs a duration, as in AHEAD 5 MINUTES"
_HISTORY_NEEDS = "HISTORY needs a duration, as in HISTORY 7 DAYS"
_DELETED_NEEDS = "DELETED FOR needs a duration, as in DELETED FOR 30 DAYS"
_FIRST_NEEDS = "FIRST VERSION FROM needs START or ARRIVAL"
_EXPIRES_NEEDS = "EXPIRES BY needs a column, as in EXPIRES BY valid_until"


class Definitions(Derivations):
    """The parser of definitions."""

    def _noun(self, verb: str, example: str) -> bool:
        """Whether a definition is of a table. Refuses other objects. `verb`: `created`, `altered` or `dropped`."""
        if self._match_text_seq("TABLE"):
            return True
        if not self._match_text_seq("STREAM"):
            self.refuse(f"only streams and tables can be {verb}: {example}")
        return False

    def _parse_creation(self) -> Any:
        table = self._noun("created", "CREATE STREAM name (column TYPE, ...)")
        noun = "TABLE" if table else "STREAM"
        name = self._name(f"CREATE {noun} needs a name")
        options: dict[str, Any] = {"table": True} if table else {}
        if table and self._match(TokenType.FROM):
            return self._with_options(name, [], {**options, **self._parse_origin()})
        if self._derives():
            return self._parse_derivation(name, table=table)
        if not self._match(TokenType.L_PAREN):
            self.refuse(f"CREATE {noun} needs its columns in parentheses: (column TYPE, ...)")
        parts = self._parse_csv(lambda: self._parse_part() if table else self._parse_stream_column())
        columns = [part for part in parts if isinstance(part, StreamColumn)]
        keys = [part for part in parts if isinstance(part, exp.PrimaryKey)]
        if len(keys) > 1:
            self.refuse("PRIMARY KEY is given twice")
        if keys:
            options["key"] = keys[0].expressions
        if not self._match(TokenType.R_PAREN):
            self.refuse("expected , or ) after a column")
        return self._with_options(name, columns, options)

    def _parse_origin(self) -> dict[str, Any]:
        """STREAM s PRIMARY KEY (column, ...), after FROM."""
        if not self._match_text_seq("STREAM"):
            self.refuse("FROM needs the stream that becomes a table: FROM STREAM name PRIMARY KEY (column, ...)")
        origin = self._name("FROM STREAM needs the name of a stream")
        if not self._match(TokenType.PRIMARY_KEY):
            self.refuse("FROM STREAM needs the key after the name: PRIMARY KEY (column, ...)")
        return {"origin": origin, "key": self._parse_key().expressions}

    def _with_options(self, name: Any, columns: list[Any], options: dict[str, Any]) -> Any:
        """The definition with the options that follow."""
        while self._curr:
            start = self._curr
            key, value = self._parse_stream_option("table" in options)
            if key in options:
                self.refuse(f"{start.text.upper()} is given twice", start)
            options[key] = value
        return self.expression(CreateStreamNode(this=name, expressions=columns, **options))

    def _parse_part(self) -> Any:
        """A column of a table, or its PRIMARY KEY."""
        if not self._match(TokenType.PRIMARY_KEY):
            return self._parse_stream_column(table=True)
        return self._parse_key()

    def _parse_key(self) -> Any:
        """The columns of a PRIMARY KEY, in parentheses."""
        if not self._match(TokenType.L_PAREN):
            self.refuse("PRIMARY KEY needs its columns in parentheses: PRIMARY KEY (column, ...)")
        names = self._parse_csv(lambda: self._name("PRIMARY KEY needs a column"))
        if not self._match(TokenType.R_PAREN):
            self.refuse("expected , or ) after a column of PRIMARY KEY")
        return self.expression(exp.PrimaryKey(expressions=names))

    def _parse_stream_column(self, *, table: bool = False) -> Any:
        name = self._name("a column needs a name and a type")
        start = self._curr
        kind = self._parse_types(allow_identifiers=False)
        if kind is None:
            kinds = "BOOLEAN, BIGINT, DOUBLE, DECIMAL(p,s), TEXT, TIMESTAMP, DATE"
            problem = f"{start.text!r} is not a type" if start else "a type is missing here"
            self.refuse(problem, start or None, f"the types are {kinds}")
        kind.meta.setdefault("start", start.start)
        not_null = self._match_text_seq("NOT", "NULL")
        if not not_null:
            self._match(TokenType.NULL)
        is_key = table and self._match(TokenType.PRIMARY_KEY)
        not_null = not_null or (is_key and self._match_text_seq("NOT", "NULL"))
        if self._curr and self._curr.token_type not in (TokenType.COMMA, TokenType.R_PAREN):
            form = "name TYPE [NOT NULL] [PRIMARY KEY]" if table else "name TYPE [NOT NULL]"
            self.refuse(f"{self._curr.text.upper()!r} is not known here; a column is: {form}")
        return self.expression(StreamColumn(this=name, kind=kind, not_null=not_null, is_key=is_key))

    def _parse_alteration(self) -> Any:
        table = self._noun("altered", "ALTER STREAM name ADD COLUMN column TYPE")
        noun = "TABLE" if table else "STREAM"
        name = self._name(f"ALTER {noun} needs a name")
        option = self._parse_altered_option(table)
        if option is not None:
            (key, value), example = option
            if self._curr:
                self.refuse(f"{example.partition(' ')[0]} stands alone: ALTER {noun} name {example}")
            return self.expression(AlterStreamNode(this=name, table=table, **{key: value}))
        lenient: list[str] = []
        columns = self._parse_csv(lambda: self._parse_added_column(lenient, table))
        return self.expression(AlterStreamNode(this=name, expressions=columns, lenient=lenient, table=table))

    def _parse_altered_option(self, table: bool) -> tuple[tuple[str, Any], str] | None:
        """The option that an ALTER changes, with its value, and an example. None if it adds columns."""
        if self._match_text_seq("AHEAD", "DEFAULT"):
            return ("default_ahead", True), "AHEAD DEFAULT"
        if self._match_text_seq("AHEAD"):
            return ("ahead", self._parse_duration(_AHEAD_NEEDS)), "AHEAD 5 MINUTES"
        if self._match_text_seq("LATENESS"):
            return ("lateness", self._parse_duration(_LATENESS_NEEDS)), "LATENESS 5 SECONDS"
        if self._match_text_seq("WATERMARK"):
            return ("watermark", self._parse_watermark()), "WATERMARK BY CLOCK"
        if not table and (pump := self._parse_pump()):
            return ("pump", pump), pump
        if table and self._match_text_seq("HISTORY"):
            return ("history", self._parse_duration(_HISTORY_NEEDS)), "HISTORY 7 DAYS"
        if table and self._match_text_seq("DELETED", "FOR"):
            return ("deleted", self._parse_duration(_DELETED_NEEDS)), "DELETED FOR 30 DAYS"
        if table and self._match_text_seq("EXPIRES", "NEVER"):
            return ("never_expires", True), "EXPIRES NEVER"
        if table and self._match_text_seq("EXPIRES", "BY"):
            return ("expires", self._name(_EXPIRES_NEEDS)), "EXPIRES BY column"
        return None

    def _parse_pump(self) -> str:
        """The change of a derived stream's pump. "" if none follows."""
        if self._match_text_seq("SUSPEND"):
            return SUSPEND
        if not self._match_text_seq("RESUME"):
            return ""
        if not self._match(TokenType.FROM):
            return RESUME
        if not self._match_text_seq("NOW"):
            self.refuse("RESUME FROM needs NOW: RESUME goes on where the pump was suspended, RESUME FROM NOW does not")
        return RESUME_FROM_NOW

    def _parse_added_column(self, lenient: list[str], table: bool) -> Any:
        if not self._match_text_seq("ADD"):
            if self._curr and self._curr.text.upper() == "DROP":
                noun = "table" if table else "stream"
                hint = f"SELECT the columns that are wanted, or create another {noun} that has only those"
                self.refuse("columns cannot be dropped", hint=hint)
            allowed = "columns can be added, or LATENESS, AHEAD or WATERMARK BY be changed"
            examples = "ADD COLUMN column TYPE, LATENESS 5 SECONDS, AHEAD 5 MINUTES, WATERMARK BY CLOCK"
            hint = "" if table else "a derived stream has SUSPEND, RESUME and RESUME FROM NOW"
            if table:
                allowed = "columns can be added, or an option be changed"
                examples += ", HISTORY 7 DAYS, DELETED FOR 30 DAYS, EXPIRES BY column"
            self.refuse(f"{allowed}: {examples}", hint=hint)
        self._match_text_seq("COLUMN")
        if_missing = self._match_text_seq("IF", "NOT", "EXISTS")
        column = self._parse_stream_column()
        if if_missing:
            lenient.append(column.this.name)
        return column

    def _parse_dropping(self) -> Any:
        table = self._noun("dropped", "DROP STREAM name")
        lenient = self._match_text_seq("IF", "EXISTS")
        name = self._name(f"DROP {'TABLE' if table else 'STREAM'} needs a name")
        cascade = self._match_text_seq("CASCADE")
        return self.expression(DropStreamNode(this=name, lenient=lenient, cascade=cascade, table=table))

    def _parse_stream_option(self, table: bool) -> tuple[str, Any]:
        if self._match_text_seq("TIMESTAMP", "BY"):
            return "timestamp", self._name("TIMESTAMP BY needs a column")
        if self._match_text_seq("LATENESS"):
            return "lateness", self._parse_duration(_LATENESS_NEEDS)
        if self._match_text_seq("IDLE", "AFTER"):
            return "idle", self._parse_duration("IDLE AFTER needs a duration, as in IDLE AFTER 1 MINUTE")
        if self._match_text_seq("AHEAD"):
            return "ahead", self._parse_duration(_AHEAD_NEEDS)
        if self._match_text_seq("WATERMARK"):
            return "watermark", self._parse_watermark()
        if table:
            return self._parse_table_option()
        if self._match_text_seq("RETENTION"):
            return "retention", self._parse_duration("RETENTION needs a duration or ROWS, as in RETENTION 7 DAYS")
        if self._match_text_seq("ARCHIVE"):
            return "archive", self._parse_duration("ARCHIVE needs a duration or ROWS, as in ARCHIVE 400 DAYS")
        if self._curr and self._curr.text.upper() == "EXPIRES":
            hint = "RETENTION 7 DAYS says how long a stream keeps its tuples; the rows of a table may have EXPIRES BY"
            self.refuse("a stream has no EXPIRES BY", hint=hint)
        self.refuse(f"expected {_STREAM_OPTIONS} or the end")

    def _parse_table_option(self) -> tuple[str, Any]:
        if self._match_text_seq("HISTORY"):
            return "history", self._parse_duration(_HISTORY_NEEDS)
        if self._match_text_seq("DELETED", "FOR"):
            return "deleted", self._parse_duration(_DELETED_NEEDS)
        if self._match_text_seq("EXPIRES", "BY"):
            return "expires", self._name(_EXPIRES_NEEDS)
        if self._match_text_seq("FIRST", "VERSION", "FROM"):
            word = self._name(_FIRST_NEEDS)
            if word.name.upper() not in ("START", "ARRIVAL"):
                self.refuse(_FIRST_NEEDS, self._prev)
            return "first", word
        if self._curr and self._curr.text.upper() in ("RETENTION", "ARCHIVE"):
            hint = "HISTORY 7 DAYS says how long versions are kept that newer ones have replaced"
            self.refuse(f"a table has no {self._curr.text.upper()}: its rows stay until they are deleted", hint=hint)
        self.refuse(f"expected {_TABLE_OPTIONS} or the end")

    def _parse_watermark(self) -> Any:
        """The word after WATERMARK BY."""
        word = self._name(_WATERMARK_NEEDS) if self._match_text_seq("BY") else None
        if word is None or word.name.upper() not in ("CLOCK", "ROWS"):
            self.refuse(_WATERMARK_NEEDS, self._prev)
        return word
