"""PSoup (VLDB 2002), figure 12: a ranked tree answers MAX over any window, and belongs to one clause only.

    leaves   t1 … t26, each a chunk of the stream           A   all of them
    nodes    three leaves each, three of these, …           B   without 20, 15, 19, 22 and 21
    window   [t8, t20]: the leaf t8, a node of nine leaves, a node of three

The paper gives the maximum for A, and the values that B must not see; the other leaves are chosen here.
"""

from __future__ import annotations

import pyarrow as pa

from psoup.config import EngineConfig, Shape
from psoup.local import LocalPSoup
from psoup.work.clock import VirtualClock

LEAVES = [3, 9, 20, 4, 7, 11, 2, 15, 6, 19, 1, 8, 13, 22, 5, 10, 21, 12, 16, 14, 18, 17, 23, 24, 25, 26]
EXCLUDED = (20, 15, 19, 22, 21)
WINDOW = "BEGIN TIMESTAMP '1970-01-01 00:00:08' END TIMESTAMP '1970-01-01 00:00:20'"
TUPLES = 64


def test_figure_12_a_ranked_tree_for_max() -> None:
    config = EngineConfig(chunk_rows=TUPLES, block_rows=TUPLES, shape=Shape(fold_fan=3))
    soup = LocalPSoup(config, VirtualClock(10**9))
    soup.execute("CREATE STREAM r (v BIGINT, at TIMESTAMP NOT NULL) TIMESTAMP BY at")
    a = soup.register(f"SELECT max(v) AS m FROM r {WINDOW}")
    b = soup.register(f"SELECT max(v) AS m FROM r WHERE v NOT IN {EXCLUDED} {WINDOW}")
    for second, value in enumerate([0, *LEAVES]):  # chunk 0 stands before t1, so that t1 is chunk 1
        times = pa.array([second * 1_000_000] * TUPLES, pa.timestamp("us"))
        soup.push("r", pa.table({"v": [value] + [0] * (TUPLES - 1), "at": times}))
    within = LEAVES[7:20]
    for _ in range(3):
        assert soup.invoke(a).to_table().to_pylist() == [{"m": 22}]
        assert soup.invoke(b).to_table().to_pylist() == [{"m": max(set(within) - set(EXCLUDED))}] == [{"m": 16}]
    for query in (a, b):
        (visited,) = [node.figures for node in soup.explain(query).nodes if node.operator == "aggregate"]
        assert {name: visited[name] for name in ("nodes", "leaves", "ends", "unfolded")} == {
            "nodes": 2,  # t9 … t17 are one node of nine, t18 … t20 one of three
            "leaves": 1,
            "ends": 0,
            "unfolded": 0,
        }
    (view,) = soup.engine.snapshot().by_id.values()
    assert len(view.folds.kept()) == 2, "queries of different clauses share no tree"
    soup.check()
