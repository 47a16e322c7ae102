"""URLs of webhooks: the service sends only to public addresses over https, unless a setting names the host."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from psoup.errors import InvalidInput
from psoup_service.gate.targets import Origin, is_public, origins_of, target_of
from psoup_service.process.settings import Settings

TRUSTED = origins_of(["http://localhost:9000", "https://10.0.0.5", "http://[::1]:80/"])


@pytest.mark.parametrize(
    ("url", "origin", "path"),
    [
        ("https://Hooks.Example.org", ("https", "hooks.example.org", 443), "/"),
        ("https://example.org:8443/a/b?c=d", ("https", "example.org", 8443), "/a/b?c=d"),
        ("https://8.8.8.8/x", ("https", "8.8.8.8", 443), "/x"),
        ("https://[2606:4700::1111]/", ("https", "2606:4700::1111", 443), "/"),
        ("http://localhost:9000/hook", ("http", "localhost", 9000), "/hook"),
        ("https://10.0.0.5:443/hook", ("https", "10.0.0.5", 443), "/hook"),
        ("http://[::1]/hook", ("http", "::1", 80), "/hook"),
    ],
)
def test_a_url_is_accepted(url: str, origin: tuple[str, str, int], path: str) -> None:
    target = target_of(url, TRUSTED)
    assert (target.origin, target.path) == (Origin(*origin), path)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://example.org/", "over https only"),
        ("http://localhost:9001/", "over https only"),
        ("https://localhost:9000/", "localhost is not a public host"),
        ("https://127.0.0.1/", "127.0.0.1 is not a public address"),
        ("https://10.0.0.5:444/", "10.0.0.5 is not a public address"),
        ("https://169.254.169.254/latest/meta-data", "not a public address"),
        ("https://[::ffff:127.0.0.1]/", "not a public address"),
        ("https://[64:ff9b::7f00:1]/", "not a public address"),
        ("https://[64:ff9b:1::7f00:1]/", "not a public address"),
        ("https://[::127.0.0.1]/", "not a public address"),
        ("https://[::ffff:0:127.0.0.1]/", "not a public address"),
        ("https://[fec0::1]/", "not a public address"),
        ("https://[2606:4700::1%25eth0]/", "not a public address"),
        ("https://0.0.0.0/", "not a public address"),
        ("https://user:pass@example.org/", "a user name or a password"),
        ("https://example.org/#part", "a fragment"),
        ("ftp://example.org/", "write https://HOST/PATH"),
        ("example.org/hook", "write https://HOST/PATH"),
        ("https:///hook", "write https://HOST/PATH"),
        ("", "write https://HOST/PATH"),
        ("https://example.org:99999/", "Port out of range"),
        ("https://example.org:0/", "0 is not a valid port"),
        ("https://exa mple.org/", "percent encoding"),
        ("https://example.org/\r\nX: y", "percent encoding"),
        ("https://exämple.org/", "Punycode"),
        ("https://example..org/", "not a valid name"),
        (f"https://example.org/{'x' * 2_048}", "the limit is 2,048"),
    ],
)
def test_a_url_is_refused(url: str, why: str) -> None:
    with pytest.raises(InvalidInput, match="is not a valid URL of a webhook") as refused:
        target_of(url, TRUSTED)
    assert why in refused.value.message and refused.value.reason == "WEBHOOK_URL"
    assert len(refused.value.message) < 400


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True),
        ("2606:4700::1111", True),
        ("64:ff9b::808:808", True),
        *((address, False) for address in ("10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "127.9.9.9")),
        *((address, False) for address in ("224.0.0.1", "255.255.255.255", "0.0.0.0", "fe80::1%eth0", "fc00::1")),
        *(
            (address, False)
            for address in ("::1", "::", "ff02::1", "2002:7f00:1::", "64:ff9b::a00:1", "::ffff:10.0.0.1")
        ),
    ],
)
def test_an_address_is_public_or_not(address: str, public: bool) -> None:
    assert is_public(address) is public


def test_the_setting_names_hosts_with_their_schemes() -> None:
    assert Settings(webhook_hosts=("http://localhost:9000",)).webhook_hosts == ("http://localhost:9000",)
    assert Settings(webhook_hosts="https://a, http://b:81").webhook_hosts == ("https://a", "http://b:81")  # type: ignore[arg-type]
    for wrong, why in (
        ("localhost:9000", "not a valid host of a webhook: write it with its scheme"),
        ("http://a/b", "it has a path"),
    ):
        with pytest.raises(ValidationError, match=why):
            Settings(webhook_hosts=(wrong,))
