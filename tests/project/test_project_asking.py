"""Random tests ask each question several times, by `oracles.questions`: the syntax trees of all tests are walked.

random      what names `random`, Hypothesis, `psoup_testing.suite.budget`, or what does so: functions, classes, imports
asks        x.invoke(…), x.ask(…), invoke_table(…)       but again(x.invoke, …) is no call of `invoke`
no answer   a statement by itself, or within `pytest.raises`
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from psoup_testing.suite.trees import nodes

TESTS = Path(__file__).resolve().parent.parent
ASKS = frozenset(
    ("invoke", "invoke_many", "invoke_table", "invoke_stream", "ask", "ask_many", "ask_table", "ask_stream")
)
ASKING = re.compile(rf"\b(?:{'|'.join(ASKS)})\s*\(")
"""A call in the text of a module. A module without one is not parsed, which saves most of the time."""

CHANCE = frozenset(("random", "hypothesis", "default_rng"))
BUDGET = "psoup_testing.suite.budget"
_CHANGES = "a question for changes: what the client holds is compared with an answer that is asked for again"
_GUARD = "called by what asks again"
_FORMAT = "answers from files of older formats, which are written once"
_TYPES = "a script for the type checker"
_EXPECTED = "what is expected, from an engine that answers each query alone"
_DAMAGED = "a start from damaged files, thousands of times"
_ATTACKED = "a client that attacks a service, and one that is served beside it"
_COUNTED = "the test counts what one question makes, reads or holds"
_KILLED = "a service that is killed again and again, and asked by the SDK"
EXCEPTIONS: dict[str, str] = {
    "crash/test_crash_cdc.py test_a_first_copy_that_is_killed_begins_anew": _KILLED,
    "crash/test_crash_tables.py test_kill_9_while_rows_are_upserted_patched_and_deleted": _KILLED,
    "service/ingest/test_service_copy_kills.py test_a_standby_that_is_killed_at_any_step_goes_on": _KILLED,
    "service/ingest/test_service_copy_kills.py test_a_writer_that_is_killed_at_any_step_goes_on": _KILLED,
    "service/ingest/test_service_promotion_troubles.py test_a_standby_that_is_killed_at_any_moment_is_promoted_later": (
        _KILLED
    ),
    "storage/replica/test_storage_replica_s3_faults.py test_a_standby_follows_through_faults": "by the SDK, faulty",
    "psoup_testing/oracles/table_duel.py TableDuel._compare_tables": "columns and NOW; the question is asked again",
    "psoup_testing/oracles/table_duel.py TableDuel._table": _GUARD,
    "engine/answer/test_answer_again.py History.compare": _CHANGES,
    "engine/answer/test_answer_joined_since.py CopyDuel._compare": _CHANGES,
    "engine/answer/test_answer_joined_since.py History.compare": _CHANGES,
    "engine/answer/test_answer_since.py History.compare": _CHANGES,
    "engine/data/test_engine_key_indexes.py asked": _COUNTED,
    "engine/execution/test_partners.py Streams.__init__": "the plan and the matches of an answer without its rows",
    "engine/execution/test_ways.py _with_partners": "the plan and the matches of an answer without its rows",
    "engine/engine/test_engine_state_machine.py EngineMachine.wrong": "a command that is refused",
    "engine/joins/test_joins_direct.py _ask": _COUNTED,
    "psoup_testing/engines/eager_engine.py asked": _COUNTED,
    "engine/joins/test_joins_halved.py test_crowded_joins_are_left_to_pieces_for_a_while": _COUNTED,
    "engine/execution/test_relation_budgets.py _asked": _COUNTED,
    "engine/sql/test_sql_spans.py test_conditions_keep_what_duckdb_keeps": "`Both.ask` asks again",
    "engine/sql/test_sql_spans.py test_rows_are_put_in_the_order_of_a_difference": "`Both.ask` asks again",
    "engine/sql/test_sql_spans.py test_values_are_duckdbs": "`Both.ask` asks again",
    "engine/answer/test_table_room.py _checked": "the first question finds its room full",
    "psoup_testing/oracles/hand_made_plans.py HandMadePlans.answer": _GUARD,
    "psoup_testing/oracles/questions.py _told": _GUARD,
    "psoup_testing/oracles/questions.py again_awaited": _GUARD,
    "psoup_testing/oracles/questions.py asked_once": _GUARD,
    "psoup_testing/copies/copy_clients.py Clients.ask_for": _CHANGES,
    "psoup_testing/oracles/complete_answers.py _asked": _GUARD,
    "psoup_testing/oracles/duel.py Duel._ask": _GUARD,
    "psoup_testing/oracles/duel.py Duel.unregister": "a query that is gone",
    "psoup_testing/oracles/join_duel.py JoinDuel._compare": "as of NOW; the same question follows, asked again",
    "psoup_testing/http2/hostile_connections.py Victim._live": "a client that is served while others attack",
    "psoup_testing/spark/spark_duel.py SparkDuel.check": "`ask` draws a window; the question follows, asked again",
    "psoup_testing/oracles/tables.py calls": _COUNTED,
    "psoup_testing/oracles/tables.py check_as_single": _EXPECTED,
    "storage/damage/test_storage_flips.py open_and_ask": _DAMAGED,
    "storage/damage/test_storage_overwritten.py said": _DAMAGED,
}
"""Functions of random tests that ask once, by file and name, with the reason."""
EXCEPTIONS |= {
    f"service/queries/test_composed_bad_input.py {name}": _ATTACKED
    for name in ("calls", "test_costly_statements_leave_calls_of_another_client_fast")
}
EXCEPTIONS |= {
    f"psoup_testing/engines/format_fixture.py {name}": _FORMAT
    for name in ("_answer", "_counted", "_joined", "_passed", "_replaced", "_spooled", "make")
}
EXCEPTIONS["psoup_testing/engines/fixture_table.py shown_table"] = _FORMAT
EXCEPTIONS |= {
    f"psoup_testing/services/typical_use.py {name}": _TYPES for name in ("asked", "joined", "many", "session")
}

Units = dict[str, ast.AST]


def test_random_tests_ask_by_the_shared_helper() -> None:
    found = {name: line for path in sorted(TESTS.rglob("*.py")) for name, line in asked_once(path)}
    more = {f"{name}, line {line}" for name, line in found.items() if name not in EXCEPTIONS}
    assert not more, f"ask by psoup_testing.oracles.questions.again: {sorted(more)}"
    assert not EXCEPTIONS.keys() - found.keys(), "exceptions that are not needed"


def asked_once(path: Path, root: Path = TESTS) -> Iterator[tuple[str, int]]:
    """The places of a module that are random and ask for an answer once: `folder/file.py function`, and a line."""
    if ASKING.search(path.read_text()) is None:
        return
    units, chance = units_of(path), random_units(path)
    used = {name for unit in chance for name in mentioned(units[unit])}
    shared = "psoup_testing" in path.parts
    for name, unit in units.items():
        if not (shared or name in chance or name in used):
            continue
        for function in functions_of(unit):
            lines = list(single_asks(function))
            if lines:
                label = name if function is unit else f"{name}.{function.name}"
                yield f"{path.relative_to(root)} {label}", lines[0]


def units_of(path: Path) -> Units:
    """The functions, classes and variables of a module by their names."""
    units: Units = {}
    for statement in parsed(path).body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            units[statement.name] = statement
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
                units |= {node.id: statement for node in ast.walk(target) if isinstance(node, ast.Name)}
    return units


@cache
def random_units(path: Path) -> frozenset[str]:
    """The units of a module that draw, or that use something which does."""
    units, chance = units_of(path), set[str]()
    drawing = set(CHANCE)
    for statement in parsed(path).body:
        if isinstance(statement, ast.ImportFrom) and statement.module:
            source = TESTS / f"{statement.module.replace('.', '/')}.py"
            names = {alias.name for alias in statement.names}
            whole = statement.module.split(".")[0] in CHANCE or statement.module == BUDGET
            drawing |= names if whole else names & random_units(source) if source.exists() else set()
    while True:
        more = {name for name, unit in units.items() if name not in chance and mentioned(unit) & (drawing | chance)}
        if not more:
            return frozenset(chance)
        chance |= more


@cache
def mentioned(unit: ast.AST) -> frozenset[str]:
    """The names, attributes and parameters in a piece of code."""
    names = set[str]()
    for node in nodes(unit):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
    return frozenset(names)


def functions_of(unit: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """A function itself, or the methods of a class."""
    inside = unit.body if isinstance(unit, ast.ClassDef) else [unit]
    return [node for node in inside if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def single_asks(node: ast.AST) -> Iterator[int]:
    """The lines of calls that ask for an answer which is used, and that are not repeated `TIMES` times."""
    if isinstance(node, ast.With | ast.AsyncWith) and "raises" in mentioned(node.items[0].context_expr):
        return
    if isinstance(node, ast.For) and "TIMES" in mentioned(node.iter):
        return
    if isinstance(node, ast.Expr):
        return
    if isinstance(node, ast.Call) and _name(node.func) in ASKS:
        yield node.lineno
    for child in ast.iter_child_nodes(node):
        yield from single_asks(child)


def _name(function: ast.expr) -> str | None:
    if isinstance(function, ast.Attribute):
        return None if mentioned(function.value) & {"CliRunner", "runner"} else function.attr
    return function.id if isinstance(function, ast.Name) else None


@cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text())


def test_the_search_finds_each_way_to_ask_once(tmp_path: Path) -> None:
    """Otherwise it would say nothing of tests that come later."""
    folder = tmp_path / "engine"
    folder.mkdir()
    path = folder / "test_drawn.py"
    path.write_text(
        "import random\n"
        "def drawn(soup): return soup.invoke(1)\n"
        "def test_one(soup): assert drawn(soup) == random.random()\n"
        "def test_two(soup): assert invoke(soup, random.random())\n"
        "def test_loop(soup):\n    for _ in range(TIMES):\n        assert soup.ask(random.random())\n"
        "def test_helper(soup): assert again(soup.ask, random.random())\n"
        "def test_fixed(soup): assert soup.ask(1)\n"
        "def test_refused(soup):\n    with pytest.raises(ValueError):\n        assert soup.ask(random.random())\n"
    )
    assert list(asked_once(path, tmp_path)) == [("engine/test_drawn.py drawn", 2), ("engine/test_drawn.py test_two", 4)]
