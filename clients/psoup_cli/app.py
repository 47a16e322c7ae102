"""The list of commands. Each command has its own module; this module registers them.

Data goes to standard output, messages to standard error. Exit codes: see `psoup_cli.common`.
"""

from __future__ import annotations

from importlib import metadata
from typing import Annotated

import typer

from psoup_cli.commands.access import admin, audit, tenant, token
from psoup_cli.commands.copies import recharge
from psoup_cli.commands.directory import backup, doctor, replica
from psoup_cli.commands.kafka import topic as kafka
from psoup_cli.commands.query import ask, check, explain, invoke, queries, register, sql, top, webhook
from psoup_cli.commands.query.alter import alter
from psoup_cli.commands.query.unregister import unregister
from psoup_cli.commands.service import clock, config, demo, mcp, serve, status
from psoup_cli.commands.service.open import open_page
from psoup_cli.commands.service.promote import promote
from psoup_cli.commands.spark import backfill as spark_backfill
from psoup_cli.commands.spark import cover as spark_cover
from psoup_cli.commands.spark import feed as spark_feed
from psoup_cli.commands.spark import run as spark
from psoup_cli.commands.spark import stand as spark_stand
from psoup_cli.commands.streams import cdc, dump, heartbeat, producer, push, stream, table
from psoup_cli.commands.tuples import follow, match, matches, results, why
from psoup_cli.common import ErrorGroup

app = typer.Typer(
    cls=ErrorGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        try:
            print(f"psoup {metadata.version('psoup')}")
        except metadata.PackageNotFoundError:  # run from the sources without installation
            print("psoup 0+unknown")
        raise typer.Exit


@app.callback()
def psoup(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """\b
    Examples:
      psoup demo --serve                   start a service and replay a year of flights against it
      psoup serve                          start a service on 127.0.0.1:7433
      psoup stream create "CREATE STREAM s (a BIGINT)"
      psoup push s rows.csv
      psoup register "SELECT a FROM s WHERE a > 10 BEGIN (NOW - 1 HOUR)"
      psoup invoke ID

    PSoup keeps the answers to standing SQL queries over streams ready, for clients that come and go.

    \b
    Commands call the service at --address, else PSOUP_ADDRESS, else the address in psoup.toml.

    Exit codes: 0 ok, 1 error, 2 usage, 3 unavailable, 4 not found, 5 conflict, 6 some rows refused.
    """


app.command("serve", short_help="Start a service.")(serve.serve)
app.command("open", short_help="Open the page of a service in a browser.")(open_page)
app.command("mcp", short_help="Serve tools to an assistant (the extra psoup[mcp]).")(mcp.mcp)
app.command("demo", short_help="Replay a year of flights and ask about them.")(demo.demo)
app.add_typer(stream.app, name="stream", short_help="Create, list, show and drop streams.")
app.add_typer(table.app, name="table", short_help="Create, list, show and drop tables.")
app.command("push", short_help="Push the rows of files into a stream or a table.")(push.push)
app.command("producer", short_help="Say where a producer stopped.")(producer.producer)
app.command("cdc", short_help="Follow a table of PostgreSQL (the extra psoup[postgres]).")(cdc.cdc)
app.add_typer(kafka.app, name="kafka", short_help="Feed streams from Kafka (the extra psoup[kafka]).")
app.command("heartbeat", short_help="Promise that nothing older will come.")(heartbeat.heartbeat)
app.command("check", short_help="Show the columns, windows and plan of a statement.")(check.check)
app.command("register", short_help="Register a standing query.")(register.register)
app.command("invoke", short_help="Print the answer of a query.")(invoke.invoke)
app.command("ask", short_help="Print the answer of a SELECT, once.")(ask.ask)
app.command("sql", short_help="Carry out statements of any kind.")(sql.sql)
app.command("queries", short_help="List the standing queries.")(queries.queries)
app.command("top", short_help="Show the queries that cost most.")(top.top)
app.command("alter", short_help="Change how much is kept of standing queries.")(alter)
app.command("unregister", short_help="Forget a standing query.")(unregister)
app.add_typer(webhook.app, name="webhook", short_help="Send the changes of answers to URLs.")
app.add_typer(recharge.app, name="recharge", short_help="Bring copies of answers up to date.")
app.command("explain", short_help="Explain how a query is kept.")(explain.explain)
app.command("match", short_help="Say which queries rows would match.")(match.match)
_negative = {"ignore_unknown_options": True}  # attached history has tuple IDs below 0, such as -1
app.command("matches", short_help="Say which queries a tuple matched.", context_settings=_negative)(matches.matches)
app.command("follow", short_help="Print new tuples with the queries that they match.")(follow.follow)
app.command("results", short_help="Draw which tuples satisfy which queries.")(results.results)
app.command("why", short_help="Say why a tuple is in an answer, or not.", context_settings=_negative)(why.why)
app.command("status", short_help="Show whether the service serves, and its data.")(status.status)
app.add_typer(clock.app, name="clock", short_help="Show the service's clock, or accept a new time.")
app.command("dump", short_help="Write a stream as Parquet files.")(dump.dump)
app.command("load", short_help="Push a dump into a stream.")(dump.load)
app.command("backup", short_help="Copy all data of a service.")(backup.backup)
app.command("restore", short_help="Make a data directory of a backup.")(backup.restore)
app.add_typer(replica.app, name="replica", short_help="Look at the copy of a service, or rejoin it.")
app.command("promote", short_help="Let a standby become the service that writes.")(promote)
app.command("doctor", short_help="Say whether a data directory is sound.")(doctor.doctor)
kafka.app.command("feed", short_help="Feed a stream or a table from a topic.")(kafka.feed)
spark.app.command("feed", short_help="Feed a stream from a Structured Streaming source.")(spark_feed.feed)
spark.app.command("backfill", short_help="Attach history to a stream.")(spark_backfill.backfill)
spark.app.command("stand", short_help="Evaluate a stream's queries on Spark, batch after batch.")(spark_stand.stand)
spark.app.command("cover", short_help="Evaluate queries over chunks on disk.")(spark_cover.cover)
app.add_typer(spark.app, name="spark", short_help="Feed streams from Spark (the extra psoup[spark], and Java).")
app.add_typer(admin.app, name="admin", short_help="Begin with access tokens.")
app.add_typer(token.app, name="token", short_help="Issue, list and revoke access tokens.")
app.add_typer(tenant.app, name="tenant", short_help="Create, change and drop tenants.")
app.add_typer(audit.app, name="audit", short_help="Read the log of changes and refusals.")
app.add_typer(config.app, name="config", short_help="The settings and their sources, alert rules, a dashboard.")
