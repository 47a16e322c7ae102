"""psoup results: tuples down, queries across."""

from psoup_testing.command import Psoup


def test_a_picture(psoup: Psoup, filled: str) -> None:
    some = psoup("register", f"SELECT id FROM {filled} WHERE id <> 2", "--key", "others").out.strip()
    every = psoup("register", f"SELECT id FROM {filled}", "--label", "user=u1").out.strip()
    drawn = psoup("results", filled)
    assert drawn.out.splitlines()[-4:] == [
        "0        # #",
        "1        . #",
        "2        # #",
        f"1 others: 2   2 {every}: 3",
    ]
    assert drawn.err == ""
    last = psoup("results", filled, "--last", "1", "--query", "others")
    assert last.out.splitlines()[1:] == ["2        #", "1 others: 1"]
    assert last.err.startswith("Left out: older tuples; ")
    assert psoup("results", filled, "--query", "others", "--json").rows == [
        {"tuple_id": 0, "query_ids": [some]},
        {"tuple_id": 1, "query_ids": []},
        {"tuple_id": 2, "query_ids": [some]},
    ]
    assert psoup("results", filled, "--label", "user=u1").out.splitlines()[0] == "tuple    1"
    assert psoup("results", filled, "--label", "user=no").err.startswith("No query is on that stream")


def test_what_is_wrong(psoup: Psoup, filled: str) -> None:
    assert psoup("results", "nothing").code == 4
    assert psoup("results", filled, "--query", "none").code == 4
    assert psoup("results", filled, "--begin", "x").code == 2
    assert psoup("results", filled, "--query", "a", "--label", "b=c").code == 2
