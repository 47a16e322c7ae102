"""Messages of pgoutput, and the rows that a transaction makes of them; without a database.

bytes ──> Insert, Update … ──> rows of the push, in the order of the changes
"""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("psycopg2", reason="psycopg2 is not installed (the extra psoup[postgres])")

from psoup_cdc import pgoutput
from psoup_cdc.lsn import lsn_of, text_of
from psoup_cdc.pgoutput import UNCHANGED, Delete, Insert, RelationMessage, SourceColumn, Truncate, Update
from psoup_cdc.relations import Relations
from psoup_cdc.row_columns import columns_of
from psoup_cdc.source import SourceTable
from psoup_cdc.start import slot_name, statement_for
from psoup_cdc.target import TargetTable
from psoup_cdc.transaction import Transaction
from psoup_cdc.values import texts, to_column
from psoup_client import ColumnInfo, FailedPrecondition, InvalidData, ServerFault

INT, TEXT, TIMESTAMPTZ = 23, 25, 1184
SOURCE = (SourceColumn("id", INT, -1), SourceColumn("other", INT, -1), SourceColumn("doc", TEXT, -1))
TABLE = SourceTable("public", "t", "d", SOURCE, (), ("id",), ("id",), 0)
TARGET = TargetTable(
    "t",
    "s-1",
    (ColumnInfo("doc", "TEXT", pa.string(), True), ColumnInfo("ID", "BIGINT", pa.int64(), False)),
    (1,),
)
DESCRIPTION = RelationMessage(7, "public", "t", "d", SOURCE)


def row_bytes(values: list[Any]) -> bytes:
    """A row, as in a message."""
    cells = struct.pack(">h", len(values))
    for value in values:
        cells += b"n" if value is None else b"u" if value is UNCHANGED else b"t" + struct.pack(">i", len(value)) + value
    return cells


def encoded(change: Insert | Update | Delete) -> bytes:
    """The message of a change."""
    relation = struct.pack(">i", change.relation)
    if isinstance(change, Insert):
        return b"I" + relation + b"N" + row_bytes(change.row)
    if isinstance(change, Delete):
        return b"D" + relation + b"K" + row_bytes(change.before)
    before = b"" if change.before is None else (b"O" if change.whole else b"K") + row_bytes(change.before)
    return b"U" + relation + before + b"N" + row_bytes(change.row)


@dataclass
class Present:
    """The table before the transaction, and the questions about it."""

    rows: dict[int, str] = field(default_factory=dict)
    questions: list[Any] = field(default_factory=list)

    def versions(self, keys: set[tuple[Any, ...]]) -> dict[tuple[Any, ...], tuple[bytes | None, ...]]:
        self.questions.append(keys)
        return {(k,): (self.rows[k].encode(), b"%d" % k) for (k,) in keys if k in self.rows}

    def keys(self) -> pa.Table:
        return pa.table({"ID": pa.array(self.rows, pa.int64())})


def rows_of(*messages: Any, present: Present | None = None) -> list[tuple[Any, ...]]:
    """The rows of a transaction: key, doc and whether it is a deletion."""
    relations, transaction = Relations(TARGET, TABLE), Transaction(TARGET, present or Present())
    relations.begin(transaction)
    relations.describe(DESCRIPTION)
    for message in messages:
        if isinstance(message, Truncate):
            relations.truncate(message)
        else:
            relations.add(encoded(message))
    table = transaction.table()
    return [(row["ID"], row["doc"], row["_deleted"]) for row in table.to_pylist()]


def update(row: list[Any], before: list[Any] | None = None, whole: bool = False) -> Update:
    return Update(7, before, whole, row, UNCHANGED in row)


def test_changes_are_rows_in_their_order_without_columns_that_the_table_lacks() -> None:
    changes = [
        Insert(7, [b"1", b"9", b"a"]),
        update([b"1", None, b"b"]),
        Delete(7, [b"1", None, None]),
        Insert(8, [b"5", b"5", b"of another table"]),
    ]
    assert rows_of(*changes) == [(1, "a", False), (1, "b", False), (1, None, True)]
    assert rows_of() == []


