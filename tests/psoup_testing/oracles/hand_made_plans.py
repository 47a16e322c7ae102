"""Plans made by hand over the streams of an embedded engine, and their answers.

plans = HandMadePlans(soup, ("r", "s"))
node = plans.set_operation(plans.select(0, "k"), plans.select(1, "k"), SetOperator.EXCEPT)
rows_of(again(plans.answer, plans.all_of(node)))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from psoup.answer.invoke import Answer, invoke
from psoup.expressions.tree import SET_COLUMNS, AttributeRef
from psoup.local import LocalPSoup
from psoup.plan.nodes import Node, Output, Project, Relation, SetOperation, SetOperator, Source
from psoup.plan.sides import FIRST_RELATION
from psoup.work.read_budget import ReadBudget


class HandMadePlans:
    """Plans over some streams, which may repeat. Each stream has the column `n`, and a source has all its rows."""

    def __init__(self, soup: LocalPSoup, streams: Sequence[str]) -> None:
        self._soup = soup
        aliases = [f"q{place}" for place in range(len(streams))]
        sources = ", ".join(f"{stream} {alias}" for stream, alias in zip(streams, aliases, strict=True))
        equal = " AND ".join(f"q0.n = {alias}.n" for alias in aliases[1:])
        self._query = soup.register(f"SELECT q0.n FROM {sources}{f' WHERE {equal}' if equal else ''}")
        record = soup.engine.snapshot().query(self._query, soup.tenant)
        self.sources: tuple[Source, ...] = record.query.sources

    def answer(self, plan: Node, budget: ReadBudget | None = None, **config: int) -> Answer:
        """The answer of a plan. `config`: fields of the engine's configuration that differ."""
        soup = self._soup
        snapshot = replace(soup.engine.snapshot(), config=replace(soup.engine.config, **config))
        answer = invoke(snapshot, self._query, tenant=soup.tenant, now=soup.clock.now(), budget=budget)
        return Answer(answer.record, answer.completeness, answer._reading, answer._streams, answer.ranges, plan)

    def column(self, place: int, name: str) -> AttributeRef:
        """A column of a source."""
        (ref,) = [o.expr for o in self.sources[place].schema if o.name == name]
        assert isinstance(ref, AttributeRef)
        return ref

    def select(self, place: int, *names: str) -> Project:
        """SELECT of columns of a source."""
        return Project(self.sources[place], tuple([Output(name, self.column(place, name)) for name in names]))


def set_operation(left: Node, right: Node, operator: SetOperator, *, all_rows: bool = False) -> SetOperation:
    """A set operation of two nodes with the same types of columns."""
    columns = enumerate(left.schema)
    outputs = tuple([Output(o.name, AttributeRef(o.type, at, o.name, SET_COLUMNS)) for at, o in columns])
    return SetOperation(left, right, operator, all_rows, outputs)


def relation(node: Node, alias: str = "", place: int = FIRST_RELATION) -> Relation:
    """A node as a leaf of a statement."""
    return Relation(place, node, alias, tuple([output.name for output in node.schema]))


def all_of(leaf: Relation) -> Project:
    """SELECT * of a relation."""
    return Project(leaf, leaf.schema)
