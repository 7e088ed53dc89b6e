"""The lab's server, which delivers the page and answers to its questions."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TypeAlias

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from lasthop.common.errors import InputError
from lasthop.present.lab.guard import Guard
from lasthop.present.lab.keeper import Keeper, Lost, Overtaken
from lasthop.present.lab.opened import Opened
from lasthop.present.lab.page import page
from lasthop.present.lab.shelf import Shelf

_HOST = "127.0.0.1"
BINARY = "application/octet-stream"
Handler: TypeAlias = Callable[[Request], Awaitable[Response]]


async def question_of(request: Request) -> dict[str, object]:
    """Return the question; empty if it is not a JSON object."""
    with contextlib.suppress(ValueError, RecursionError):
        question = await request.json()
        if isinstance(question, dict):
            return question
    return {}


def refused(text: str, status: int) -> Response:
    """Return an answer with an error."""
    return JSONResponse({"errors": [{"line": None, "text": text}]}, status)


async def _overtaken(_: Request, __: Exception) -> Response:
    return Response(status_code=409)


async def _lost(_: Request, error: Exception) -> Response:
    return refused(str(error), 422)


async def _wrong(_: Request, error: Exception) -> Response:
    return refused(str(error), 400)


def application(
    handlers: Mapping[str, Handler],
    html: str,
    start: Callable[[], Awaitable[object]],
    close: Callable[[], Awaitable[object]],
) -> Starlette:
    """Return a server of the page and of answers to it, between `start` and `close`."""

    async def show(_: Request) -> Response:
        return HTMLResponse(html)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await start()
        yield
        await close()

    routes = [Route("/", show), *(Route(path, each, methods=["POST"]) for path, each in handlers.items())]
    errors = {Overtaken: _overtaken, Lost: _lost, InputError: _wrong}
    return Starlette(routes=routes, lifespan=lifespan, exception_handlers=errors)


def check_kind(question: Mapping[str, object]) -> None:
    """Raise `InputError` unless the question is for a run or a story."""
    if question.get("ask") not in ("look", "story"):
        raise InputError("The lab cannot answer this question.")


def serve(opened: Opened, shelf: Shelf | None, started: Callable[[str], None]) -> None:
    """Serve the lab on this machine until Ctrl-C; `started` is called with the address once it is ready."""
    runs, stories = Keeper(opened), Keeper(opened, patient=True)  # a story must not delay pictures

    async def ask(request: Request) -> Response:
        question = await question_of(request)
        check_kind(question)
        keeper = runs if question["ask"] == "look" else stories
        return Response(await keeper.ask(question), media_type=BINARY)

    async def results(request: Request) -> Response:
        if shelf is None:
            return Response(status_code=404)
        return JSONResponse(await asyncio.to_thread(shelf.figure, await question_of(request)))

    app = application(
        {"/ask": ask, "/results": results},
        page(opened, results=None if shelf is None else shelf.choices()),
        lambda: asyncio.gather(runs.start(), stories.start()),
        lambda: asyncio.gather(runs.close(), stories.close()),
    )
    with socket.create_server((_HOST, 0)) as listening:
        name = f"{_HOST}:{listening.getsockname()[1]}"
        token = secrets.token_urlsafe(24)
        run_until_ctrl_c(
            Guard(app, token, name.__eq__), listening, lambda: started(f"http://{name}/?token={token}")
        )


def run_until_ctrl_c(app: ASGIApp, listening: socket.socket, started: Callable[[], None]) -> None:
    """Run an application on a listening socket until Ctrl-C; `started` is called once it is ready."""
    server = uvicorn.Server(
        uvicorn.Config(app, log_level="critical", lifespan="on", timeout_graceful_shutdown=1)
    )

    async def run() -> None:
        serving = asyncio.create_task(server.serve([listening]))
        while not server.started and not serving.done():
            await asyncio.sleep(0.01)
        if server.started:
            started()
        await serving

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run())