def test_a_changed_key_is_a_row_and_a_deletion() -> None:
    assert rows_of(update([b"2", None, b"a"], [b"1", None, None])) == [(2, "a", False), (1, None, True)]
    assert rows_of(update([b"1", None, b"a"], [b"1", b"7", b"before"], True)) == [(1, "a", False)]


def test_unchanged_values_are_those_of_the_version_before() -> None:
    present = Present({1: "old", 3: "three"})
    changes = [
        update([b"1", None, UNCHANGED]),
        update([b"1", b"2", UNCHANGED]),
        update([b"2", None, UNCHANGED], [b"1", None, None]),
        Insert(7, [b"4", None, b"new"]),
        update([b"4", None, UNCHANGED]),
        update([b"3", None, UNCHANGED], [b"3", b"1", b"whole"], True),
    ]
    assert rows_of(*changes, present=present) == [
        (1, "old", False),
        (1, "old", False),
        (2, "old", False),
        (1, None, True),
        (4, "new", False),
        (4, "new", False),
        (3, "whole", False),
    ]
    assert present.questions == [{(1,), (4,)}]
    with pytest.raises(FailedPrecondition, match=r"an update of key \(8\) leaves out a large value"):
        rows_of(update([b"8", None, UNCHANGED]))


def test_unchanged_values_are_found_in_earlier_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psoup_cdc.transaction.PIECE_ROWS", 1)
    present = Present({1: "old"})
    changes = [
        Insert(7, [b"2", None, b"new"]),
        update([b"1", None, UNCHANGED]),
        update([b"2", None, UNCHANGED]),
        Truncate((7,)),
        Insert(7, [b"1", None, b"later"]),
        update([b"1", b"3", UNCHANGED]),
    ]
    rows = rows_of(*changes, present=present)
    assert [row for row in rows if not row[2]] == [
        (2, "new", False),
        (1, "old", False),
        (2, "new", False),
        (1, "later", False),
        (1, "later", False),
    ]
    assert {key for key, _, deleted in rows if deleted} == {1, 2}
    assert present.questions == [{(1,)}]


def test_truncate_deletes_the_keys_of_the_table_and_of_the_transaction() -> None:
    changes = [Insert(7, [b"9", None, b"a"]), Truncate((6, 7)), Insert(7, [b"5", None, b"b"]), Truncate((6,))]
    assert rows_of(*changes, present=Present({1: "x", 2: "y"})) == [
        (9, "a", False),
        (9, None, True),
        (1, None, True),
        (2, None, True),
        (5, "b", False),
    ]


@pytest.mark.parametrize(
    ("identity", "columns", "words"),
    [
        ("n", SOURCE, "has REPLICA IDENTITY NOTHING now"),
        ("d", (*SOURCE, SourceColumn("more", 1700, 0x90006)), r"ALTER TABLE t ADD COLUMN more DECIMAL\(9,2\) in PSoup"),
        ("d", SOURCE[:2], "has lost or renamed its column 'doc'"),
        ("d", SOURCE[1:], "has lost or renamed its column 'ID'"),
        ("d", (SourceColumn("id", TEXT, -1), *SOURCE[1:]), "column 'ID' of table 't' is a BIGINT"),
    ],
)
def test_a_description_that_needs_the_operator_is_refused(identity: str, columns: Any, words: str) -> None:
    relations = Relations(TARGET, TABLE)
    relations.describe(DESCRIPTION)
    relations.describe(DESCRIPTION)
    with pytest.raises(FailedPrecondition, match=words):
        relations.describe(RelationMessage(7, "public", "t", identity, columns))


def test_a_column_that_comes_later_is_null_until_then() -> None:
    relations, transaction = Relations(TARGET, TABLE), Transaction(TARGET, Present())
    relations.describe(DESCRIPTION._replace(columns=SOURCE[:2]))
    relations.begin(transaction)
    relations.add(encoded(Insert(7, [b"1", None])))
    relations.describe(DESCRIPTION)
    relations.add(encoded(Insert(7, [b"2", None, b"doc"])))
    assert transaction.table()["doc"].to_pylist() == [None, "doc"]


