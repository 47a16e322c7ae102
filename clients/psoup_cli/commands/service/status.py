"""psoup status: the state of a service, and its data."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from psoup_cli.commands.service.clock import clock_line
from psoup_cli.common import Address, AsJson, Timeout, connect, message
from psoup_cli.output import print_json, print_pairs, print_table
from psoup_client import CopyState, MemoryBill, QueryCounts, ServerInfo
from psoup_client.phrases import counted, verb

_ABOUT = {
    "on disk": "the log, and of chunks and their indexes",
    "archive": "the list of chunks that are on disk only",
    "pinned": "chunks that left memory while a read under way needs them",
    "producer": "the replies that are kept for repeated batches",
    "queued": "requests that wait for their turn",
    "reserved": "accepted tuples, whether answers show them or not",
    "results": "the known matches of queries",
    "sort": "sorts of answers under way",
    "tuples": "tuples in memory that answers read",
}
"""The meaning of each size, for people."""

Memory = Annotated[bool, typer.Option("--memory", help="Show what memory every structure takes instead.")]

Ready = Annotated[bool, typer.Option("--ready", help="Only tell by the exit code whether it serves; needs no token.")]


def status(
    memory: Memory = False,
    ready: Ready = False,
    as_json: AsJson = False,
    address: Address = None,
    timeout: Timeout = None,
) -> None:
    """\b
    Examples:
      psoup status
      psoup status --memory
      psoup status --address 10.0.0.5:7433 --json
      psoup status --ready --timeout 5

    Show whether the service serves, and its data. Exit code 3 if no service
    answers. With --ready also if it starts, drains or has failed: for probes.

    An event is a push, a registration or any other change; the
    sequence counts events. An acknowledged event is on disk, and becomes
    visible to answers in the same order.
    """
    with connect(address, timeout) as client:
        if ready:
            client.check_ready()
            return
        if memory:
            _bill(client.memory(), as_json)
            return
        info = client.info()
        if as_json:
            print_json({"address": client.address, **dataclasses.asdict(info)})
            return
        pairs = [
            ("address", client.address),
            *([("answered by", reached.last.address)] if (reached := client.connection.routes).several else []),
            ("version", info.version),
            ("state", info.state),
            *([("changes", f"refused: {info.refusing}")] if info.refusing else []),
            ("store", f"{info.store}, {'survives a restart' if info.durable else 'nothing survives a restart'}"),
            *([] if info.copy is None else [("copy", _copy(info.copy))]),
            ("started", info.started),
            ("clock", "unknown" if info.clock is None else clock_line(info.clock)),
            ("page", info.web_address or "none"),
            ("sequence", _sequence(info)),
            ("streams", f"{len(client.streams()):,}"),
            ("queries", f"{sum(s.queries for s in client.streams()):,}"),
            *_amounts(info.queries),
            ("watchers", f"{counted(info.watchers, 'client')} {verb(info.watchers, 'waits', 'wait')} for changes"),
        ]
    sizes = dict(info.memory)
    on_disk = [("on disk", sizes.pop("store_bytes"))] if info.durable and "store_bytes" in sizes else []
    sizes = {f"memory: {name.removesuffix('_bytes')}": size for name, size in sorted(sizes.items())}
    pairs += [(f"function {each.name}", f"{each}  {each.about}".rstrip()) for each in info.functions]
    print_pairs([*pairs, *((place, _size(place, size)) for place, size in [*on_disk, *sizes.items()])])


def _amounts(counts: QueryCounts | None) -> list[tuple[str, str]]:
    """Lines with the numbers of queries by how they are kept, without those that say nothing."""
    if counts is None:
        return []
    eager = f" ({counts.eager:,} eager)" if counts.eager else ""
    lines = []
    if counts.none or counts.complete or counts.auto:
        active = f"{counts.none:,} none, {counts.partial:,} partial, {counts.complete:,} complete{eager}"
        lines.append(("amounts", f"of active queries: {active}"))
    if counts.auto:
        lines.append(("auto", f"{counted(counts.auto, 'query')} whose amount the service chooses"))
    if counts.inactive:
        lines.append(("inactive", f"{counted(counts.inactive, 'query')}, {counts.parked:,} of them parked"))
    return lines


def _sequence(info: ServerInfo) -> str:
    """Say which event answers show, and how many acknowledged ones they do not show yet."""
    hidden = info.not_visible
    later = f"; {counted(hidden, 'acknowledged event')} {verb(hidden, 'is', 'are')} not visible yet" if hidden else ""
    return f"{info.sequence:,}, the last event that answers show{later}"


def _copy(copy: CopyState) -> str:
    """Say where the copy of the events is, and how far it is behind."""
    lag = f"lacks {counted(copy.lag_events, 'event')}, for {copy.lag.total_seconds():,.0f} s"
    return f"{copy.place}: {lag if copy.lag_events else 'has all events'}{copy.problem and f' ({copy.problem})'}"


def _size(place: str, size: int) -> str:
    about = _ABOUT.get(place.removeprefix("memory: "))
    return f"{counted(size, 'byte')}{f' of {about}' if about else ''}"


def _bill(bill: MemoryBill, as_json: bool) -> None:
    """Print the bytes of each structure, their sum, and the budget."""
    if not bill.items:
        message("Nothing is shown: the figures cover all tenants, and only the service's operator may see them.")
        return
    if as_json:
        for item in bill.items:
            print_json({**dataclasses.asdict(item), "each": round(item.each, 2)})
        print_json({"structure": "all", "bytes": bill.used, "budget": bill.budget})
        return
    rows = [
        (
            item.structure,
            f"{item.bytes:,}",
            f"{item.reclaimable:,}",
            f"{item.each:,.1f} / {item.per}" if item.count else "-",
        )
        for item in bill.items
    ]
    rows.append(("all", f"{bill.used:,}", f"{sum(item.reclaimable for item in bill.items):,}", ""))
    rows.append(("budget", f"{bill.budget:,}", "", f"{bill.used / bill.budget:.1%} used" if bill.budget else ""))
    print_table(["structure", "bytes", "reclaimable", "each"], rows, [False, True, True, True])
