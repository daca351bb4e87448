"""What stands before every request: the right host, the right origin, the token, and a body of bounded size.

The dashboard shows private images and starts programs, so a page of another site must neither read nor command it:
a foreign Host is what DNS rebinding brings, a foreign Origin what a forged form brings.
"""

from __future__ import annotations

import hmac
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_LIMIT = 65_536
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # no-referrer would turn the Origin of our own forms into `null`
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
NO_TOKEN = "Open the address that leakscope printed when it started: it carries the token.\n"


class TooLargeError(Exception):
    """A body that grew beyond the limit while it was read."""


class Guard:
    """Middleware that refuses whatever does not come from the dashboard's own pages in the owner's own browser."""

    def __init__(self, app: ASGIApp, *, token: str, port: int) -> None:
        self.app, self.token = app, token
        self.hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
        self.origins = {f"http://{host}" for host in self.hosts}
        self.cookie = f"leakscope-{port}"  # cookies know no ports: two dashboards must not share one

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = self.refusal(scope, Headers(scope=scope))
        if answer is not None:
            await answer(scope, receive, _with_headers(send))
            return
        try:
            await self.app(scope, _limited(receive), _with_headers(send))
        except TooLargeError:
            await _too_large()(scope, receive, _with_headers(send))

    def refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """Why a request is not let through, or None."""
        if headers.get("host") not in self.hosts:
            return PlainTextResponse("This dashboard answers on its own address only.\n", 421)
        origin = headers.get("origin")
        if (origin or scope["method"] not in ("GET", "HEAD")) and origin not in self.origins:
            return PlainTextResponse("Requests from other pages are refused.\n", 403)
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > BODY_LIMIT:
            return _too_large()
        return self._check_token(scope, headers)

    def _check_token(self, scope: Scope, headers: Headers) -> Response | None:
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = dict(query).get("token")
        if given is not None and scope["method"] == "GET" and self._is_token(given):
            rest = urlencode([pair for pair in query if pair[0] != "token"])
            welcome = RedirectResponse(f"{_own_path(scope['path'])}{'?' + rest if rest else ''}", 303)
            welcome.set_cookie(self.cookie, self.token, httponly=True, samesite="strict")
            return welcome
        return None if self._is_token(_cookie(headers, self.cookie)) else PlainTextResponse(NO_TOKEN, 403)

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token.encode())


def _own_path(path: str) -> str:
    """A path that stays on this host: `//evil.example` would lead elsewhere."""
    return "/" + path.lstrip("/\\")


def _cookie(headers: Headers, name: str) -> str:
    try:
        jar = SimpleCookie(headers.get("cookie", ""))
    except CookieError:
        return ""
    return jar[name].value if name in jar else ""


def _too_large() -> Response:
    return PlainTextResponse(f"A request here has at most {BODY_LIMIT} bytes.\n", 413, {"Connection": "close"})


def _limited(receive: Receive) -> Receive:
    """Counts what is really sent: a chunked body announces no length."""
    seen = 0

    async def counting() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > BODY_LIMIT:
            raise TooLargeError
        return message

    return counting


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending
