"""The arena's server: a page, and a few calls that hand out comparisons and take votes."""

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import uvicorn
from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from lexergy.errors import LexergyError
from lexergy.runs.workspace import open_workspace
from lexergy.serve.arena.page import server_page
from lexergy.serve.listening import LOOPBACK, address_of, listen
from lexergy.tasks.arena.sessions import Sessions, Standing
from lexergy.tasks.arena.study import StudyFolder

MOST_BYTES = 4096  # of a request's body
HEADERS = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff"}

AnnotatorName = Annotated[str, Query(max_length=64)]


class Consent(BaseModel):
    model_config = ConfigDict(extra="forbid")
    annotator: str = Field(max_length=64)


class Vote(BaseModel):
    model_config = ConfigDict(extra="forbid")
    annotator: str = Field(max_length=64)
    page: int
    slot: int
    choice: Literal["first", "second", "tie"]
    seconds: float | None = Field(default=None, ge=0, le=1e6, allow_inf_nan=False)


def create_app(sessions: Sessions) -> FastAPI:
    """The app of one study, for one process: sessions are kept in memory, and their files appended to."""
    app = FastAPI(title="Lexergy arena", docs_url=None, redoc_url=None, openapi_url=None)
    page, rules = server_page(sessions.study), sessions.study.rules

    @app.get("/", response_class=HTMLResponse)
    def show_page() -> str:
        return page

    @app.get("/health")
    def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.post("/api/consent")
    def consent(body: Consent) -> dict[str, bool]:
        sessions.consent(body.annotator)
        return {"saved": True}

    @app.get("/api/session")
    def session(annotator: AnnotatorName) -> dict[str, Any]:
        standing = sessions.standing(annotator)
        codes = {
            Standing.WAITING: rules.qualifying_code,
            Standing.NOT_QUALIFIED: rules.qualifying_code,
            Standing.FINISHED: rules.code,
        }
        count = sessions.num_pages(annotator)
        # Fewer than planned where the study has no votes left to ask for.
        total = count if standing is Standing.FINISHED else sessions.all_pages()
        return {"standing": standing, "pages": count, "of": total, "code": codes.get(standing)}

    @app.get("/api/pages/{number}")
    def shown(number: int, annotator: AnnotatorName) -> dict[str, Any]:
        return sessions.shown(annotator, number)

    @app.post("/api/votes")
    def vote(body: Vote) -> dict[str, bool]:
        sessions.vote(body.annotator, body.page, body.slot, body.choice, body.seconds)
        return {"saved": True}

    _guard(app)
    return app


def _guard(app: FastAPI) -> None:
    """Mistakes become one sentence, bodies are small, and nothing is kept by browsers."""

    @app.exception_handler(LexergyError)
    def mistake(request: Request, error: LexergyError) -> Response:
        return JSONResponse({"error": str(error)}, 400)

    @app.exception_handler(RequestValidationError)
    def wrong(request: Request, error: RequestValidationError) -> Response:
        told = "; ".join(f"`{'.'.join(map(str, part['loc'][1:]))}`: {part['msg']}" for part in error.errors())
        return JSONResponse({"error": f"The request is wrong: {told}."}, 400)

    @app.middleware("http")
    async def limit(request: Request, call: Any) -> Response:
        length = request.headers.get("content-length", "")
        if request.method == "POST" and not (length.isdecimal() and float(length) <= MOST_BYTES):
            return JSONResponse({"error": f"The body must have at most {MOST_BYTES} bytes, and say how many."}, 413)
        response: Response = await call(request)
        response.headers.update(HEADERS)
        return response


def serve(study: Path, host: str, port: int) -> None:
    """Serve a study until a signal; no other process may write it meanwhile."""
    folder = StudyFolder(study)
    folder.read()  # a mistaken path is told before anything is made there
    listening = listen(host, port)
    if host not in LOOPBACK:
        print(
            f"warning: the server listens on {host}, and an annotator's identifier is all that tells people apart; "
            "put a server with HTTPS before it",
            file=sys.stderr,
        )
    with open_workspace(study, 0):
        app = create_app(Sessions(folder))
        print(f"{address_of(host, listening)} (votes go to {folder.votes.path})", file=sys.stderr, flush=True)
        config = uvicorn.Config(app, log_level="error", access_log=False, server_header=False)
        uvicorn.Server(config).run(sockets=[listening])
