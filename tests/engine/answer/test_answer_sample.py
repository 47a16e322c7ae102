"""Shares of the newest tuples that the conditions of a query let pass, held against counts by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from psoup.answer.explain.sample import SAMPLE
from psoup.config import EngineConfig
from psoup.local import LocalPSoup


@pytest.mark.parametrize("rows", [0, 5, 700, 5_000])
def test_conditions_are_tried_on_the_newest_tuples_and_the_most_selective_comes_first(rows: int) -> None:
    soup = LocalPSoup(EngineConfig(chunk_rows=512))
    soup.execute("CREATE STREAM s (a BIGINT, b TEXT)")
    query = soup.register("SELECT a FROM s WHERE a >= 100 AND (b = 'x' OR a % 7 = 0) AND 10 // (a - 4500) <> 3")
    numbers = np.arange(rows)
    if rows:
        soup.push("s", pa.table({"a": numbers, "b": ["x" if n % 3 else None for n in range(rows)]}))
    soup.maintain()
    newest = numbers[-SAMPLE:]
    either = (newest % 3 != 0) | (newest % 7 == 0)
    divided = np.array([n != 4_500 and 10 // (n - 4_500) != 3 for n in newest.tolist()], np.bool_)
    explained = soup.explain(query)
    source = explained.nodes[-1]
    assert source.figures["sample"] == len(newest)
    shares = [source.figures[f"factor_{k}_passes"] for k in (1, 2, 3)] if rows else []
    counted = {'"a" in': newest >= 100, '"b"': either, "//": divided}
    assert shares == sorted(float(passed.mean()) for passed in counted.values() if rows)
    for factor in explained.source.factors:
        (passed,) = (passed for text, passed in counted.items() if factor.text.startswith(text) or text in factor.text)
        assert factor.passes == (passed.mean() if rows else None)
    if rows:
        assert source.figures["selectivity"] == soup.invoke(query).to_table().num_rows / rows
        assert f"{shares[0]:.1%} of the newest tuples pass" in "\n".join(explained.lines())
    assert "selectivity" in source.figures or not rows
