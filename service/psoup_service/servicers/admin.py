"""AdminService: access tokens are issued, listed and revoked.

The first token may be asked for by anybody on this machine, as nobody could bring a credential for it. Other machines
cannot ask for it; the owner of the data directory always can (`psoup admin init --data-dir`).
"""

from __future__ import annotations

import re

from psoup.errors import InvalidInput, PermissionDenied
from psoup.events.access import AccessToken, IssueToken, RevokeToken
from psoup.events.acknowledgements import TokenAcknowledgement
from psoup.model import SECOND
from psoup_proto.v1 import admin_pb2, admin_pb2_grpc
from psoup_service.gate.credentials import Gate
from psoup_service.gate.issuing import issued
from psoup_service.gate.principal import EVERYBODY
from psoup_service.ids import page_size, page_token, read_page_token
from psoup_service.servicers.backend import Backend
from psoup_service.wire.calls import Caller
from psoup_service.wire.convert import timestamp

_PAGE = 1_000
_ID = re.compile(r"[0-9A-Za-z]{1,40}", re.ASCII)


class AdminServicer(admin_pb2_grpc.AdminServiceServicer):
    """See admin.proto."""

    def __init__(self, backend: Backend, gate: Gate) -> None:
        self._backend, self._gate = backend, gate

    async def IssueToken(self, request: admin_pb2.IssueTokenRequest, caller: Caller) -> admin_pb2.IssueTokenResponse:
        """Make a token, and say it once."""
        first = request.first or caller.principal is EVERYBODY
        if first and not caller.local():
            raise PermissionDenied(
                "the first token is issued on the service's machine alone: psoup admin init there, at a loopback"
                " address, a Unix socket, or on the stopped service's --data-dir",
                reason="NOT_LOCAL",
            )
        backend = self._backend
        expires = 0 if request.seconds == 0 else backend.now() + request.seconds * SECOND
        secret, token = issued(request.name, request.roles, request.streams, expires, tenant=backend.tenant(caller))
        acknowledgement, _ = await backend.change(IssueToken(token, first))
        assert isinstance(acknowledgement, TokenAcknowledgement)
        assert acknowledgement.token is not None
        told = _told(acknowledgement.token, backend.now())
        return admin_pb2.IssueTokenResponse(secret=secret, token=told, sequence=acknowledgement.sequence)

    async def ListTokens(self, request: admin_pb2.ListTokensRequest, caller: Caller) -> admin_pb2.ListTokensResponse:
        """A page of the tokens, by when they were issued."""
        size = page_size(request.page_size, _PAGE, _PAGE)
        state = read_page_token("tokens", request.page_token, time=int, last=str)
        after = (state["time"], state["last"]) if state else (-1, "")
        tokens = (await self._backend.reflecting(request.min_sequence)).tokens.values()
        keyed = sorted(((token.issued, token.token_id), token) for token in tokens)
        page = [(key, token) for key, token in keyed if key > after][: size + 1]
        more = ""
        if len(page) > size:
            time, last = page[size - 1][0]
            more = page_token("tokens", time=time, last=last)
        now = self._backend.now()
        told = [_told(token, now) for _, token in page[:size]]
        return admin_pb2.ListTokensResponse(tokens=told, next_page_token=more)

    async def RevokeToken(self, request: admin_pb2.RevokeTokenRequest, caller: Caller) -> admin_pb2.RevokeTokenResponse:
        """Revoke a token, and end the calls that came in by it."""
        if not _ID.fullmatch(request.token_id):
            raise InvalidInput("token_id is not that of a token; psoup token list shows them", field="token_id")
        acknowledgement, _ = await self._backend.change(RevokeToken(request.token_id))
        self._gate.look()
        assert isinstance(acknowledgement, TokenAcknowledgement)
        assert acknowledgement.token is not None
        told = _told(acknowledgement.token, self._backend.now())
        return admin_pb2.RevokeTokenResponse(token=told, sequence=acknowledgement.sequence)


def _told(token: AccessToken, now: int) -> admin_pb2.Token:
    """A token as clients see it."""
    return admin_pb2.Token(
        token_id=token.token_id,
        name=token.name,
        roles=token.roles,
        streams=token.streams,
        issue_time=timestamp(token.issued),
        expire_time=timestamp(token.expires) if token.expires else None,
        expired=token.expired(now),
        tenant=token.tenant,
    )
