"""Thousands of requests that no client would send: none may be answered by a 5xx.

python benchmarks/serve_fuzz.py runs/tiny --requests 20000

A third of them are made by Schemathesis from the server's own OpenAPI schema, each checked against it; the rest are
bodies by Hypothesis: fields that are right, wrong, missing and unknown, in any mixture.
"""

import argparse
import json
import time
import warnings
from collections import Counter
from contextlib import suppress
from typing import Any

import httpx
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import load_all_checks, not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from served import served

CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)
TEXTS = st.one_of(
    st.sampled_from(["our union", "the state of our union is", "", "\n", "é🎉", "\0"]), st.text(max_size=30)
)
JUNK = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)),
    max_leaves=6,
)
EXTENSION = st.fixed_dictionaries(
    {},
    optional={
        "candidates": st.integers(0, 12),
        "target_ess": st.floats(-1, 20),
        "max_candidates": st.integers(0, 40),
        "chunk_tokens": st.integers(0, 9),
        "stop_at_end": st.booleans(),
        "return_candidates": st.booleans(),
    },
)
SAMPLING = {
    "n": st.integers(0, 3),
    "temperature": st.one_of(st.sampled_from([0, 1, 1.5]), st.floats(-1, 3)),
    "top_p": st.floats(0, 1.1),
    "top_k": st.integers(0, 500),
    "seed": st.integers(-(2**65), 2**65),
    "stop": st.one_of(TEXTS, st.lists(TEXTS, max_size=5)),
    "stream": st.booleans(),
    "stream_options": st.fixed_dictionaries({}, optional={"include_usage": st.booleans()}),
    "presence_penalty": st.sampled_from([0, 0.0, 1]),
    "logit_bias": st.sampled_from([{}, {"5": 1}]),
    "lexergy": st.one_of(EXTENSION, JUNK),
}
TOKENS = st.lists(st.integers(-1, 310), max_size=6)
MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": TEXTS}),
    max_size=3,
)


def bodies(models: list[str]) -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    """A path and a body: most fields in their range or just outside, some replaced or added at random."""
    names = st.sampled_from([*models, *models, "gpt-4"])
    completion = {
        "max_tokens": st.integers(-1, 12),
        "best_of": st.integers(0, 6),
        "logprobs": st.integers(-1, 6),
        "echo": st.booleans(),
        "suffix": st.none(),
    }
    chat = {
        "max_tokens": st.integers(0, 12),
        "max_completion_tokens": st.integers(0, 12),
        "logprobs": st.booleans(),
        "top_logprobs": st.integers(0, 5),
    }
    prompt = st.one_of(TEXTS, st.lists(TEXTS, max_size=3), TOKENS, st.lists(TOKENS, max_size=3))
    candidate = st.one_of(
        TEXTS, st.fixed_dictionaries({}, optional={"text": TEXTS, "tokens": TOKENS, "log_prob": st.floats()})
    )
    weigh = st.sampled_from(["energy", "joint", "both"])
    forms = {
        "/v1/completions": st.fixed_dictionaries({"model": names, "prompt": prompt}, optional=SAMPLING | completion),
        "/v1/chat/completions": st.fixed_dictionaries({"model": names, "messages": MESSAGES}, optional=SAMPLING | chat),
        "/v1/rerank": st.fixed_dictionaries(
            {"model": names, "prompt": st.one_of(TEXTS, TOKENS), "candidates": st.lists(candidate, max_size=4)},
            optional={"weigh_by": weigh, "seed": st.integers()},
        ),
        "/v1/score": st.fixed_dictionaries({"model": names, "input": st.one_of(TEXTS, st.lists(TEXTS, max_size=3))}),
        "/v1/detect": st.fixed_dictionaries({"input": TEXTS}, optional={"prior": st.floats(0, 1)}),
        "/tokenize": st.fixed_dictionaries({"prompt": TEXTS}, optional={"model": names}),
    }
    noise = st.one_of(
        st.just({}), st.just({}), st.dictionaries(st.sampled_from([*SAMPLING, "user", "tools"]), JUNK, max_size=2)
    )
    return st.one_of(
        [
            st.tuples(st.just(path), form, noise).map(lambda made: (made[0], made[1] | made[2]))
            for path, form in forms.items()
        ]
    )


def fuzzing(examples: int) -> settings:
    return settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


def send_bodies(url: str, models: list[str], examples: int) -> Counter[str]:
    """Answers by status; a server error, or one that is not in OpenAI's shape, fails."""
    counts: Counter[str] = Counter()
    with httpx.Client(timeout=60) as client:

        @fuzzing(examples)
        @given(bodies(models))
        def send(made: tuple[str, dict[str, Any]]) -> None:
            path, body = made
            content = json.dumps(body).encode()
            answer = client.post(f"{url}{path}", content=content, headers={"Content-Type": "application/json"})
            counts[f"{path} {answer.status_code}"] += 1
            if counts.total() % 1000 == 0:
                print(counts.total(), "bodies", flush=True)
            assert answer.status_code < 500, (path, body, answer.text)
            if answer.status_code != 200:
                assert set(answer.json()["error"]) == {"message", "type", "param", "code"}, answer.text
            elif body.get("stream") is not True:
                json.loads(answer.text, parse_constant=refuse)

        send()
    return counts


def refuse(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def follow_schema(url: str, examples: int) -> Counter[str]:
    """Requests of every operation of the schema, right and wrong, and their answers checked against it."""
    load_all_checks()
    counts: Counter[str] = Counter()
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    operations = [result.ok() for result in schema.get_all_operations()]
    modes = (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE)
    with warnings.catch_warnings(action="ignore"):
        for operation in operations:
            for mode in modes:
                with suppress(Unsatisfiable):  # nothing can be wrong with a path without parameters
                    strategy = operation.as_strategy(generation_mode=mode)
                    follow(strategy, f"{operation.method} {operation.path}", examples // (2 * len(operations)), counts)
    return counts


def follow(strategy: Any, name: str, examples: int, counts: Counter[str]) -> None:
    @fuzzing(max(1, examples))
    @given(strategy)
    def send(case: Any) -> None:
        answer = case.call(timeout=60)
        counts[f"{name} {answer.status_code}"] += 1
        case.validate_response(answer, checks=CHECKS)

    send()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--detector")
    parser.add_argument("--part", choices=("both", "schema", "bodies"), default="both")
    arguments = parser.parse_args()
    options = ["--detector", arguments.detector] if arguments.detector else []
    with served(arguments.run, "--candidates", "4", "--max-candidates", "40", "--max-tokens", "40", *options) as server:
        started, before = time.monotonic(), server.memory()
        counts: Counter[str] = Counter()
        if arguments.part != "bodies":
            counts += follow_schema(server.url, arguments.requests // (3 if arguments.part == "both" else 1))
        if arguments.part != "schema":
            counts += send_bodies(server.url, server.models(), arguments.requests - counts.total())
        print(*(f"{count:7d}  {name}" for name, count in sorted(counts.items())), sep="\n")
        print(f"{counts.total()} requests in {time.monotonic() - started:.0f} s, no server error")
        print(f"resident memory {before:.0f} MB before, {server.memory():.0f} MB after")


if __name__ == "__main__":
    main()
