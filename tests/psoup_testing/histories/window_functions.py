"""Random window functions, as PSoup writes them and as DuckDB does: ties keep the order of arrival in both.

    PSoup    lag(v) OVER (PARTITION BY k ORDER BY x)
    DuckDB   lag(v) OVER (PARTITION BY k ORDER BY x, _pos)     `_pos` is the order of the rows

A function that depends on peers, such as rank, has the same keys in both.
"""

from __future__ import annotations

from random import Random

KEYS = ("k", "t", "v % 3", "b", "p", "d", "k + v")
"""Keys with ties, NULLs and NaN."""
_AGGREGATES = (
    *("count(*)", "count(v)", "sum(v)", "sum(p)", "sum(d)", "sum(1)", "avg(v)", "avg(d)", "count_if(k IS NULL)"),
    *("min(v)", "max(t)", "min(d)", "max(p)", "min(t)", "bool_and(b)", "bool_or(b)"),
)
_ORDERED = ("string_agg(t, '-' ORDER BY v, t)", "first(p ORDER BY v DESC, p)", "bit_xor(k)")
_ENDS = ("UNBOUNDED", "3", "2", "1", "0")


def drawn(random: Random, tie: str) -> tuple[str, str]:
    """A window function for PSoup, and for DuckDB. `tie`: the keys that give the order of the rows in DuckDB."""
    parted = random.sample(KEYS, random.choice((0, 1, 1, 2)))
    keys = [_key(random) for _ in range(random.choice((0, 1, 1, 2)))]
    by_peers = random.random() < 0.35
    call, frame = _by_peers(random, bool(keys)) if by_peers else _by_rows(random)
    duck_keys = keys if by_peers else [*keys, tie]

    def written(keys: list[str]) -> str:
        parts = [f"PARTITION BY {', '.join(parted)}" * bool(parted), f"ORDER BY {', '.join(keys)}" * bool(keys), frame]
        return f"{call} OVER ({' '.join(filter(None, parts))})"

    return written(keys), written(duck_keys)


def _key(random: Random) -> str:
    return random.choice(KEYS) + random.choice(("", "", " DESC", " NULLS FIRST", " DESC NULLS FIRST"))


def _by_peers(random: Random, ordered: bool) -> tuple[str, str]:
    """A function that gives peers one result, and its frame."""
    ranking = random.choice(("rank()", "dense_rank()", "percent_rank()", "cume_dist()"))
    if random.random() < 0.4:
        return ranking, ""
    frames = ["", "RANGE UNBOUNDED PRECEDING", "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", "RANGE CURRENT ROW"]
    whole = ["RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"]
    if random.random() < 0.3:
        aggregate = random.choice(("count(DISTINCT v)", "sum(DISTINCT p)", "median(v)", "stddev_pop(p)", *_ORDERED))
        return aggregate, whole[0] if ordered else ""
    return _aggregate(random), random.choice(frames + whole)


def _aggregate(random: Random) -> str:
    call = random.choice(_AGGREGATES)
    return call + random.choice(("", "", "", " FILTER (WHERE v > 0)"))


def _by_rows(random: Random) -> tuple[str, str]:
    """A function that depends on the order of peers, and its frame."""
    value = random.choice(("v", "t", "p", "d", "b", "v + 1"))
    if random.random() < 0.4:
        numbered = ("row_number()", f"ntile({random.choice((1, 2, 3, 7))})")
        nulls = random.choice(("", "", " IGNORE NULLS"))
        by = random.choice(("", ", 0", ", 1", ", 2", ", -1"))
        default = random.choice(("", f", {value}" if by else ""))
        shifted = (f"lag({value}{by}{default}{nulls})", f"lead({value}{by}{default}{nulls})")
        return random.choice(numbered + shifted * 2), ""
    nulls = random.choice(("", "", " IGNORE NULLS"))
    shown = (f"first_value({value}{nulls})", f"last_value({value}{nulls})", f"nth_value({value}, 2{nulls})")
    other = ("any_value(v)", "first(t)", "last(v)", "arg_min(t, v)", "arg_max(p, v)")
    call = random.choice((*shown, *shown, *other, _aggregate(random), _aggregate(random), _aggregate(random)))
    return call, _rows(random)


def _rows(random: Random) -> str:
    """A frame of rows. Some are empty."""
    if random.random() < 0.4:
        return f"ROWS {random.choice(_ENDS)} PRECEDING"
    first = random.choice([f"{end} PRECEDING" for end in _ENDS] + ["CURRENT ROW", "1 FOLLOWING", "2 FOLLOWING"])
    last = [f"{end} FOLLOWING" for end in _ENDS] + ["CURRENT ROW"] * ("FOLLOWING" not in first)
    last += ["1 PRECEDING", "2 PRECEDING"] * ("PRECEDING" in first)
    return f"ROWS BETWEEN {first} AND {random.choice(last)}"
