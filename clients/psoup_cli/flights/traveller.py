"""A traveller with copies of answers in a file: reads them without a network, and recharges them after coming back.

March    recharge ─> file          on the way: rows from the file, as of March
July     recharge ─> only changes arrive; for comparison, the bytes that an empty file would take
evening  recharge ─> the changes of a day
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from psoup_cli.flights.questions import FlightQuestion
from psoup_cli.flights.show import clock, say
from psoup_client import Client
from psoup_client.phrases import counted
from psoup_recharge import Recharge, Store

BUDGET = 200_000
"""The greatest number of bytes of one recharge."""


class Traveller:
    """The owner of copies in a file of `folder`, one for each question. `key` returns the key of a question's query."""

    def __init__(
        self, console: Console, folder: Path, questions: Sequence[FlightQuestion], key: Callable[[FlightQuestion], str]
    ) -> None:
        self._console = console
        self._folder = folder
        self._keys = {question.name: key(question) for question in questions}
        self.store = self._made("traveller.db")

    def close(self) -> None:
        """Close the file."""
        self.store.close()

    def leave(self, client: Client, sequence: int) -> None:
        """Copy the present answers, which include the event `sequence`, into the file."""
        say(self._console, f"\nA traveller takes {counted(len(self._keys), 'answer')} along, as a file.", "yellow")
        self._print(self._recharged(self.store, client, sequence), None)

    def on_the_way(self) -> None:
        """Read a copy without a network."""
        entry = self.store.entry("hour_late")
        rows = self.store.read(entry.name).num_rows
        at = "" if entry.now is None else f" {clock(entry.now)}"
        say(
            self._console,
            f"\nOn a plane, without a network: {counted(rows, 'row')} of {entry.name}, {entry.certainty}{at}.",
        )
        say(self._console, f"Any tool for SQLite reads the file: SELECT * FROM {entry.name}")

    def come_back(self, client: Client, sequence: int) -> None:
        """Bring the copies up to date. For comparison, print the bytes that an empty file would take."""
        say(self._console, "\nThe traveller recharges: only what has changed comes.", "yellow")
        report = self._recharged(self.store, client, sequence)
        with self._made(f"anew-{sequence}.db") as other:
            anew = other.recharge(client)
        self._print(report, anew)

    def _made(self, name: str) -> Store:
        store = Store(self._folder / name)
        for question, key in self._keys.items():
            store.add(question, key=key, priority=-1 if question == "hour_late" else 0)  # the largest comes last
        return store

    def _recharged(self, store: Store, client: Client, sequence: int) -> Recharge:
        client.wait_for(sequence)
        return store.recharge(client, max_bytes=BUDGET)

    def _print(self, report: Recharge, anew: Recharge | None) -> None:
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1), header_style="")
        for name in ("copy", "rows", "came", "left", "bytes", *(["bytes anew"] if anew else [])):
            table.add_column(name, justify="left" if name == "copy" else "right", no_wrap=True)
        for place, copy in enumerate(report.copies):
            numbers = [self.store.entry(copy.name).rows, copy.came, copy.gone, copy.size]
            numbers += [anew.copies[place].size] if anew else []
            table.add_row(copy.name, *(f"{number:,}" for number in numbers))
        self._console.print(table)
        beside = f"; {anew.received:,} for a file that knew nothing" if anew else ""
        say(self._console, f"  {counted(report.received, 'byte')} came{beside}.", "dim")
