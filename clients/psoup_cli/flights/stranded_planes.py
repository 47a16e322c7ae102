"""The derived stream of the demo: departures whose plane has not landed after 8 hours, and saved searches over it.

flights, arrivals, airlines ──> CREATE STREAM stranded AS (SELECT …) ──> 100,000 saved searches by destination

In March the stream is created over the flights so far, and the searches are saved. It goes on while no client asks. At
New Year all searches are asked as one table. Then an airline merges, and the rows keep the name that it had.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence

import pyarrow as pa
from rich import box
from rich.console import Console
from rich.table import Table

from psoup_cli.flights.dataset import create_airlines_statement, load_airlines
from psoup_cli.flights.questions import MERGED_FROM, SEARCH, STRANDED
from psoup_cli.flights.show import clock, say, short
from psoup_cli.lag_words import lag_cause
from psoup_client import AnswerTable, Client, Queries
from psoup_client.phrases import counted

SHOWN_DESTINATIONS = 5


class Stranded:
    """The derived stream of a run. `names`: by its part in the statement, the name of each stream and of the table.

    `destinations`: where each traveller flies.
    """

    def __init__(self, console: Console, names: Mapping[str, str], destinations: Sequence[str]) -> None:
        self._console = console
        self._names = names
        self.name = names["stranded"]
        self.destinations = destinations
        self._searches: Queries
        self.answers: AnswerTable
        """The answers of all searches."""
        self.old_names: int
        """The rows with the name that the merged airline had before."""

    def create(self, client: Client, flights: pa.Table, sequence: int) -> None:
        """Load the airlines of `flights`, and create the stream. Wait until it has derived the event `sequence`."""
        airlines = self._names["airlines"]
        client.create_table(create_airlines_statement(airlines))
        loaded = client.upsert(airlines, load_airlines(flights))
        say(
            self._console,
            "\nMany people ask that last question. So the service answers it once, as a stream.",
            "yellow",
        )
        say(
            self._console,
            f"Created the table {airlines}: the names of {loaded.accepted} airlines. And a derived stream:",
        )
        statement = STRANDED.format(**self._names)
        for line in statement.splitlines():
            say(self._console, f"  {line}", "cyan")
        start = time.monotonic()
        client.execute(statement)
        self._say_status(client, sequence)
        say(self._console, f"  The flights and arrivals so far were read in {time.monotonic() - start:.2f} s.", "dim")

    def save_searches(self, client: Client, flights: str) -> None:
        """Register a search for each traveller, all from one template. Their keys begin with the name `flights`."""
        count, sql = len(self.destinations), SEARCH.format(**self._names)
        say(self._console, f"\n{count:,} travellers save a search over {self.name}, each for a destination.", "yellow")
        say(self._console, f"  {sql}", "cyan")
        keys = [f"{flights}/search/{number}" for number in range(count)]
        start = time.monotonic()
        self._searches = client.register_many(sql, pa.table({"dest": self.destinations, "key": keys}), key="key")
        say(self._console, f"  registered in {time.monotonic() - start:.2f} s")

    def come_back(self, client: Client, sequence: int) -> None:
        """Show how far the stream is, after the event `sequence`."""
        say(self._console, f"\n{self.name}: the service has derived it while no client asked", "bold cyan")
        self._say_status(client, sequence)

    def ask(self, client: Client, sequence: int) -> None:
        """Ask all searches as one table. Show the answers for the destinations with the most rows."""
        count = len(self.destinations)
        say(self._console, f"\n{self.name}: {count:,} saved searches, for planes of the last 30 days", "bold cyan")
        self._say_status(client, sequence)
        start = time.monotonic()
        self.answers = client.invoke_table(self._searches, wait_for=sequence)
        seconds = time.monotonic() - start
        self._console.print(self._best())
        say(self._console, f"  all asked at once in {seconds:.2f} s")
        say(self._console, f"  {self.answers.sentence()}", "dim")
        say(self._console, "  Honolulu (HNL) is ten hours away, so each plane to it is in the stream.")

    def keep_names(self, client: Client) -> None:
        """Show that rows have the name that the merged airline had when its flights left."""
        self.old_names = client.ask(f"SELECT count(*) AS n FROM {self.name} WHERE airline = '{MERGED_FROM}'")[0]["n"]
        planes = f"{counted(self.old_names, 'plane')} of {MERGED_FROM}"
        say(self._console, f"\nIn {self.name} each row keeps the name AS OF its departure: {planes}")

    def _say_status(self, client: Client, sequence: int) -> None:
        """Wait until the stream has derived the event `sequence`. Show how far it is, and what it has."""
        client.ask(f"SELECT count(*) AS n FROM {self.name}", wait_for=sequence)
        stream = client.describe(self.name)
        derived = stream.derived
        assert derived is not None
        reached = "nothing yet" if derived.reached is None else clock(derived.reached)
        say(
            self._console,
            f"  derived up to {reached}, lag {derived.lag.total_seconds():.1f} s{lag_cause(derived)};"
            f" {counted(stream.tuples, 'row')}",
        )

    def _best(self) -> Table:
        """A table of the destinations with the most rows."""
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1), header_style="")
        table.add_column("destination")
        table.add_column("searches", justify="right")
        table.add_column("planes", justify="right")
        table.add_column("the last one left")
        searches, groups = Counter(self.destinations), self.answers.to_arrow().group_by("_query", use_threads=False)
        rows = groups.aggregate([("departure", "count"), ("departure", "max")]).to_pylist()
        answers = {self.destinations[row["_query"]]: row for row in rows}  # equal searches have equal answers
        best = sorted(answers, key=lambda dest: (-answers[dest]["departure_count"], dest))
        for dest in best[:SHOWN_DESTINATIONS]:
            row = answers[dest]
            table.add_row(dest, f"{searches[dest]:,}", f"{row['departure_count']:,}", short(row["departure_max"]))
        return table
