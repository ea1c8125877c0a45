"""Errors in OpenAI's shape: {"error": {"message", "type", "param", "code"}}, which its clients know."""

import json
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

TYPES = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error", 405: "not_found_error"}
TYPES |= {408: "timeout_error", 413: "invalid_request_error", 415: "invalid_request_error", 429: "rate_limit_error"}
SERVER_ERROR = "server_error"


class ApiError(Exception):
    """An answer other than 200, as the client reads it."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code
        self.retry_after = retry_after

    def record(self) -> dict[str, Any]:
        kind = TYPES.get(self.status, SERVER_ERROR)
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    def response(self) -> Response:
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        return json_response(self.record(), self.status, headers)


def invalid(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    return ApiError(400, message, param=param, code=code)


def json_response(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    # Escaped: half a surrogate pair, quoted from a request, cannot be written as UTF-8.
    body = json.dumps(content, ensure_ascii=True, allow_nan=False)
    return Response(body, status, headers, media_type="application/json")


def install_handlers(app: FastAPI) -> None:
    """Every error of the app in the one shape; a bug is logged by uvicorn, and its traceback stays there."""

    @app.exception_handler(ApiError)
    async def told(request: Request, error: ApiError) -> Response:
        return error.response()

    @app.exception_handler(RequestValidationError)
    async def mistaken(request: Request, error: RequestValidationError) -> Response:
        return _of_validation(error).response()

    @app.exception_handler(HTTPException)
    async def elsewhere(request: Request, error: HTTPException) -> Response:
        response = ApiError(error.status_code, str(error.detail)).response()
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(Exception)
    async def bug(request: Request, error: Exception) -> Response:
        return ApiError(500, "the server made a mistake; its log says more.").response()


def _of_validation(error: RequestValidationError) -> ApiError:
    """The first thing that is wrong with a body, by the name of its field."""
    first = min(error.errors(), key=lambda entry: _rank(entry["type"]))
    place = [str(part) for part in first["loc"] if part != "body"]
    # Unions name their branches (`list[str]`, `function-after[...]`) in the place.
    names = [part for part in place if part.replace("_", "").isalnum()]
    param = ".".join(names) or None
    if first["type"] == "extra_forbidden":
        return invalid(
            f"`{param}` is no field of this request, or not supported; leave it out.", param, "unknown_field"
        )
    if first["type"] in ("json_invalid", "model_attributes_type") or param is None:
        return invalid("the body is no JSON object; expected one, with the header `Content-Type: application/json`.")
    if first["type"] == "missing":
        return invalid(f"`{param}` is missing.", param)
    return invalid(f"`{param}`: {first['msg'][0].lower()}{first['msg'][1:]}.", names[0])


def _rank(kind: str) -> int:
    """Of a field with several forms, the branch that was meant says more than those that were not."""
    return 0 if kind == "extra_forbidden" else 2 if kind.endswith("_type") else 1
