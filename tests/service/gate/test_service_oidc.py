"""Access tokens of an OpenID provider (T27): their principals, roles and tenants; no forged token is accepted."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from types import MappingProxyType
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from psoup.errors import InvalidInput, PermissionDenied, Unauthenticated, Unavailable
from psoup_client import AccessDenied, Client, ClientOptions
from psoup_service.gate import oidc, open_id, provider_keys
from psoup_service.gate.audit import Audit
from psoup_service.gate.credentials import Gate
from psoup_service.gate.oidc import OpenId
from psoup_service.gate.principal import STRANGER
from psoup_service.gate.provider import Provider, role_table
from psoup_service.host.threads import Threads
from psoup_service.process.settings import Settings
from psoup_service.process.settings_sources import load
from psoup_testing.services.openid_provider import AUDIENCE, ISSUER, Identity, claims, ec_key, provider, rsa_key, signed
from psoup_testing.services.threaded_service import serving
from psoup_testing.suite.log_records import own_records

HOUR = 3_600


@pytest.fixture(scope="module")
def identity() -> Iterator[Identity]:
    with provider() as answering:
        yield answering


@pytest.fixture
def threads() -> Iterator[Threads]:
    pools = Threads()
    yield pools
    pools.close()


def now() -> int:
    return time.time_ns() // 1_000


def tokens_of(identity: Identity, threads: Threads, **more: Any) -> OpenId:
    """The tokens of a provider whose keys were fetched."""
    named: dict[str, Any] = {"role_claim": "roles", "roles": role_table(())}
    openid = OpenId(Provider(ISSUER, AUDIENCE, identity.url, **{**named, **more}), now, threads)
    assert asyncio.run(openid.fetch())
    return openid


def part(value: Any) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def by_hand(header: dict[str, Any], body: dict[str, Any], secret: bytes | None) -> str:
    """A token that a careful library would not make."""
    text = f"{part(header)}.{part(body)}"
    return f"{text}.{'' if secret is None else part(hmac.digest(secret, text.encode(), hashlib.sha256))}"


PEM = rsa_key().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
FORGED = {
    "no algorithm": by_hand({"alg": "none", "kid": "one"}, claims(), None),
    "no algorithm, in capitals": by_hand({"alg": "None", "kid": "one"}, claims(), b"x"),
    "the public key as a secret": by_hand({"alg": "HS256", "kid": "one"}, claims(), PEM),
    "a secret of the provider": by_hand({"alg": "HS256", "kid": "secret"}, claims(), b"secretsecretsecretsecret"),
    "another's key": signed(rsa_key(1)),
    "another's key, which it brings": signed(rsa_key(1), header={"jku": "http://127.0.0.1:1/keys", "x5u": "http://x"}),
    "another's key, within it": signed(rsa_key(1), header={"jwk": {"kty": "RSA", "n": "AQAB", "e": "AQAB"}}),
    "an algorithm that is not the key's": signed(ec_key(), "ES256", kid="one"),
    "no key": signed(kid=None),
    "an unknown key": signed(kid="nine"),
    "a key that is no text": by_hand({"alg": "RS256", "kid": ["one"]}, claims(), b"x"),
    "another audience": signed(aud="others"),
    "no audience": signed(aud=None),
    "another issuer": signed(iss=f"{ISSUER}/"),
    "no issuer": signed(iss=None),
    "no end": signed(exp=None),
    "an end that is no number": signed(exp="tomorrow"),
    "an end beyond all numbers": by_hand({"alg": "RS256", "kid": "one"}, claims(exp=1e400), b"x"),
    "nobody": signed(sub=None),
    "before its time": signed(nbf=int(time.time()) + HOUR),
    "empty": "..",
    "no JSON": "e30.e30.e30",
    "deep": f"{part(b'[' * 5_000)}.e30.e30",
}


@pytest.mark.seeded(
    "another audience or issuer of a provider's token is taken, a token without an end, a secret among its keys"
)
@pytest.mark.parametrize("name", FORGED)
def test_no_token_that_is_forged_or_lacks_something_is_let_in(name: str, identity: Identity, threads: Threads) -> None:
    openid = tokens_of(identity, threads)
    with pytest.raises(Unauthenticated) as caught:
        openid.principal(FORGED[name])
    assert caught.value.reason == "TOKEN_INVALID"


def test_a_token_is_let_in_and_no_byte_of_it_may_change(identity: Identity, threads: Threads) -> None:
    openid, token = tokens_of(identity, threads), signed(scope="x")
    assert openid.principal(token).name == "ada"
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    for place in range(0, len(token) - 2, 7):
        changed = token[:place] + letters[(letters.find(token[place]) + 1) % 26] + token[place + 1 :]
        with pytest.raises(Unauthenticated):
            openid.principal(changed)
        with pytest.raises(Unauthenticated):
            openid.principal(token[:place])
    other = signed(sub="eve", scope="x").split(".")
    with pytest.raises(Unauthenticated):
        openid.principal(".".join([*other[:2], token.split(".")[2]]))


def test_claims_name_roles_and_tenant(identity: Identity, threads: Threads) -> None:
    roles = role_table(["analysts = reader+registrar", "feeds=producer"])
    openid = tokens_of(identity, threads, role_claim="realm.roles", roles=roles, tenant_claim="team")
    said = {"realm": {"roles": ["analysts", "feeds", "unknown", 7]}, "team": "acme"}
    principal = openid.principal(signed(ec_key(), "ES256", "two", **said))
    assert (principal.name, principal.roles, principal.tenant) == ("ada", ("reader", "registrar", "producer"), "acme")
    assert openid.principal(signed(**{"realm.roles": "feeds x", "team": "b"})).roles == ("producer",)
    for wrong in ({"realm": {"roles": ["owner"]}}, {"realm": {"roles": 5}}, {"realm": 5}, {}):
        with pytest.raises(PermissionDenied, match="stands for no role"):
            openid.principal(signed(**{**wrong, "team": "acme"}))
    for team in (None, "", 5, ["acme"]):
        with pytest.raises(Unauthenticated, match="names no tenant"):
            openid.principal(signed(**{**said, "team": team}))


@pytest.mark.seeded("a call goes on after the end of its provider's token")
def test_an_expired_token_says_so_and_ends_calls_under_way(identity: Identity, threads: Threads) -> None:
    openid = tokens_of(identity, threads)
    with pytest.raises(Unauthenticated) as caught:
        openid.principal(signed(exp=int(time.time()) - HOUR))
    assert caught.value.reason == "TOKEN_EXPIRED"
    clock, ended = [now()], list[Any]()
    gate = Gate(lambda: MappingProxyType({}), lambda: clock[0], Audit(None), closed=True, openid=openid)
    principal = openid.principal(signed())
    with gate.under_way(principal, lambda: ended.append):
        gate.look()
        assert ended == []
        clock[0] = principal.ends
        gate.look()
    assert [problem.reason for problem in ended] == ["TOKEN_EXPIRED"]
    with gate.under_way(STRANGER, lambda: ended.append):
        gate.look()
    assert len(ended) == 1


@pytest.mark.seeded("a verified token is remembered beyond its end, or when its key is gone")
def test_what_was_verified_is_remembered_for_a_minute_and_no_longer_than_it_holds(
    identity: Identity, threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    openid, clock, asked = tokens_of(identity, threads), [now()], list[str]()
    openid._now = lambda: clock[0]
    decode = oidc.jwt.decode
    monkeypatch.setattr(oidc.jwt, "decode", lambda *args, **more: (asked.append("decoded"), decode(*args, **more))[1])
    token, begin = signed(), clock[0]
    for later, count in ((0, 1), (59_000_000, 1), (61_000_000, 2)):
        clock[0] = begin + later
        openid.principal(token)
        assert len(asked) == count
    clock[0] = now()
    short = signed(exp=int(time.time()) + 50)
    ends = openid.principal(short).ends
    clock[0] = ends
    with pytest.raises(Unauthenticated) as caught:
        openid.principal(short)
    assert caught.value.reason == "TOKEN_EXPIRED"
    assert len(asked) == 4, "it is looked at again when it may have ended"


def test_tokens_begin_and_end_by_the_clock_of_the_service(identity: Identity, threads: Threads) -> None:
    """A step of the wall clock that is pending ends no token, and keeps nobody out who has just got one."""
    openid, wall, time_of_service = tokens_of(identity, threads), [now()], [now()]
    openid._now = lambda: time_of_service[0]
    time_of_service[0] -= 2 * HOUR * 1_000_000
    assert openid.principal(signed(exp=int(time.time()) - HOUR, iat=int(time.time()) - 3 * HOUR)).name
    for early in ({"nbf": int(time.time())}, {"iat": int(time.time())}):
        with pytest.raises(Unauthenticated, match="not yet valid"):
            openid.principal(signed(**early))
        openid._latest = lambda: wall[0]
        assert openid.principal(signed(**early)).name
        openid._latest = None


@pytest.mark.seeded("a verified token is remembered beyond its end, or when its key is gone")
def test_keys_are_kept_for_a_day_and_an_unknown_one_is_asked_for(
    threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    with provider() as identity:
        early = OpenId(Provider(ISSUER, AUDIENCE, identity.url, "roles", role_table(())), now, threads)
        with pytest.raises(Unavailable) as caught:
            early.principal(signed())
        assert caught.value.facts["retry_after_ms"] == "1000"
        openid = tokens_of(identity, threads)
        known = identity.keys
        for told, down in ((known, True), ([], False), (7, False), ([7, {"kid": "one", "kty": "RSA", "n": 5}], False)):
            identity.keys, identity.down = told, down  # type: ignore[assignment]
            assert not asyncio.run(openid.fetch())
            assert openid.principal(signed()).name == "ada", "the keys of before"
        with pytest.raises(Unauthenticated, match="no such key"):
            openid.principal(signed(rsa_key(1), kid="new"))
        monkeypatch.setattr(oidc, "PAUSE_S", -1.0)
        with pytest.raises(Unavailable):
            openid.principal(signed(rsa_key(1), kid="new"))
        assert openid._wanted.is_set()
        identity.down = False
        public = oidc.jwt.algorithms.RSAAlgorithm.to_jwk(rsa_key(1).public_key(), as_dict=True)
        identity.keys = [{"kid": "new", **public}]
        assert asyncio.run(openid.fetch())
        assert openid.principal(signed(rsa_key(1), kid="new", sub="eve")).name == "eve"
        with pytest.raises(Unavailable):
            openid.principal(signed())  # the key is gone, and with it what was verified by it
        monkeypatch.setattr(oidc, "STALE_S", -1.0)
        identity.down = True
        assert not asyncio.run(openid.fetch())
        with pytest.raises(Unavailable):
            openid.principal(signed(rsa_key(1), kid="new", sub="eve"))


def test_keys_are_fetched_while_jobs_take_all_their_threads(identity: Identity, threads: Threads) -> None:
    openid, over = tokens_of(identity, threads), Event()
    for _ in range(8):
        threads.jobs.submit(over.wait)
    try:
        assert asyncio.run(asyncio.wait_for(openid.fetch(), 60))
    finally:
        over.set()


@pytest.mark.seeded("the tenant that a provider's token names is not looked up")
def test_a_service_lets_the_tokens_of_its_provider_in_and_nobody_else(identity: Identity) -> None:
    with serving(identity.settings(oidc_tenant_claim="team")) as running:

        def client(token: str) -> Client:
            return Client(running.address, options=ClientOptions(token=token))

        with client("") as nobody, pytest.raises(AccessDenied) as denied:
            nobody.streams()
        assert denied.value.reason == "NO_CREDENTIAL"
        with client(signed(team="default")) as owner:
            owner.create_stream("CREATE STREAM s (x BIGINT)")
            owner.create_tenant("acme")
            assert [stream.name for stream in owner.streams()] == ["s"]
        with client(signed(team="acme", roles=["reader"])) as theirs:
            assert (theirs.streams(), theirs.tenant().name) == ([], "acme")
            with pytest.raises(AccessDenied, match=r"'ada' \(reader\)"):
                theirs.create_stream("CREATE STREAM t (x BIGINT)")
        for token, reason in (
            (signed(team="umbra"), "UNKNOWN_TENANT"),
            (signed(team="default", roles=["king"]), "PERMISSION_DENIED"),
            (FORGED["the public key as a secret"], "TOKEN_INVALID"),
            ("psoup_" + signed(team="default"), "TOKEN_INVALID"),
        ):
            with client(token) as stranger, pytest.raises(AccessDenied) as denied:
                stranger.streams()
            assert denied.value.reason == reason


def found_by(identity: Identity, threads: Threads) -> OpenId:
    """The tokens of a provider that says itself where its keys are."""
    return OpenId(Provider(identity.issuer, AUDIENCE, "", "roles", role_table(())), now, threads)


def test_a_provider_says_itself_where_its_keys_are(
    threads: Threads, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with provider() as identity:
        openid = found_by(identity, threads)
        for _ in range(3):
            assert asyncio.run(openid.fetch())
        assert (identity.documents, identity.asked) == (1, 3), "the document is read again after an hour"
        token = signed(iss=identity.issuer)
        assert openid.principal(token).name == "ada"
        with pytest.raises(Unauthenticated):
            openid.principal(signed())
        monkeypatch.setattr(provider_keys, "DOCUMENT_S", -1.0)
        identity.document = "gone"
        assert asyncio.run(openid.fetch()) and identity.documents == 2, "the place of before"
        identity.document = {"issuer": identity.issuer, "jwks_uri": f"{identity.issuer}/moved"}
        identity.down = True
        assert not asyncio.run(openid.fetch()) and openid.principal(token).name == "ada"
        identity.down = False
        assert asyncio.run(openid.fetch()) and openid._source.url.endswith("/moved")


@pytest.mark.seeded(
    "a provider's document of another issuer, or one that names a place for its keys that is not https, is taken"
)
@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"issuer": ISSUER}, f"names the issuer '{ISSUER}'"),
        ({"issuer": 7}, "names the issuer 7"),
        ({}, "no jwks_uri"),
        ({"jwks_uri": 5}, "no jwks_uri"),
        ({"jwks_uri": "http://id.example.org/keys"}, "write https|must be https"),
        ({"jwks_uri": "file:///etc/passwd"}, "must be https"),
        ({"jwks_uri": "https://[::"}, "must be https"),
        ({"more": "x" * 1_100_000}, "more than 1,048,576 bytes"),
        ([], "not an object"),
    ],
)
def test_a_document_that_does_not_fit_gives_no_keys(
    document: Any, said: str, threads: Threads, caplog: pytest.LogCaptureFixture
) -> None:
    with provider() as identity:
        own = {"issuer": identity.issuer} | ({} if said == "no jwks_uri" else {"jwks_uri": identity.url})
        identity.document = {**own, **document} if isinstance(document, dict) else document
        openid = found_by(identity, threads)
        assert not asyncio.run(openid.fetch())
        assert re.search(said, own_records(caplog)[-1].__dict__["problem"])
        with pytest.raises(Unavailable):
            openid.principal(signed(iss=identity.issuer))
        assert identity.asked == 0


def test_nobody_is_sent_elsewhere_and_what_comes_slowly_is_left(
    threads: Threads, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with provider() as identity:
        identity.sent = identity.url
        openid = found_by(identity, threads)
        assert not asyncio.run(openid.fetch()) and identity.asked == 0
        assert "sends to another place" in own_records(caplog)[-1].__dict__["problem"]
        identity.sent = ""
        monkeypatch.setattr(provider_keys, "FETCH_S", 0.0)
        assert not asyncio.run(openid.fetch())
        assert (
            "0 seconds" in own_records(caplog)[-1].__dict__["problem"]
            or "timed out" in own_records(caplog)[-1].__dict__["problem"]
        )


def test_a_service_needs_the_issuer_and_the_audience_alone(identity: Identity) -> None:
    settings = Settings(port=0, oidc_issuer=identity.issuer, oidc_audience=AUDIENCE)
    token = signed(iss=identity.issuer)
    with serving(settings) as running, Client(running.address, options=ClientOptions(token=token)) as client:
        assert client.streams() == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"oidc_issuer": ISSUER}, "oidc_audience"),
        ({"oidc_issuer": "http://id.example.org", "oidc_audience": "psoup"}, "https://.*or give oidc_jwks_url"),
        ({"oidc_audience": "psoup"}, "oidc_issuer"),
        ({"oidc_tenant_claim": "team"}, "oidc_issuer"),
        ({"oidc_jwks_url": "http://id.example.org/keys"}, "https://"),
        ({"oidc_jwks_url": "file:///etc/passwd"}, "https://"),
        ({"oidc_roles": "analysts=king"}, "roles are reader"),
        ({"oidc_roles": "a=reader,a=owner"}, "twice"),
    ],
)
def test_bad_settings_are_refused_at_the_start(given: dict[str, str], said: str) -> None:
    whole = {"oidc_issuer": ISSUER, "oidc_audience": "psoup"} if "oidc_jwks_url" in given else {}
    with pytest.raises(InvalidInput, match=said):
        load({}, environ={f"PSOUP_{name.upper()}": value for name, value in {**whole, **given}.items()})


def test_nothing_of_it_is_loaded_without_a_provider_and_its_lack_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    package = Path(open_id.__file__).parents[1]
    sources = {path.name: path.read_text() for path in package.rglob("*.py")}
    assert {name for name, source in sources.items() if "\nimport jwt" in source} == {"oidc.py"}
    assert {name for name, source in sources.items() if "gate.oidc import" in source} == {"open_id.py"}
    assert "\nfrom psoup_service.gate.oidc" not in sources["open_id.py"], "it is imported where it is needed"
    monkeypatch.setitem(sys.modules, "psoup_service.gate.oidc", None)
    described = Provider(ISSUER, AUDIENCE, "https://x/keys", "roles", role_table(()))
    with pytest.raises(InvalidInput, match=r"pip install 'psoup\[oidc\]'"):
        open_id.open_id(described, now, Threads())
