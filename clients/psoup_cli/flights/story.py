"""The story of the demo: register queries, replay flights, go away, come back, ask.

    before      five queries wait for flights
    March       three more are registered, over what has already flown, three joins: with the weather, of flights
                with flights, and of departures without an arrival; and two that count
                the last join becomes a derived stream, over which 100,000 travellers save a search
                a traveller takes copies of their answers along, in a file
    April       the client goes away; flights go on
    10 July     a new client comes back with nothing but the keys of its queries; the traveller recharges the file
    New Year    a heartbeat ends the year; four more queries are answered over all of it, and the longest delay is
                held against all queries: which it matched, and why an answer lacks it; the saved searches are asked
                as one table; a row of the table of airlines changes; and 100,000 travellers each have a counter of
                their flight, all asked as one table, too; half of the counters become inactive

All calls go through the public SDK. There are two clients: the airports' client pushes, and the user's client asks.
"""

from __future__ import annotations

import datetime as dt
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from rich.console import Console

from psoup_cli.flights.dataset import (
    LAST_HEARTBEAT,
    create_arrivals_statement,
    create_statement,
    create_weather_statement,
    load_arrivals,
    load_weather,
)
from psoup_cli.flights.interrupt import CtrlC
from psoup_cli.flights.questions import (
    AFTER,
    BEFORE,
    COUNTS,
    DURING,
    HOUR_LATE,
    JOINS,
    MERGED,
    NAMES,
    TRAVELLER,
    TRAVELLERS,
    FlightQuestion,
)
from psoup_cli.flights.replay import QuietReplay, Replay
from psoup_cli.flights.show import clock, print_answer, say
from psoup_cli.flights.stranded_planes import Stranded
from psoup_cli.flights.traveller import Traveller
from psoup_cli.picture import PictureSize, picture
from psoup_client import Answer, AnswerTable, Client, Queries, Query

