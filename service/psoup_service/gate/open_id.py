"""Loads the library for tokens of an OpenID provider, but only if the service accepts such tokens.

no provider        None
a provider         `psoup_service.gate.oidc`, which needs PyJWT; InvalidInput names the extra to install
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from psoup.errors import InvalidInput
from psoup_service.gate.provider import Provider
from psoup_service.host.threads import Threads

if TYPE_CHECKING:
    from psoup_service.gate.oidc import OpenId


def open_id(
    provider: Provider | None, now: Callable[[], int], threads: Threads, latest: Callable[[], int] | None = None
) -> OpenId | None:
    """The tokens of a provider; None without a provider. Raises InvalidInput if the library for them is missing.

    `now`, `latest`: see `OpenId`.
    """
    if provider is None:
        return None
    try:
        from psoup_service.gate.oidc import OpenId  # the only user of PyJWT
    except ImportError as problem:
        raise InvalidInput(
            f"access tokens of an OpenID provider need PyJWT ({problem}): pip install 'psoup[oidc]'", reason="SETTING"
        ) from None
    return OpenId(provider, now, threads, latest)
