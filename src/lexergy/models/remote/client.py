"""Asking a server: many requests at once, each again where the network or the server falters."""

import logging
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from typing import Any

from lexergy.errors import LexergyError

logger = logging.getLogger(__name__)

FALTERING = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
FIRST_WAIT, LONGEST_WAIT = 0.5, 60.0  # seconds
CONNECT_SECONDS = 10.0


class ServerRefusal(LexergyError):
    """A server answered, and will not do what it was asked."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Client:
    """A server at `url`, asked at most `concurrency` things at once.

    Where it cannot be reached, is too busy or fails (429, 5xx), it is asked again, `tries` times in all: after what its
    Retry-After says, or after .5, 1, 2, ... seconds.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        concurrency: int = 8,
        timeout: float = 300.0,
        tries: int = 6,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        httpx = _httpx()
        self.url = url.rstrip("/").removesuffix("/v1")
        self.tries = tries
        self._wait = wait
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._http = httpx.Client(
            base_url=self.url,
            headers=headers,
            timeout=httpx.Timeout(timeout, connect=CONNECT_SECONDS, pool=None),
            limits=httpx.Limits(max_connections=concurrency, max_keepalive_connections=concurrency),
        )
        self._faults: Any = httpx.TransportError
        self._invalid: Any = (httpx.InvalidURL, httpx.UnsupportedProtocol)
        self._workers = ThreadPoolExecutor(concurrency, thread_name_prefix="lm")
        weakref.finalize(self, self._http.close)  # connections are kept as long as somebody asks

    def get(self, path: str) -> Any:
        """The JSON at a path."""
        return self._ask("GET", path, None)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """The JSON that answers a request."""
        return self._ask("POST", path, body)

    def post_all(self, path: str, bodies: Sequence[dict[str, Any]]) -> list[Any]:
        """The answers to many requests, in their order."""
        waiting = [self._workers.submit(self.post, path, body) for body in bodies]
        try:
            return [answer.result() for answer in waiting]
        finally:
            for answer in waiting:
                answer.cancel()  # those not begun, if one failed

    def _ask(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        reason = ""
        for count in range(self.tries):
            pause = min(FIRST_WAIT * 2**count, LONGEST_WAIT)
            try:
                response = self._http.request(method, path, json=body)
            except self._invalid as error:
                raise LexergyError(f"`{self.url}` is no address; expected one as http://127.0.0.1:8080.") from error
            except self._faults as error:
                reason = str(error) or type(error).__name__
            else:
                if response.status_code not in FALTERING:
                    return self._read(response, path)
                reason = f"{response.status_code}: {_message(response)}"
                pause = _retry_after(response, pause)
            if count + 1 < self.tries:
                logger.warning(
                    "%s%s: %s; again in %.1f s (%d of %d)", self.url, path, reason, pause, count + 1, self.tries
                )
                self._wait(pause)
        raise LexergyError(
            f"{self.url}{path} did not answer in {self.tries} tries ({reason}); expected a server there; see that it "
            "runs, then start the same command again: what is finished stays."
        )

    def _read(self, response: Any, path: str) -> Any:
        if response.status_code >= 400:
            remedy = "; set LEXERGY_LM_KEY to its key" if response.status_code in (401, 403) else ""
            raise ServerRefusal(
                f"{self.url}{path} refuses ({response.status_code}): {_message(response)}{remedy}.",
                response.status_code,
            )
        try:
            return response.json()
        except ValueError as error:
            raise LexergyError(
                f"{self.url}{path} answers with something that is not JSON; expected a server of OpenAI's API; "
                "check the address."
            ) from error


def _message(response: Any) -> str:
    """What a server says of its error, in OpenAI's shape or in its own, in one line."""
    try:
        content = response.json()
    except ValueError:
        content = response.text
    if isinstance(content, dict):
        content = content.get("error", content.get("detail", content.get("message", content)))
    if isinstance(content, dict):
        content = content.get("message", content)
    return " ".join(str(content).split())[:300].rstrip(".") or response.reason_phrase


def _retry_after(response: Any, otherwise: float) -> float:
    """Seconds that the server asks for, given as a number or as a date."""
    asked = response.headers.get("Retry-After")
    if asked is None:
        return otherwise
    try:
        seconds = float(asked) if asked.strip().isdigit() else parsedate_to_datetime(asked).timestamp() - time.time()
    except ValueError:
        return otherwise
    return min(max(seconds, 0.0), LONGEST_WAIT)


def _httpx() -> Any:
    try:
        import httpx
    except ImportError as error:
        raise LexergyError("an LM behind an address needs httpx; run `pip install 'lexergy[remote]'`.") from error
    return httpx
