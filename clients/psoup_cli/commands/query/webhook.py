"""psoup webhook: send the changes of answers to URLs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperGroup

from psoup_cli.common import Address, AsJson, connect, message
from psoup_cli.output import print_json, print_list, to_the_second
from psoup_cli.secrets import handing_over
from psoup_client import Client, Webhook
from psoup_client.phrases import counted

app = typer.Typer(cls=TyperGroup, no_args_is_help=True, rich_markup_mode=None, add_completion=False)

_ERROR = 60
"""The most characters of an error in the list."""

Id = Annotated[str, typer.Argument(metavar="ID", help="The webhook's ID: psoup webhook list.", show_default=False)]
SecretFile = Annotated[
    Path | None,
    typer.Option("--secret-file", metavar="FILE", help="Write the secret to this new file instead of printing it."),
]


@app.callback()
def webhook() -> None:
    """\b
    Examples:
      psoup webhook add hot https://hooks.example.org/psoup
      psoup webhook list

    Send the changes of the answer of a query to a URL, as POST with a signature. docs/webhooks.md describes what a
    receiver gets.
    """


@app.command("add", short_help="Send the changes of a query to a URL.")
def add(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key of the query.", show_default=False)],
    url: Annotated[str, typer.Argument(metavar="URL", help="An https URL of a public host.", show_default=False)],
    secret_file: SecretFile = None,
    address: Address = None,
) -> None:
    """\b
    Examples:
      psoup webhook add hot https://hooks.example.org/psoup
      psoup webhook add hot https://hooks.example.org/psoup --secret-file hot.secret

    Send each change of the answer of the query with a key to a URL. The secret that verifies the signatures is printed
    once, and cannot be shown again. The first delivery has the whole answer. The service's setting webhook_hosts allows
    hosts that are not public, or http.
    """
    with connect(address) as client, handing_over(secret_file, "secret") as hand_over:
        added = client.add_webhook(key, url)
        hand_over(added.secret)
    message(f"Webhook {added.webhook.id} sends the changes of {key} to {url}.")


@app.command("list", short_help="List the webhooks.")
def listed(
    key: Annotated[str | None, typer.Argument(metavar="[KEY]", help="Only of this key.", show_default=False)] = None,
    as_json: AsJson = False,
    address: Address = None,
) -> None:
    """\b
    Examples:
      psoup webhook list
      psoup webhook list hot --json

    List the webhooks with their states: up to date, delivering, paused, failed (the receiver took nothing for three
    days), or no query (no query has the key now).
    """
    with connect(address) as client:
        webhooks = client.webhooks(key)
    facts = [dataclasses.asdict(each) for each in webhooks]
    if as_json:
        for row in facts:
            print_json(row)
        return
    if not webhooks:
        message("There are no webhooks. Add one: psoup webhook add KEY URL")
        return
    rows = [
        (w.id, w.key, w.url, w.state, w.delivered, to_the_second(w.delivered_at or ""), _trouble(w)) for w in webhooks
    ]
    print_list(["id", "key", "url", "state", "delivered", "delivered_at", "error"], rows, facts)


@app.command("remove", short_help="Remove a webhook.")
def remove(webhook_id: Id, address: Address = None) -> None:
    """\b
    Examples:
      psoup webhook remove w-7f3a91c2-12

    Remove a webhook. An attempt that is under way may still arrive.
    """
    _change(address, webhook_id, Client.remove_webhook, f"Removed webhook {webhook_id}.")


@app.command("pause", short_help="Stop the deliveries of a webhook.")
def pause(webhook_id: Id, address: Address = None) -> None:
    """\b
    Examples:
      psoup webhook pause w-7f3a91c2-12

    Stop the deliveries of a webhook. Changes wait, and come merged after psoup webhook resume.
    """
    _change(address, webhook_id, Client.pause_webhook, f"Paused webhook {webhook_id}.")


@app.command("resume", short_help="Let a paused webhook go on.")
def resume(webhook_id: Id, address: Address = None) -> None:
    """\b
    Examples:
      psoup webhook resume w-7f3a91c2-12

    Let a webhook go on that was paused, by a call or by the service after three days of failures.
    """
    _change(address, webhook_id, Client.resume_webhook, f"Resumed webhook {webhook_id}.")


@app.command("rotate", short_help="Give a webhook a new secret.")
def rotate(webhook_id: Id, secret_file: SecretFile = None, address: Address = None) -> None:
    """\b
    Examples:
      psoup webhook rotate w-7f3a91c2-12 --secret-file new.secret

    Give a webhook a new secret, which is printed once. For 24 hours deliveries have a signature of each secret, so that
    the receiver can change to the new one.
    """
    with connect(address) as client, handing_over(secret_file, "secret") as hand_over:
        hand_over(client.rotate_webhook(webhook_id).secret)
    message(f"Webhook {webhook_id} has a new secret. The old one is valid for 24 hours more.")


@app.command("test", short_help="Send a test message to a webhook's URL.")
def send_test(webhook_id: Id, address: Address = None) -> None:
    """\b
    Examples:
      psoup webhook test w-7f3a91c2-12

    Send a signed message of the type webhook.test to the URL of a webhook, once. Print the status of the reply. The
    exit code is 1 if the receiver has not taken the message.
    """
    with connect(address) as client:
        result = client.test_webhook(webhook_id)
    if result.error:
        message(f"The receiver has not taken the message: {result.error} ({result.milliseconds} ms).")
        raise typer.Exit(1)
    message(f"The receiver has taken the message: status {result.status}, {result.milliseconds} ms.")


def _change(address: str | None, webhook_id: str, change: Callable[[Client, str], object], done: str) -> None:
    """Change a webhook, and print a sentence when it is done."""
    with connect(address) as client:
        change(client, webhook_id)
    message(done)


def _trouble(webhook: Webhook) -> str:
    """The error of a webhook, cut to `_ERROR` characters, and the number of attempts."""
    if not webhook.error:
        return ""
    error = webhook.error if len(webhook.error) <= _ERROR else f"{webhook.error[: _ERROR - 1]}…"
    return f"{error} ({counted(webhook.attempts, 'attempt')})" if webhook.attempts else error