MARCH = dt.datetime(2013, 3, 8, 22, 30, tzinfo=dt.UTC)
APRIL = dt.datetime(2013, 4, 10, 16, 0, tzinfo=dt.UTC)
JULY = dt.datetime(2013, 7, 10, 23, 0, tzinfo=dt.UTC)
EVENING = JULY + dt.timedelta(days=1)
AGAIN = (*BEFORE, JOINS[1], *COUNTS)
"""The questions that the demo asks again in July."""
CARRIED = (HOUR_LATE, *AGAIN)
"""The questions whose answers the traveller carries in a file."""
INDEPENDENCE_DAY = dt.datetime(2013, 7, 4, 16, 0, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """An answer that was printed, with its question and the options of the invocation."""

    question: FlightQuestion
    answer: Answer
    as_of: dt.datetime | None = None
    window: str = ""


class Story:
    """A run of the demo against the service at `address`."""

    def __init__(self, console: Console, address: str, flights: pa.Table, speed: float, ctrl_c: CtrlC) -> None:
        self._console = console
        self._address = address
        self._flights = flights
        self._speed = speed
        self._ctrl_c = ctrl_c
        self._sequence = 0
        self._beside: list[QuietReplay] = []
        """The replays of the weather and of the arrivals."""
        self.stream = self.weather = self.arrivals = self.airlines = ""
        self.longest = 0
        """The tuple ID of the longest delay of the year."""
        self.shown: list[ShownAnswer] = []
        step = flights.num_rows // TRAVELLERS
        taken = pa.array(range(0, step * TRAVELLERS, step))
        self.travellers = flights.select(["carrier", "flight", "dest"]).take(taken)
        """The carrier, flight number and destination of each traveller."""
        self.stranded: Stranded | None = None
        """The derived stream, once there is one."""
        self.counters: AnswerTable
        """The answers of all travellers' counters."""
        self.traveller: Traveller
        self.carried: dict[str, pa.Table] = {}
        """The traveller's copies after coming back, by the names of their questions."""

    def run(self) -> None:
        """Run the whole story. Raises PSoupError when the service fails."""
        with ExitStack() as stack:
            airports = stack.enter_context(Client(self._address))
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="psoup-demo-"))
            self.stream = self._create(airports)
            self.weather = self._create_weather(airports)
            self.arrivals = self._create_arrivals(airports)
            self.airlines = self.stream.replace("flights", "airlines", 1)
            self._beside = [
                QuietReplay(airports, self.weather, load_weather(), "hour"),
                QuietReplay(airports, self.arrivals, load_arrivals(self._flights), "landed"),
            ]
            self.traveller = Traveller(self._console, Path(folder), CARRIED, self.key)
            stack.enter_context(closing(self.traveller))
            asking = Client(self._address)
            try:
                self._register(asking, BEFORE, "Five standing queries are registered before the first flight.")
                with airports.producer(self.stream, name="airports", batch_rows=4_096) as producer:
                    replay = Replay(self._console, producer, self._flights, self._speed, self._ctrl_c)
                    self._until_july(asking, replay)
                    asking.close()
                    asking = self._come_back(replay)
                    self._replay(replay, EVENING, f"A day later, {clock(EVENING)}.")
                    self.traveller.come_back(asking, self._sequence)
                    self._replay(replay, None, "The rest of the year.")
                airports.heartbeat(self.stream, LAST_HEARTBEAT)
                self._sequence = airports.last_sequence
                self._end_of_year(asking, replay)
            finally:
                asking.close()

    def _create(self, client: Client) -> str:
        """Create a stream for this run, with a new name if the service has the streams of earlier runs."""
        taken = {stream.name for stream in client.streams()}
        names = ["flights", *(f"flights_{number}" for number in range(2, len(taken) + 3))]
        name = next(name for name in names if name not in taken)
        client.create_stream(create_statement(name))
        say(self._console, f"Created the stream {name}. An event is a departure; that of a cancelled flight is at")
        say(self._console, "the time when it was due. Times are shown as New York's clocks show them.")
        return name

    def _create_weather(self, client: Client) -> str:
        """Create the stream of the weather, named after the stream of the flights."""
        name = self.stream.replace("flights", "weather", 1)
        client.create_stream(create_weather_statement(name))
        say(self._console, f"Created the stream {name}: each hour an event from each of the three airports.")
        return name

    def _create_arrivals(self, client: Client) -> str:
        """Create the stream of the arrivals, named after the stream of the flights."""
        name = self.stream.replace("flights", "arrivals", 1)
        client.create_stream(create_arrivals_statement(name))
        say(self._console, f"Created the stream {name}: an event is the landing of a flight, anywhere.")
        return name

    def _until_july(self, client: Client, replay: Replay) -> None:
        self._replay(replay, MARCH, f"Replaying 2013 from January to {clock(MARCH)}.")
        self._ask(client, BEFORE[0])
        self._ask(client, BEFORE[1])
        self._register(client, DURING, "Three more queries, answered at once over flights that left before them.")
        for question in DURING:
            self._ask(client, question)
        self._register(client, JOINS, "Three joins: with the weather, of flights with flights, and without an arrival.")
        for question in JOINS:
            self._ask(client, question)
        self.stranded = self._derive(client)
        self._register(client, COUNTS, "Two count by groups: delays by airline and hour, and the busiest airports.")
        for question in COUNTS:
            self._ask(client, question)
        self._register(client, [HOUR_LATE], "And one that a traveller wants.")
        self.traveller.leave(client, self._sequence)
        self._replay(replay, APRIL, f"On to {clock(APRIL)}.")

    def _derive(self, client: Client) -> Stranded:
        """Create the derived stream, and register the travellers' searches over it."""
        names = {
            name: self.stream.replace("flights", name, 1) for name in ("flights", "arrivals", "airlines", "stranded")
        }
        stranded = Stranded(self._console, names, self.travellers["dest"].to_pylist())
        stranded.create(client, self._flights, self._sequence)
        stranded.save_searches(client, self.stream)
        return stranded

    def _come_back(self, replay: Replay) -> Client:
        """Close the client that asks, go on with the replay, and open a new client. The queries stand meanwhile."""
        say(self._console, "\nThe client goes away: its connection is closed. The flights go on.", "yellow")
        self.traveller.on_the_way()
        self._replay(replay, JULY, f"Until {clock(JULY)}, while no client asks.")
        say(
            self._console, "\nA new client comes back, with nothing but the keys that it gave to its queries.", "yellow"
        )
        client = Client(self._address)
        for question in AGAIN:
            self._ask(client, question)
        assert self.stranded is not None
        self.stranded.come_back(client, self._sequence)
        say(self._console, "\nThe traveller is back as well.", "yellow")
        self.traveller.come_back(client, self._sequence)
        self.carried = {question.name: self.traveller.store.read(question.name) for question in CARRIED}
        return client

    def _end_of_year(self, client: Client, replay: Replay) -> None:
        say(self._console, "\nThe year is over; a heartbeat says that nothing older will come.", "yellow")
        say(self._console, f"{self._flights.num_rows:,} flights at {replay.rate:,.0f} a second.")
        self._ask(client, BEFORE[0])
        self._ask(client, BEFORE[2])
        self._ask(client, BEFORE[2], as_of=INDEPENDENCE_DAY)
        self._ask(client, BEFORE[0], as_of=JULY, window="BEGIN (NOW - 15 MINUTES)")
        self._register(client, AFTER, "Four new queries, over the whole year that has passed.")
        for question in AFTER:
            self._ask(client, question)
        self._other_way_round(client)
        assert self.stranded is not None
        self.stranded.ask(client, self._sequence)
        self._merge_airlines(client, self.stranded)
        self._count_for_travellers(client)

    def _other_way_round(self, client: Client) -> None:
        """Show which queries one tuple matched, and why an answer lacks it. Then draw ten tuples as a picture."""
        worst = client.ask(
            f"SELECT _id FROM {self.stream} WHERE dep_delay > 15 * 60 ORDER BY dep_delay DESC LIMIT 1",
            wait_for=self._sequence,
        )
        self.longest = worst[0]["_id"]
        matched = client.matches(self.stream, self.longest, keys=True)
        say(self._console, "\nAnd the other way round: which queries did the longest delay match?", "bold cyan")
        for question in (*BEFORE, *DURING, *AFTER):  # without joins, because they match pairs of tuples
            if self.key(question) in matched:
                say(self._console, f"  {self.key(question):20}  {question.title}")
        say(self._console, f"\nWhy is it not in the answer of {self.key(BEFORE[1])} now?", "bold cyan")
        for step in client.why(key=self.key(BEFORE[1]), tuple=self.longest).steps:
            self._console.print(f"  {step}", soft_wrap=True)
        say(self._console, f"\nTen flights before {clock(JULY)}, and all queries about delays", "bold cyan")
        bits = client.results(self.stream, labels={"demo": self.stream, "topic": "delays"}, end=JULY, last=10)
        lines, _ = picture(bits, bits.first_id, PictureSize(10, len(bits), len(bits), self._console.width - 2))
        for line in lines:
            say(self._console, f"  {line}")

    def _merge_airlines(self, client: Client, stranded: Stranded) -> None:
        """Change a row of the table of airlines, and join all flights of the year with it."""
        merged = client.upsert(self.airlines, [MERGED])
        self._sequence = max(self._sequence, merged.sequence)
        say(
            self._console,
            f"\nA row of the table {self.airlines} changes: US Airways has merged, and flies as American Airlines.",
            "yellow",
        )
        self._register(client, [NAMES], "A join has the table as it is now, for old flights, too.")
        self._ask(client, NAMES)
        stranded.keep_names(client)

    def _count_for_travellers(self, client: Client) -> None:
        """Register a counter for each traveller, all from one template. Then ask for all counters as one table."""
        say(self._console, f"\n{TRAVELLERS:,} travellers: each has a counter of one flight.", "bold cyan")
        keys = pa.array([f"{self.stream}/traveller/{number}" for number in range(TRAVELLERS)])
        rows = self.travellers.select(["carrier", "flight"]).append_column("key", keys)
        start = time.monotonic()
        counters = client.register_many(TRAVELLER.format(flights=self.stream), rows, key="key")
        registered = time.monotonic()
        self.counters = client.invoke_table(counters, wait_for=self._sequence)
        seconds = time.monotonic() - registered
        say(self._console, f"  registered in {registered - start:.2f} s, all asked at once in {seconds:.2f} s")
        say(self._console, f"  {self.counters.sentence()}", "dim")
        unlucky = sum(row["late"] >= 10 for row in self.counters.to_arrow().select(["late"]).to_pylist())
        say(self._console, f"  {unlucky:,} of them take a flight that was over an hour late ten times in 90 days.")
        self._let_half_rest(client, counters)

    def _let_half_rest(self, client: Client, counters: Queries) -> None:
        """Make every second counter inactive. Show the memory of all queries and their matches."""
        altered = client.alter_queries(counters[::2], active=False)
        say(self._console, f"  {altered.changed:,} of them are at home: their counters are inactive meanwhile.")
        size = _memory_of_queries(client) / 1e6
        say(self._console, f"  All queries take {size:.1f} MB, with the counters, the searches, and what they match.")

    def _replay(self, replay: Replay, moment: dt.datetime | None, text: str) -> None:
        say(self._console, f"\n{text}", "yellow")
        for replay_beside in self._beside:
            replay_beside.until(moment)
        self._sequence = replay.until(moment).sequence

    def _register(self, client: Client, questions: Sequence[FlightQuestion], text: str) -> None:
        say(self._console, f"\n{text}", "yellow")
        for question in questions:
            query = client.register(
                question.sql.format(
                    flights=self.stream, weather=self.weather, arrivals=self.arrivals, airlines=self.airlines
                ),
                key=self.key(question),
                labels={"demo": self.stream, "topic": question.topic},
                amount="complete" if question.eager else None,
                eager=question.eager,
            )
            say(self._console, f"  {self.key(question):20}  {query.window_kind:8}  {question.title}")

    def _ask(
        self, client: Client, question: FlightQuestion, as_of: dt.datetime | None = None, window: str = ""
    ) -> None:
        self._ctrl_c.check()
        query: Query = client.query(key=self.key(question))
        answer = query.invoke(as_of=as_of, window=window, wait_for=self._sequence)
        self.shown.append(ShownAnswer(question, answer, as_of, window))
        manner = [f"as of {clock(as_of)}"] if as_of else []
        manner += [f"with the window {window}"] if window else []
        print_answer(self._console, question.title, ", ".join(manner), answer, window or query.info.window)

    def key(self, question: FlightQuestion) -> str:
        """Return the key of a question's query. Each run has its own keys."""
        return f"{self.stream}/{question.name}"


def _memory_of_queries(client: Client) -> int:
    """Return the bytes of the queries, of their index and of their matches."""
    structures = ("query catalog", "predicate index", "open results", "sealed results")
    return sum(item.bytes for item in client.memory().items if item.structure in structures)
