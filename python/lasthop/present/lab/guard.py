"""Access control: only the page with the token has access, under a name of the lab's host."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

MOST_BYTES = 256 << 10
"""The largest request; the largest study is a tenth of this."""
TOKEN_HEADER = "x-lasthop-token"
_MOST_DRAINED = 64 << 20
_PAGE = "/"
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; connect-src "
    "'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The page loads nothing, and connects only to its server."""
_HEADERS = {
    "content-security-policy": _POLICY,
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


async def _drain(receive: Receive) -> None:
    """Read an oversized request up to a limit, because a browser reads no answer while it sends."""
    read = 0
    while read < _MOST_DRAINED:
        message = await receive()
        read += len(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body"):
            return


class Guard:
    """Rejects requests without the token, for another host, from another origin, or of excessive size."""

    def __init__(self, app: ASGIApp, token: str, is_own: Callable[[str], bool]) -> None:
        """Guard an application; `is_own` returns whether a `Host` header names it."""
        self._app = app
        self._token = token.encode()
        self._is_own = is_own

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http" or not self._allowed(scope):
            await Response(status_code=403)(scope, receive, send)
            return
        length = Headers(scope=scope).get("content-length", "0" if scope["method"] == "GET" else "")
        if not length.isdigit() or int(length) > MOST_BYTES:
            await _drain(receive)
            errors = [
                {"line": None, "text": f"The scenario is too large: the limit is {MOST_BYTES >> 10} kB."}
            ]
            await JSONResponse({"errors": errors}, 413)(scope, receive, send)
            return

        async def send_with_headers(message: dict[str, object]) -> None:
            if message["type"] == "http.response.start":
                headers = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
                message["headers"] = [*message.get("headers", ()), *headers]  # type: ignore[misc]
            await send(message)

        await self._app(scope, receive, send_with_headers)  # type: ignore[arg-type]

    def _allowed(self, scope: Scope) -> bool:
        headers = Headers(scope=scope)
        # The check of the host blocks sites whose names resolve to this machine (DNS rebinding); the check of
        # the origin blocks scripts of other sites.
        host = headers.get("host", "")
        if not self._is_own(host) or headers.get("origin") not in (None, f"http://{host}"):
            return False
        token = headers.get(TOKEN_HEADER, "")
        if scope["path"] == _PAGE and scope["method"] == "GET":
            token = token or "".join(parse_qs(scope["query_string"].decode("latin-1")).get("token", [])[:1])
        return hmac.compare_digest(token.encode(), self._token)
