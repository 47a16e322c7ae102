"""The three amounts of PSoup, section 5, as the product has them: the response times of the same queries under each.

    NoMat   amount NONE       an invocation evaluates its window
    P       amount PARTIAL    the matches are kept, the window is applied at an invocation
    C       amount COMPLETE   the answer is kept; an invocation brings it up to date

Each amount has an engine of its own: queries with one WHERE share a clause, which is kept at the highest amount.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import pyarrow as pa

from benchmarks.reproduce.processor_time import in_turns
from psoup.config import EngineConfig
from psoup.local import LocalPSoup
from psoup.plan.amounts import Amount, Keeping

AMOUNTS = {"NoMat": Amount.NONE, "P": Amount.PARTIAL, "C": Amount.COMPLETE}
"""The names of the paper."""
KINDS = {
    "NoMat": "product, amount NONE",
    "P": "product, amount PARTIAL",
    "C": "product, amount COMPLETE; nothing came since the last invocation",
}
ANSWER_BYTES = 4 * 1024**3
"""Room for kept answers: answers of intervals over long windows are large."""
EMPTY = "nothing"
"""A stream without tuples: an answer over it takes the fixed cost alone."""


class Amounts:
    """Three engines with the same tuples. `streams`: CREATE STREAM statements, and the tuples by names of streams."""

    def __init__(self, creates: Sequence[str], tuples: Mapping[str, Sequence[pa.Table]]) -> None:
        self.engines = {name: LocalPSoup(EngineConfig(answer_bytes=ANSWER_BYTES)) for name in AMOUNTS}
        for engine in self.engines.values():
            for create in creates:
                engine.execute(create)
            for stream, tables in tuples.items():
                for table in tables:
                    engine.push(stream, table)
            engine.maintain()

    def times(self, statements: Sequence[str], repeats: int) -> dict[str, float]:
        """Milliseconds of an answer under each amount: the mean over the statements. Raises AssertionError if answers
        differ."""
        queries = {name: self._registered(name, statements) for name in AMOUNTS}
        total = dict.fromkeys(AMOUNTS, 0.0)
        for place in range(len(statements)):
            calls = {name: partial(self.answer, name, ids[place]) for name, ids in queries.items()}
            answers = [call() for call in calls.values()]
            if any(answer.combine_chunks() != answers[0].combine_chunks() for answer in answers):
                raise AssertionError(f"the answers of {statements[place]} differ by amount")
            del answers
            for name, spent in in_turns(calls, repeats).items():
                total[name] += spent
        return {name: spent / len(statements) for name, spent in total.items()}

    def answer(self, name: str, query_id: int) -> pa.Table:
        """The answer of a query of the engine of an amount."""
        return self.engines[name].invoke(query_id).to_table()

    def _registered(self, name: str, statements: Sequence[str]) -> list[int]:
        engine = self.engines[name]
        ids = [engine.register(sql, keeping=Keeping(AMOUNTS[name])) for sql in statements]
        engine.maintain()
        return ids

    def forget(self) -> None:
        """Unregister all queries: kept answers and matches leave the memory."""
        for engine in self.engines.values():
            engine.unregister_many(engine.queries())
            engine.maintain()
