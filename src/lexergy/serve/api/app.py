"""The HTTP interface: OpenAI's paths, and those for what it has no word for."""

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.openapi.utils import get_openapi
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import HTMLResponse, Response

import lexergy
from lexergy.core.candidates import GivenCandidate
from lexergy.models.joint.reranking import rerank
from lexergy.serve.api import answers
from lexergy.serve.api.calls import detect_texts, reranked, score_texts
from lexergy.serve.api.catalogue import Catalogue
from lexergy.serve.api.desk import Answered, Desk, Written
from lexergy.serve.api.errors import ApiError, install_handlers, invalid, json_response
from lexergy.serve.api.guard import Guard
from lexergy.serve.api.metrics import Metrics
from lexergy.serve.api.plans import Plan, plan_chat, plan_completion
from lexergy.serve.api.replies import Reply
from lexergy.serve.api.requests import (
    ChatRequest,
    CompletionRequest,
    DetectRequest,
    RerankRequest,
    ScoreRequest,
    TokenizeRequest,
)
from lexergy.serve.api.settings import ServerSettings
from lexergy.serve.api.streaming import EventStream, finished
from lexergy.serve.page import CONTENT_SECURITY_POLICY, page

STOP_SECONDS = 30.0  # that the worker's thread has for its last chunk
_ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"description": "A mistake in the request, or a field that is not supported."},
    401: {"description": "No key, or not one of this server's."},
    404: {"description": "No such model."},
    408: {"description": "Not finished in time."},
    413: {"description": "The body is too large."},
    429: {"description": "The queue is full; the header Retry-After says when to ask again."},
    503: {"description": "The models are being loaded, or the server is shutting down."},
}
STREAM: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {}}}}
ERRORS: dict[int | str, dict[str, Any]] = {
    code: about | {"model": answers.ErrorAnswer} for code, about in _ERRORS.items()
}


def create_app(load: Callable[[], Catalogue], settings: ServerSettings) -> FastAPI:
    """The app and its desk (`app.state.desk`), whose thread loads the models first."""
    metrics = Metrics()
    desk = Desk(load, settings.queue, metrics)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        desk.start()
        yield
        desk.close()
        desk.hand_back()
        desk.stop(STOP_SECONDS)

    # The usual pages of documentation fetch their scripts from other hosts.
    app = FastAPI(title="Lexergy", version=lexergy.__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.desk = desk
    _add_status(app, desk, metrics)
    _add_texts(app, desk, settings)
    _add_calls(app, desk, settings)
    install_handlers(app)
    app.openapi = lambda: _schema(app)  # type: ignore[method-assign]
    paths = frozenset(route.path for route in app.routes if hasattr(route, "path"))
    app.add_middleware(Guard, settings=settings, metrics=metrics, paths=paths)
    if settings.allowed_origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=settings.allowed_origins, allow_methods=["GET", "POST"], allow_headers=["*"]
        )
    return app


def _add_status(app: FastAPI, desk: Desk, metrics: Metrics) -> None:
    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    async def front_page() -> Response:
        return HTMLResponse(page(), headers={"Content-Security-Policy": CONTENT_SECURITY_POLICY})

    @app.get("/health", response_model=answers.Status)
    async def health() -> Response:
        """Whether the process answers."""
        return json_response({"status": "ok"})

    @app.get("/ready", response_model=answers.Status, responses={503: ERRORS[503]})
    async def ready() -> Response:
        """Whether the models are loaded."""
        desk.ready()
        return json_response({"status": "ready"})

    @app.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}, 401: ERRORS[401]})
    async def prometheus() -> Response:
        return Response(metrics.page(), media_type="text/plain; version=0.0.4")

    @app.get("/v1/models", response_model=answers.ModelList, responses={401: ERRORS[401], 503: ERRORS[503]})
    async def models() -> Response:
        """The base LM, a joint model per energy, and a scorer where there is one."""
        cards = desk.ready().cards
        return json_response(answers.ModelList(data=list(cards)).model_dump(mode="json"))

    @app.get(
        "/v1/models/{model:path}",
        response_model=answers.ModelCard,
        responses={code: ERRORS[code] for code in (400, 401, 404, 503)},
    )
    async def one_model(model: str) -> Response:
        for card in desk.ready().cards:
            if card.id == model:
                return json_response(card.model_dump(mode="json"))
        raise ApiError(404, f"no model `{model}`; `/v1/models` lists them.", param="model", code="model_not_found")


