"""psoup check: the columns, windows and plan of a statement, without registering it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from psoup_cli.common import Address, AsJson, Timeout, WaitFor, connect
from psoup_cli.legible import legible
from psoup_cli.output import print_json, print_pairs, print_table
from psoup_client import Checked, PlanNode
from psoup_client.phrases import counted


def check(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="SELECT ..., or - for standard input.", show_default=False)],
    wait_for: WaitFor = None,
    as_json: AsJson = False,
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup check "SELECT origin, late FROM flights WHERE late > 60 BEGIN (NOW - 1 HOUR)"
      psoup check - < query.sql

    Show a SELECT as the standing query that it would become, without registering it: columns, windows and plan. The
    output also says how many tuples a first invocation would read. Notes warn of windows that may be too short. An
    invalid statement is refused, with its place and a hint.
    """
    with connect(address, timeout) as client:
        checked = client.check(sys.stdin.read() if sql == "-" else sql, wait_for=wait_for)
    if as_json:
        print_json(_facts(checked))
        return
    print_pairs(
        [
            ("streams", ", ".join(checked.streams)),
            ("window", f"{checked.window} ({checked.window_kind})"),
            ("clause", checked.clause),
            ("updates", checked.nodes[0].updates),
            *_plan(checked.nodes),
            *_states(checked.nodes),
            ("to look at", counted(checked.tuples, "tuple")),
        ]
    )
    for note in checked.notes:
        print(f"\nNote: {legible(note)}")
    print()
    print_table(["column", "type"], [(column.name, column.type) for column in checked.columns])


def _plan(nodes: Sequence[PlanNode]) -> list[tuple[str, str]]:
    """The plan on one line, or for several sources as a tree, with a line for each step."""
    if all(len(node.inputs) < 2 for node in nodes):
        return [("plan", " <- ".join(node.text for node in nodes))]
    depths = [0] * len(nodes)
    for node in nodes:
        for place in node.inputs:
            depths[place] = depths[node.id] + 1
    return [("" if node.id else "plan", "  " * depths[node.id] + node.text) for node in nodes]


def _states(nodes: Sequence[PlanNode]) -> list[tuple[str, str]]:
    """The bound of the state of each node that needs one."""
    stateful = [node for node in nodes if node.state is not None and node.state.rows != 0]
    return [
        ("" if at else "state", f"{node.operator}: {node.state.text}")
        for at, node in enumerate(stateful)
        if node.state is not None
    ]


def _facts(checked: Checked) -> dict[str, Any]:
    return {
        "streams": list(checked.streams),
        "window": checked.window,
        "window_kind": checked.window_kind,
        "clause": checked.clause,
        "update_pattern": checked.update_pattern,
        "tuples": checked.tuples,
        "notes": list(checked.notes),
        "columns": [{"name": column.name, "type": column.type} for column in checked.columns],
        "plan": [
            {
                "id": node.id,
                "operator": node.operator,
                "inputs": list(node.inputs),
                "text": node.text,
                "figures": node.figures,
                "facts": node.facts,
                "update_pattern": node.update_pattern,
                "clocks": list(node.clocks),
                "settled_pattern": node.settled_pattern,
                "settled_after": None if node.settled_after is None else node.settled_after.total_seconds(),
                "state": None if node.state is None else asdict(node.state),
            }
            for node in checked.nodes
        ],
    }
