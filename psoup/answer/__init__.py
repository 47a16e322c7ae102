"""Answers from a snapshot: invoke, matches of a tuple, explain, and what there is."""

from psoup.answer.ask import Questions, ask
from psoup.answer.bill import Bill, Item, memory_bill
from psoup.answer.by_tuple import matches, matches_each, matches_many
from psoup.answer.completeness import Completeness
from psoup.answer.costs import ORDERS, QueryCost, query_cost, top_queries
from psoup.answer.describe import (
    StreamDescription,
    bill,
    describe_stream,
    get_query,
    list_queries,
    list_streams,
)
from psoup.answer.explain import Explanation, FactorExplanation, PlanStep, explain
from psoup.answer.flat import Flat
from psoup.answer.invoke import Answer, invoke
from psoup.answer.message import Message
from psoup.answer.reasons import Row, Step, Why, why
from psoup.answer.window import in_memory
from psoup.answer.would_match import Matched, match
from psoup.published.records import QueryRecord
from psoup.published.snapshot import Snapshot

__all__ = [
    "ORDERS",
    "Answer",
    "Bill",
    "Completeness",
    "Explanation",
    "FactorExplanation",
    "Flat",
    "Item",
    "Matched",
    "Message",
    "PlanStep",
    "QueryCost",
    "Questions",
    "QueryRecord",
    "Row",
    "Snapshot",
    "Step",
    "StreamDescription",
    "Why",
    "ask",
    "bill",
    "describe_stream",
    "explain",
    "get_query",
    "in_memory",
    "invoke",
    "list_queries",
    "list_streams",
    "match",
    "matches",
    "matches_each",
    "matches_many",
    "memory_bill",
    "query_cost",
    "top_queries",
    "why",
]
