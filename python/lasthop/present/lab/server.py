"""The lab's server, which delivers the page and answers to its questions."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from collections.abc import AsyncIterator, Callable

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from lasthop.present.lab.guard import Guard
from lasthop.present.lab.keeper import Keeper, Lost, Overtaken
from lasthop.present.lab.opened import Opened
from lasthop.present.lab.page import page
from lasthop.present.lab.shelf import Shelf

HOST = "127.0.0.1"
_BINARY = "application/octet-stream"


async def _question(request: Request) -> dict[str, object]:
    """Return the question; empty if it is not a JSON object."""
    with contextlib.suppress(ValueError, RecursionError):
        question = await request.json()
        if isinstance(question, dict):
            return question
    return {}


def _application(opened: Opened, shelf: Shelf | None) -> Starlette:
    runs, stories = Keeper(opened), Keeper(opened, patient=True)  # a story must not delay pictures

    async def show(_: Request) -> Response:
        return HTMLResponse(page(opened, results=None if shelf is None else shelf.choices()))

    async def ask(request: Request) -> Response:
        question = await _question(request)
        if question.get("ask") not in ("look", "story"):
            return JSONResponse(
                {"errors": [{"line": None, "text": "The lab cannot answer this question."}]}, 400
            )
        keeper = runs if question["ask"] == "look" else stories
        try:
            return Response(await keeper.ask(question), media_type=_BINARY)
        except Overtaken:
            return Response(status_code=409)
        except Lost as lost:
            return JSONResponse({"errors": [{"line": None, "text": str(lost)}]}, 422)

    async def results(request: Request) -> Response:
        if shelf is None:
            return Response(status_code=404)
        return JSONResponse(await asyncio.to_thread(shelf.figure, await _question(request)))

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await asyncio.gather(runs.start(), stories.start())
        yield
        await asyncio.gather(runs.close(), stories.close())

    routes = [
        Route("/", show),
        Route("/ask", ask, methods=["POST"]),
        Route("/results", results, methods=["POST"]),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


def serve(opened: Opened, shelf: Shelf | None, started: Callable[[str], None]) -> None:
    """Serve the lab on this machine until Ctrl-C; `started` is called with the address once it is ready."""
    token = secrets.token_urlsafe(24)
    with socket.socket() as listening:
        listening.bind((HOST, 0))
        name = f"{HOST}:{listening.getsockname()[1]}"
        guarded = Guard(_application(opened, shelf), token, name)
        server = uvicorn.Server(
            uvicorn.Config(guarded, log_level="critical", lifespan="on", timeout_graceful_shutdown=1)
        )

        async def run() -> None:
            serving = asyncio.create_task(server.serve([listening]))
            while not server.started and not serving.done():
                await asyncio.sleep(0.01)
            if server.started:
                started(f"http://{name}/?token={token}")
            await serving

        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(run())
