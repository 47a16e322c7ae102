"""psoup why: why a tuple is in the answer of a query, or why not."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from psoup_cli.answer_flags import AsOf, instant_of
from psoup_cli.common import Address, AsJson, OfKey, Timeout, WaitFor, connect, message
from psoup_cli.legible import legible
from psoup_cli.output import print_json

Words = Annotated[
    list[str],
    typer.Argument(
        metavar="[QUERY_ID] TUPLE",
        help="The query; then the ID of a tuple, as the pseudo-column _id shows it, or a row that is not pushed, as"
        " JSON.",
        show_default=False,
    ),
]


Source = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The tuple's source, by its name in the statement, if the query has several sources.",
        show_default=False,
    ),
]


def why(
    words: Words,
    key: OfKey = None,
    source: Source = None,
    as_of: AsOf = None,
    wait_for: WaitFor = None,
    as_json: AsJson = False,
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup why q-7f3a91c2-1 123456
      psoup why --key search-42 123456
      psoup why q-7f3a91c2-1 '{"symbol": "ACME", "price": "99.5", "at": "2026-07-01T12:05:00Z"}'
      psoup why q-7f3a91c2-9 7 --source d

    Print each condition between a tuple and the answer of a query, with its verdict. The conditions are the parts of
    WHERE with their values, the window, the stream's retention, and whether a push takes the row. The first failed
    condition keeps the tuple out. For a query over several sources, each join follows. It names the partner of the
    tuple, or the tuple that prevents the row. GROUP BY, HAVING, ORDER BY, DISTINCT and LIMIT depend on further
    tuples, and are not evaluated.
    """
    if len(words) != (2 if key is None else 1):
        raise typer.BadParameter("give the ID of a query, or --key, and a tuple")
    query_id, subject = None if key is not None else words[0], _tuple(words[-1])
    with connect(address, timeout) as client:
        reasons = client.why(query_id, subject, key=key, source=source, as_of=instant_of(as_of), wait_for=wait_for)
    for step in reasons.steps:
        if as_json:
            facts = {"kind": step.kind, "text": step.text, "passed": step.passed, "values": step.values}
            print_json(facts | ({"partners": step.partners} if step.kind in _OVER_SEVERAL else {}))
        else:
            print(legible(str(step)))
    if not as_json:
        excluded, removals = reasons.kept_out, [step for step in reasons.steps if step.kind == "removal"]
        if removals and excluded is None:
            message("No row shows the tuple: it can only take rows away.")
            return
        inside = (
            "No condition keeps the tuple out." if isinstance(subject, int) else "No condition would keep the row out."
        )
        message(inside if excluded is None else f"Kept out by: {excluded.text}")


_OVER_SEVERAL = ("partner", "absence", "removal")
"""The kinds of conditions over several sources."""


def _tuple(text: str) -> int | dict[str, Any]:
    """Parse the ID of a tuple, or a row as JSON. Raises BadParameter."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if isinstance(value, dict) or (type(value) is int and -(2**63) <= value < 2**63):
        return value
    raise typer.BadParameter(f"{text[:60]!r} is neither the ID of a tuple, which has 64 bits, nor a row as JSON")