def test_messages_are_decoded() -> None:
    relation, before = struct.pack(">i", 7), [b"1", b"a"]
    for change in (
        Insert(7, [b"1", None]),
        Delete(7, [b"1", None]),
        Update(7, None, False, [b"1", UNCHANGED], True),
        Update(7, before, True, [b"2", b""], False),
        Update(7, before, False, [None], False),
    ):
        assert pgoutput.decode(encoded(change)) == change
    assert pgoutput.decode(b"T" + struct.pack(">ibii", 2, 0, 7, 8)) == Truncate((7, 8))
    assert pgoutput.decode(b"B" + struct.pack(">qqi", 5, 6, 7)) == pgoutput.Begin(5, 6)
    assert pgoutput.decode(b"C\0" + struct.pack(">qqq", 5, 6, 7)) == pgoutput.Commit(5, 6)
    column = b"\1id\0" + struct.pack(">ii", INT, -1)
    message = b"R" + relation + b"public\0t\0d" + struct.pack(">h", 1) + column
    assert pgoutput.decode(message) == RelationMessage(7, "public", "t", "d", SOURCE[:1])
    assert pgoutput.decode(b"Y....") is None
    with pytest.raises(ServerFault, match="kind b'S'"):
        pgoutput.decode(b"S")


def test_values_in_text_form_become_values_or_are_named() -> None:
    def column(kind: str, arrow: pa.DataType, *cells: bytes | None, type_id: int = TEXT) -> list[Any]:
        return list(to_column(texts(cells), type_id, ColumnInfo("c", kind, arrow, True)).to_pylist())

    assert column("BOOLEAN", pa.bool_(), b"t", b"f", None) == [True, False, None]
    assert column("BIGINT", pa.int64(), b"-9223372036854775808") == [-(2**63)]
    zoned = column("TIMESTAMP", pa.timestamp("us", "UTC"), b"2024-01-01 12:00:00.5+00", type_id=TIMESTAMPTZ)
    assert zoned == column("TIMESTAMP", pa.timestamp("us", "UTC"), b"2024-01-01 12:00:00.5")
    with pytest.raises(InvalidData, match=r"the value '1.555' of column 'c' is not a valid DECIMAL\(9,2\)"):
        column("DECIMAL(9,2)", pa.decimal128(9, 2), b"1.50", b"1.555")
    with pytest.raises(InvalidData, match="'infinity'"):
        column("DATE", pa.date32(), b"infinity")


def test_names_and_places() -> None:
    assert slot_name('My "Täble"') == "psoup_my__t_ble_"
    assert len(slot_name("x" * 99)) == 63
    assert text_of(lsn_of("16/B374D848")) == "16/B374D848"
    with pytest.raises(ValueError, match="is not an LSN"):
        lsn_of("here")
    statement = statement_for('t"x', TABLE)
    assert statement == 'CREATE TABLE "t""x" ("id" BIGINT, "other" BIGINT, "doc" TEXT, PRIMARY KEY ("id"))'


@pytest.mark.parametrize("seed", range(4))
def test_columns_of_many_messages_are_those_of_each(seed: int) -> None:
    chance = random.Random(seed)
    changes = [
        (Delete if chance.random() < 0.2 else Insert)(
            7, [chance.choice([None, b"", b"x", "ü".encode() * chance.randrange(300)]) for _ in range(3)]
        )
        for _ in range(chance.randrange(1, 60))
    ]
    read = columns_of([encoded(change) for change in changes], 3)
    assert read is not None
    rows = [change.row if isinstance(change, Insert) else change.before for change in changes]
    for place, column in enumerate(read[0]):
        column.validate(full=True)
        assert column.to_pylist() == texts([row[place] for row in rows]).to_pylist()  # type: ignore[misc]
    assert read[1].tolist() == [isinstance(change, Delete) for change in changes]
    for other in (update([b"1", None, UNCHANGED]), update([b"1", None, b""], [b"2", None, None])):
        assert columns_of([encoded(changes[0]), encoded(other)], 3) is None
    assert columns_of([encoded(changes[0]), encoded(Insert(7, [None] * 4))], 3) is None
