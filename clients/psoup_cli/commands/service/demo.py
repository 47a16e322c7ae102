"""psoup demo: a year of flights, replayed, and questions about it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from psoup_cli.common import Address, connect, message
from psoup_cli.flights.child import ChildService
from psoup_cli.flights.dataset import load
from psoup_cli.flights.interrupt import CtrlC
from psoup_cli.flights.kernel_meter import KernelMeter
from psoup_cli.flights.past import PastStory
from psoup_cli.flights.show import make_console, say
from psoup_cli.flights.story import Story
from psoup_cli.service import load_settings
from psoup_cli.settings import address_notice, client_settings

IN_MEMORY = ":memory:"
"""The default place of the demo's data. The demo can be repeated, so by default nothing is left on the disk."""

Speed = Annotated[
    float, typer.Option("--speed", metavar="X", min=0, help="1: the year in about 30 s; 2: in 15; 0: no pauses.")
]
Port = Annotated[
    int | None, typer.Option("--port", metavar="N", min=0, max=65_535, help="With --serve: the port of the service.")
]
DataDir = Annotated[
    str | None,
    typer.Option(
        "--data-dir", metavar="DIR", help="With --serve: keep the data here; by default it is in memory only."
    ),
]


Serve = Annotated[bool, typer.Option("--serve", help="Start a service for the demo, which stays up until Ctrl-C.")]
Once = Annotated[bool, typer.Option("--once", help="With --serve: stop the service when the demo ends.")]
Spark = Annotated[
    bool, typer.Option("--spark", help="Attach half of the year as history by Spark, and feed the rest by Spark.")
]


def demo(
    serve: Serve = False,
    once: Once = False,
    speed: Speed = 1.0,
    port: Port = None,
    data_dir: DataDir = None,
    spark: Spark = False,
    address: Address = None,
) -> None:
    """\b
    Examples:
      psoup demo --serve
      psoup demo --serve --once --speed 4
      psoup demo --serve --data-dir psoup-data
      psoup demo --serve --once --spark
      psoup demo --address 127.0.0.1:7433

    Replay all 336,776 departures from New York in 2013 and the weather of each hour into a service. A dozen standing
    queries are asked about them; three are joins, and two count by groups. They are asked before, during and after the
    replay, and by a client that has gone away and comes back. A traveller carries copies of the answers in a file. A
    derived stream has the planes that did not arrive. 100,000 travellers have a search over it each, and a counter.
    With --spark, Spark attaches January to June
    as history and feeds July to December, without the weather and the counts. That needs the extra psoup[spark] and
    Java.
    """
    if serve and address:
        raise typer.BadParameter("--serve starts a service of its own; leave --address out, or --serve")
    if not serve and (once or port is not None or data_dir is not None):
        raise typer.BadParameter("--once, --port and --data-dir go with --serve")
    settings = client_settings(address)
    if serve:
        load_settings({}, None)  # prints notices here, because the child would write them to its log
    elif notice := address_notice(settings):
        message(f"psoup: {notice}")
    target = settings.address
    console = make_console()
    with ExitStack() as stack:
        ctrl_c = stack.enter_context(CtrlC())
        child = None
        if serve:
            port = int(target.rpartition(":")[2]) if port is None else port
            child = _started(console, stack, port, data_dir or _nowhere(spark, stack))
            target = child.address
        story = (PastStory if spark else Story)(console, target, load(), speed, ctrl_c)
        story.run()
        ctrl_c.check()
        if child is None:
            _what_next(console, story, target, "What to type next:")
        elif once:
            say(console, f"\nWhat to type next: {_program()} demo --serve, which leaves the service up for you.")
        else:
            _what_next(console, story, target, "What to type next, in another terminal:")
            _stay(child, data_dir)


def _started(console: Console, stack: ExitStack, port: int, data_dir: str) -> ChildService:
    """Start the demo's own service. It ends when the `stack` closes."""
    child = stack.enter_context(ChildService(port, data_dir))
    say(console, "Starting a service ...")
    with KernelMeter(console) as meter:
        address = child.wait_ready(meter)
    say(console, f"It listens on {address}.")
    return child


def _nowhere(spark: bool, stack: ExitStack) -> str:
    """Choose a data directory that leaves nothing on the disk: the memory, or with Spark a temporary folder.

    Spark attaches history as files, which a service in memory cannot take.
    """
    if not spark:
        return IN_MEMORY
    return os.path.join(stack.enter_context(tempfile.TemporaryDirectory(prefix="psoup-demo-")), "data")


def _what_next(console: Console, story: Story, address: str, title: str) -> None:
    """Print commands that the user can type, with the program's name and the address of this service."""
    at = "" if address == client_settings().address else f" --address {address}"
    say(console, f"\n{title}", "bold")
    for line in (
        f"invoke --key {story.stream}/hawaiian",
        f"invoke --key {story.stream}/jfk --as-of 2013-12-23T22:00:00Z",
        f"register \"SELECT * FROM {story.stream} WHERE dest = 'ANC' BEGIN (START)\" --key anchorage",
        f"queries --label demo={story.stream}",
        f"results {story.stream} --label topic=cancelled",
        f"why --key {story.stream}/late {story.longest}",
        f"explain --key {story.stream}/record",
        *([] if (derived := story.stranded) is None else [f"stream show {derived.name}"]),
        *([] if derived is None else [f"invoke --key {story.stream}/{name}/4711" for name in ("search", "traveller")]),
    ):
        console.print(f"  {_program()} {line}{at}", soft_wrap=True)


def _program() -> str:
    """Return the command line by which the user started this program, without its arguments."""
    if shutil.which("psoup"):
        return "psoup"
    started = Path(sys.argv[0])
    if started.suffix == ".py":
        return "python -m psoup_cli.main"
    return str(started.relative_to(Path.cwd())) if started.is_relative_to(Path.cwd()) else str(started)


def _stay(child: ChildService, data_dir: str | None) -> None:
    place = f"its data is kept in {data_dir}" if data_dir else "nothing survives its end"
    with connect(child.address) as client:
        page = client.info().web_address
    message(f"\nThe service stays up on {child.address}; {place}. Ctrl-C stops it.")
    if page:
        message(f"Its page is at {page}; open it in a browser.")
    try:
        code = child.wait()
    except KeyboardInterrupt:
        message("\nStopping the service.")
        return
    message(f"psoup: the service ended by itself with exit code {code}\n{child.log_end()}")
    raise typer.Exit(1)
