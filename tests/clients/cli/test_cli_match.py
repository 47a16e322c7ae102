"""psoup match: rows of a file held against the standing queries."""

import json
from pathlib import Path

from psoup_testing.services.command import ROWS, Psoup

OFFERED = [(1, "2024-05-01T13:59:59Z"), (1, ROWS[2]["at"]), (2, ROWS[2]["at"])]
"""IDs and times; the first is too late."""


def test_match_prints_rows_and_queries(psoup: Psoup, filled: str, tmp_path: Path) -> None:
    query = psoup("register", f"SELECT id FROM {filled} WHERE id <> 2").out.strip()
    offered = tmp_path / "offered.json"
    offered.write_text("".join(json.dumps({**ROWS[2], "id": number, "at": at}) + "\n" for number, at in OFFERED))
    matched = psoup("match", filled, str(offered))
    assert (matched.out, matched.err) == (f"1\t{query}\n", "1 row is too late: a push would refuse it.\n")
    assert matched.code == 6
    offered.write_text(offered.read_text() + json.dumps({**ROWS[2], "at": "2999-01-01T00:00:00Z"}) + "\n")
    both = psoup("match", filled, str(offered))
    assert (both.code, both.err) == (6, "1 row is too late and 1 row is too far ahead: a push would refuse them.\n")
    offered.write_text(json.dumps(ROWS[2] | {"id": 1}) + "\n")
    assert psoup("match", filled, str(offered)).code == 0
    offered.write_text("".join(json.dumps({**ROWS[2], "id": number, "at": at}) + "\n" for number, at in OFFERED))
    assert psoup("match", filled, str(offered), "--json").rows == [{"row": 1, "query_id": query}]
    assert psoup("match", "nothing", str(offered)).code == 4
    assert psoup("match", filled, "nothing.json").code == 2


def test_why_prints_each_condition(psoup: Psoup, filled: str) -> None:
    query = psoup("register", f"SELECT id FROM {filled} WHERE id <> 2").out.strip()
    told = psoup("why", query, "1")
    assert told.out.splitlines()[0].startswith("no   WHERE ")
    assert "(id is 2)" in told.out
    assert told.err.startswith("Kept out by: ")
    row = json.dumps({"id": 3, "at": ROWS[0]["at"]})
    steps = psoup("why", query, row, "--json").rows
    assert [step["passed"] for step in steps] == [True, True, False]
    assert steps[-1]["text"].startswith("it is too late")
    assert psoup("why", query, "0").err == "No condition keeps the tuple out.\n"
    row = json.dumps({"id": 3, "at": ROWS[-1]["at"]})
    assert psoup("why", query, row).err == "No condition would keep the row out.\n"
    assert psoup("why", query, "x").code == 2
    assert psoup("why", query, "99").code == 4


def test_matches_of_a_range(psoup: Psoup, filled: str) -> None:
    query = psoup("register", f"SELECT id FROM {filled} WHERE id <> 2").out.strip()
    assert psoup("matches", filled, "0", "--to", "2").out == f"0\t{query}\n2\t{query}\n"
    assert psoup("matches", filled, "1", "--to", "2", "--json").rows == [{"tuple_id": 2, "query_id": query}]
    assert psoup("matches", filled, "0", "1", "--to", "2").code == 2
    assert psoup("matches", filled, "0", "--to", "9").code == 4


def test_keys_stand_beside_the_queries(psoup: Psoup, filled: str, tmp_path: Path) -> None:
    sql = f"SELECT id FROM {filled} WHERE id <> 2"
    tags = ("--key", f"{filled}-search", "--label", "user=u3")
    query, other = psoup("register", sql, *tags).out.strip(), psoup("register", sql).out.strip()
    assert psoup("matches", filled, "0").out == f"{query}\t{filled}-search\n{other}\n"
    line = {"tuple_id": 0, "query_id": query, "key": f"{filled}-search"}
    assert psoup("matches", filled, "0", "1", "--label", "user=u3", "--json").rows == [line]
    offered = tmp_path / "offered.json"
    offered.write_text("".join(json.dumps({**ROWS[2], "id": number}) + "\n" for number in (2, 1)))
    assert psoup("match", filled, str(offered), "--label", "user=u3").out == f"1\t{query}\t{filled}-search\n"
    assert psoup("why", "--key", f"{filled}-search", "0").err == "No condition keeps the tuple out.\n"
    assert psoup("why", "--key", f"{filled}-search", query, "0").code == 2
    shown = psoup("top", "--label", "user=u3", "--stream", filled).out
    assert f"{filled}-search" in shown and other not in shown
    assert psoup("top", "--label", "user=nobody").err == (
        "No query is on that stream or has those labels. Show all: psoup top\n"
    )


def test_answers_by_keys_and_by_labels(psoup: Psoup, filled: str) -> None:
    keys = [f"{filled}-{number}" for number in (1, 2)]
    sql, label = f"SELECT id FROM {filled} WHERE id = ?", f"of={filled}"
    first, second = (
        psoup("register", sql, "--param", key[-1], "--key", key, "--label", label).out.strip() for key in keys
    )
    rows = [
        {"query_id": first, "key": keys[0], "rows": [{"id": 1}], "final": False},
        {"query_id": second, "key": keys[1], "rows": [{"id": 2}], "final": False},
    ]
    assert psoup("invoke", "--key", keys[0], "--format", "csv").out == '"id"\n1\n'
    assert psoup("invoke", "--label", f"of={filled}", "--json").rows == rows
    ran = psoup("invoke", "--key", keys[1], "--key", "none", "--key", keys[0], "--json")
    assert (ran.rows[::2], ran.rows[1]["key"], ran.code) == (rows[::-1], "none", 4)
    assert f"{first} ({keys[0]}): 1 row." in psoup("invoke", "--label", f"of={filled}", "--format", "table").out
    assert psoup("invoke", first, "--label", "a=b").code == 2


def test_push_prints_tuple_ids(psoup: Psoup, filled: str, tmp_path: Path) -> None:
    offered = tmp_path / "offered.json"
    offered.write_text("".join(json.dumps({**ROWS[2], "id": number, "at": at}) + "\n" for number, at in OFFERED))
    pushed = psoup("push", filled, str(offered), "--ids")
    assert pushed.out == "0\t3\n1\t4\n"
    assert "1 row was refused among these, and not counted." in pushed.err
    told = psoup("push", filled, str(offered), "--ids", "--json", "--whole").rows
    assert told[:2] == [{"row": 0, "tuple_id": 5}, {"row": 1, "tuple_id": 6}]
    assert (told[2]["accepted"], "sent" in told[2]) == (2, False)