def _add_texts(app: FastAPI, desk: Desk, settings: ServerSettings) -> None:
    async def written(reply: Reply, plan: Plan, request: Request) -> None:
        for event in await finished(desk, desk.submit(plan.texts), request.receive, settings):
            assert isinstance(event, Written)
            reply.add(event)

    def stream(reply: Reply, plan: Plan, with_usage: bool, chunk: Callable[[Written], dict[str, Any]]) -> Response:
        def grown(event: Written) -> dict[str, Any]:
            reply.add(event)
            return chunk(event)

        return EventStream(desk, desk.submit(plan.texts), settings, grown, lambda: reply.last_chunk(with_usage))

    @app.post("/v1/completions", response_model=answers.Completion, responses=ERRORS | STREAM)
    async def completions(body: CompletionRequest, request: Request) -> Response:
        """Continue a prompt, by the base LM or by a joint model: candidates of the LM, one drawn by its energy."""
        catalogue = desk.ready()
        plan = plan_completion(catalogue, settings, body)
        of_prompt = body.prompt_logprobs is not None
        reply = Reply(catalogue, plan, "cmpl", echo=bool(body.echo), prompt_log_probs=of_prompt)
        if body.stream:
            usage = body.stream_options is not None and body.stream_options.include_usage
            return stream(reply, plan, usage, lambda event: reply.completion_chunk(event).model_dump(mode="json"))
        await written(reply, plan, request)
        return json_response(reply.completion().model_dump(mode="json"))

    @app.post("/v1/chat/completions", response_model=answers.ChatCompletion, responses=ERRORS | STREAM)
    async def chat(body: ChatRequest, request: Request) -> Response:
        """Answer messages, put into words by the tokenizer's own chat template."""
        catalogue = desk.ready()
        plan = plan_chat(catalogue, settings, body)
        reply = Reply(catalogue, plan, "chatcmpl")
        if body.stream:
            usage = body.stream_options is not None and body.stream_options.include_usage
            return stream(reply, plan, usage, reply.chat_chunk)
        await written(reply, plan, request)
        return json_response(reply.chat().model_dump(mode="json"))


def _add_calls(app: FastAPI, desk: Desk, settings: ServerSettings) -> None:
    async def answer(call: Callable[[], Any], request: Request) -> Any:
        (event,) = await finished(desk, desk.submit(call), request.receive, settings)
        assert isinstance(event, Answered)
        return event.value

    @app.post("/v1/rerank", response_model=answers.RerankAnswer, responses=ERRORS)
    async def rerank_candidates(body: RerankRequest, request: Request) -> Response:
        """Weigh candidates from anywhere by a joint model."""
        catalogue = desk.ready()
        model = catalogue.model(body.model)
        joint = model.joint
        if joint is None:
            raise invalid(f"`model` is {model.id}, the base LM; expected a joint model, which has an energy.", "model")
        if len(body.candidates) > settings.max_candidates:
            raise invalid(
                f"{len(body.candidates)} candidates; expected at most {settings.max_candidates}.", "candidates"
            )
        given = [
            GivenCandidate(item)
            if isinstance(item, str)
            else GivenCandidate(item.text, None if item.tokens is None else tuple(item.tokens), item.log_prob)
            for item in body.candidates
        ]
        seed = secrets.randbits(63) if body.seed is None else body.seed
        result = await answer(lambda: rerank(joint, body.prompt, given, weigh_by=body.weigh_by, seed=seed), request)
        return json_response(reranked(model.id, result, seed).model_dump(mode="json"))

    @app.post("/v1/score", response_model=answers.ScoreAnswer, responses=ERRORS)
    async def score(body: ScoreRequest, request: Request) -> Response:
        """Log-scores of texts and of their tokens, by the base LM or by the scorer."""
        catalogue = desk.ready()
        scorer, texts = catalogue.scorer(body.model), _texts(body.input, catalogue, settings)
        data = await answer(lambda: score_texts(scorer, texts), request)
        return json_response(answers.ScoreAnswer(model=body.model, kind=scorer.kind, data=data).model_dump(mode="json"))

    @app.post("/v1/detect", response_model=answers.DetectAnswer, responses=ERRORS)
    async def detect(body: DetectRequest, request: Request) -> Response:
        """The probability that a machine wrote each text, and where in it."""
        catalogue = desk.ready()
        detector, texts = catalogue.detector, _texts(body.input, catalogue, settings)
        if detector is None:
            raise ApiError(404, "this server has no detector; start it with `--detector FOLDER`.", code="no_detector")
        data = await answer(lambda: detect_texts(detector, texts, body.prior), request)
        return json_response(answers.DetectAnswer(data=data).model_dump(mode="json"))

    @app.post("/tokenize", response_model=answers.TokenizeAnswer, responses=ERRORS)
    async def tokenize(body: TokenizeRequest) -> Response:
        """The LM's token ids of a text, without special tokens."""
        catalogue = desk.ready()
        lm = catalogue.lm if body.model is None else catalogue.model(body.model).lm
        tokens = catalogue.encode(body.prompt)
        return json_response({"count": len(tokens), "max_model_len": lm.max_length, "tokens": tokens})


def _texts(given: str | list[str], catalogue: Catalogue, settings: ServerSettings) -> list[str]:
    texts, limit = [given] if isinstance(given, str) else given, settings.max_prompt_tokens
    count = sum(len(catalogue.encode(text)) for text in texts)
    if count > limit:
        raise invalid(f"`input` has {count} tokens; expected at most {limit} on this server.", "input")
    return texts


def _schema(app: FastAPI) -> dict[str, Any]:
    """FastAPI's own schema, less the 422 that is a 400 here."""
    if app.openapi_schema is None:
        schema = get_openapi(title=app.title, version=app.version, routes=app.routes)
        for operations in schema["paths"].values():
            for operation in operations.values():
                operation["responses"].pop("422", None)
        for name in ("HTTPValidationError", "ValidationError"):
            schema["components"]["schemas"].pop(name, None)
        app.openapi_schema = schema
    return app.openapi_schema
