"""Small HTTP servers that answer as they are told: with errors, or as vLLM and OpenAI would."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import torch
from transformers import PreTrainedTokenizerBase

from lexergy.core.decoding import Decoding, truncated_log_probs
from lexergy.models.causal.lm import CausalLM


class Reply(NamedTuple):
    content: Any
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


Respond = Callable[[str, dict[str, Any] | None], Reply]


@contextlib.contextmanager
def answering(respond: Respond) -> Iterator[str]:
    """A server that answers (path, body) by a function, for as long as the block lasts: its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, body: dict[str, Any] | None) -> None:
            reply = respond(self.path, body)
            content = reply.content if isinstance(reply.content, bytes) else json.dumps(reply.content).encode()
            self.send_response(reply.status)
            for name, value in (*reply.headers, ("Content-Length", str(len(content)))):
                self.send_header(name, value)
            with contextlib.suppress(BrokenPipeError):  # of a client that did not wait
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class StandIn:
    """An LM of this process behind the shapes of another server's answers; `asked` are the bodies it was given."""

    def __init__(self, lm: CausalLM, owner: str, *, processed: bool = False, scores: bool = True) -> None:
        self.lm, self.owner, self.processed, self.scores = lm, owner, processed, scores
        self.asked: list[dict[str, Any]] = []
        self._lock = threading.Lock()  # a model is run by one thread at a time

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        return self.lm.need_tokenizer()

    def __call__(self, path: str, body: dict[str, Any] | None) -> Reply:
        with self._lock:
            return self._answer(path, body)

    def _answer(self, path: str, body: dict[str, Any] | None) -> Reply:
        if path == "/v1/models":
            return Reply({"data": [{"id": "toy", "owned_by": self.owner, "max_model_len": 12}]})
        if path == "/tokenize" and self.owner == "vllm":
            assert body is not None
            return Reply({"tokens": self.lm.encode(body["prompt"]).tolist(), "max_model_len": 12})
        if path != "/v1/completions" or body is None:
            return Reply({"error": {"message": "no such path"}}, 404)
        self.asked.append(body)
        if body.get("echo") or body.get("prompt_logprobs") is not None:
            return self._scored(body) if self.scores else Reply({"error": {"message": "no echo here"}}, 400)
        return self._written(body)

    def _written(self, body: dict[str, Any]) -> Reply:
        decoding = Decoding(body["temperature"], body.get("top_k") or None, body["top_p"])
        forbidden = tuple(int(token) for token in body["logit_bias"])
        lm = CausalLM(self.lm.model, self.tokenizer, forbidden_tokens=forbidden)
        prompt = torch.tensor([body["prompt"]])
        options = {"max_new_tokens": body["max_tokens"], "seed": body["seed"], **vars(decoding)}
        tokens = lm.sample(prompt, num_samples=1, **options).tokens[0, 0].tolist()
        log_probs = []
        for place, token in enumerate(tokens):
            row = torch.tensor([[*body["prompt"], *tokens[:place]]])
            logits = lm.next_log_prob(row) if self.processed else self.lm.next_log_prob(row)
            log_probs.append(float(truncated_log_probs(logits, decoding if self.processed else Decoding())[0, token]))
        return self._reply(body, tokens, log_probs, {"token_ids": tokens} if self.owner == "vllm" else {})

    def _scored(self, body: dict[str, Any]) -> Reply:
        row = body["prompt"]
        scores = self.lm.token_log_prob(torch.tensor([row]), prefix_length=1)[0].tolist()
        if self.owner != "vllm":
            return self._reply(body, row, [None, *scores], {})
        likely = [None, *({str(token): {"logprob": score}} for token, score in zip(row[1:], scores, strict=True))]
        return self._reply(body, [0], [-1.0], {"prompt_logprobs": likely, "token_ids": [0]})

    def _reply(self, body: dict[str, Any], tokens: list[int], log_probs: list[Any], more: dict[str, Any]) -> Reply:
        words = [self.tokenizer.decode([token]) for token in tokens]
        choice = {"logprobs": {"tokens": words, "token_logprobs": log_probs}, "finish_reason": "length", **more}
        return Reply({"choices": [choice], "usage": {"prompt_tokens": len(body["prompt"])}})
