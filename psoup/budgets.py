"""The budgets of statements, queries, reads and credentials: their names, the bounded quantities, and the settings.

    join_pairs   of a read: pairs of tuples that a join looks at     setting join_pairs of the service
       └─> RESOURCE_EXHAUSTED JOIN_BUDGET   budget=join_pairs used=301,000,000 limit=268,435,456 setting=join_pairs

The module that refuses writes the message for people. `over` returns the facts of the refusal, for programs. EXPLAIN
lists the budgets of an invocation (`psoup.answer.explain.spend`). Tenants have quotas instead (`psoup.events.tenants`).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """A budget.

    `of`: the kind of its owner: statement, query, batch, read or credential. `what`: the bounded quantity. `setting`:
    the setting that raises the limit, or "" if none does.
    """

    name: str
    of: str
    what: str
    setting: str = ""

    def over(self, used: float | str, limit: float | str) -> dict[str, str | int]:
        """The facts of a refusal, for programs.

        `used`: the use, including the refused addition. A caller whose `used` lacks the addition adds the fact
        `needed`.
        """
        return {"budget": self.name, "used": str(used), **self.facts(limit)}

    def facts(self, limit: float | str) -> dict[str, str | int]:
        """The facts of a refusal without `used`. For a budget that tenants share: a caller may not learn another
        tenant's use."""
        facts: dict[str, str | int] = {"budget": self.name, "limit": str(limit)}
        return {**facts, "setting": self.setting} if self.setting else facts


STATEMENT_BYTES = Budget("statement_bytes", "statement", "bytes of UTF-8 of its text")
STATEMENT_DEPTH = Budget("statement_depth", "statement", "brackets, CASE and prefix operators within one another")
STATEMENT_WORDS = Budget("statement_words", "statement", "words and signs: about 200 ms of reading and binding")
MEMORY = Budget("memory_bytes", "query", "bytes of tuples, queries and results, of all of them", "memory_mib")
STAGED_BYTES = Budget("staged_bytes", "batch", "bytes of batches in parts that are not committed", "staged_mib")
READ_CPU = Budget("read_cpu", "read", "seconds of processor time", "read_cpu_s")
ARCHIVE_SECONDS = Budget("archive_seconds", "read", "seconds for tuples on disk", "archive_seconds")
ARCHIVE_ROWS = Budget("archive_rows", "read", "tuples on disk that are evaluated, in an embedded engine")
ROWS_EXAMINED = Budget("rows_examined", "read", "tuples that are looked at, of a read that has a bound for it")
SORT_ROWS = Budget("sort_rows", "read", "rows of sorts, set operations and subselects, values of a median", "sort_rows")
SORT_BYTES = Budget("sort_bytes", "read", "bytes that sorts, set operations and subselects hold", "sort_mib")
GROUP_KEYS = Budget("group_keys", "read", "groups that are told apart", "group_keys")
GROUP_ROWS = Budget("group_rows", "read", "groups that are shown", "group_rows")
GROUP_BYTES = Budget("group_bytes", "read", "bytes that groups hold", "sort_mib")
JOIN_PAIRS = Budget("join_pairs", "read", "pairs of tuples that a join looks at", "join_pairs")
JOIN_BYTES = Budget("join_bytes", "read", "bytes that a join holds", "join_mib")
SHARED_BYTES = Budget("shared_bytes", "read", "bytes that sorts, groups and joins of all reads hold", "sorts_mib")
ROW_BYTES = Budget("row_bytes", "read", "bytes of text that the SELECT list makes of one row")
REPLY_BYTES = Budget("reply_bytes", "read", "bytes of a row, or of an answer that is sent whole, in one message")
RESULTS_BYTES = Budget("results_bytes", "read", "bytes of bits, of queries over tuples, in one call")
COPIED_BYTES = Budget("copied_bytes", "read", "bytes of an answer that is compared with the one before, for copies")
PINNED_BYTES = Budget("pinned_bytes", "read", "bytes kept for readers of streamed answers that are behind, of all")
WATCHES = Budget("watches", "credential", "watches that are open at a time", "watches_per_credential")

BUDGETS = {budget.name: budget for budget in [*globals().values()] if isinstance(budget, Budget)}
"""All budgets by name, in the order of their definition."""
