"""Mistakes, in OpenAI's shape and with a remedy; nothing that is not understood is let pass."""

import httpx
import pytest

GOOD = {"prompt": "our union", "max_tokens": 2}


@pytest.mark.parametrize(
    ("changes", "param", "words"),
    [
        ({"user": "me"}, "user", "no field of this request, or not supported"),
        ({"lexergy": {"candidate": 3}}, "lexergy.candidate", "no field of this request"),
        ({"presence_penalty": 0.5}, "presence_penalty", "less than or equal to 0"),
        ({"suffix": "end"}, "suffix", "None"),
        ({"prompt": ""}, "prompt", "the prompt is empty"),
        ({"prompt": []}, "prompt", "at least 1 item"),
        ({"prompt": [[]]}, "prompt", "at least 1 item"),
        ({"prompt": [10**6]}, "prompt", "another tokenizer"),
        ({"prompt": 7}, "prompt", ""),
        ({"max_tokens": 41}, "max_tokens", "at most 40"),
        ({"max_tokens": -1}, "max_tokens", "greater than or equal to 0"),
        ({"max_tokens": "9"}, "max_tokens", "valid integer"),
        ({"max_tokens": True}, "max_tokens", "valid integer"),
        ({"prompt": "our union " * 60}, "prompt", "all that the LM reads"),
        ({"temperature": 0}, "temperature", "give `best_of`"),
        ({"temperature": 1e-9}, "temperature", "expected 0, or at least 0.01"),
        ({"top_p": 0}, "top_p", "greater than 0"),
        ({"top_k": 0}, "top_k", "greater than or equal to 1"),
        ({"stop": ""}, "stop", "at least 1 item"),
        ({"stop": ["a", "b", "c", "d", "e"]}, "stop", "at most 4 items"),
        ({"n": 33}, "n", "all that the queue holds"),
        ({"best_of": 1}, "best_of", "leave it out to draw from the joint model"),
        ({"best_of": 3, "n": 4}, "best_of", "expected at least 2 and `n`"),
        ({"best_of": 301}, "best_of", "at most 300"),
        ({"best_of": 4, "stream": True}, "best_of", "the best is known when all are"),
        ({"best_of": 4, "lexergy": {"candidates": 8}}, "best_of", "leave out those of `lexergy`"),
        (
            {"lexergy": {"candidates": 250, "chunk_tokens": 40}, "max_tokens": 40},
            "lexergy.chunk_tokens",
            "at most 8000",
        ),
        ({"lexergy": {"candidates": 301}}, "lexergy.candidates", "at most 300"),
        ({"lexergy": {"max_candidates": 20}}, "lexergy.max_candidates", "expected both"),
        ({"lexergy": {"target_ess": 4, "max_candidates": 301}}, "lexergy.max_candidates", "expected 8 to 300"),
        ({"lexergy": {"target_ess": 200}}, "lexergy.target_ess", "at most 128"),
        ({"lexergy": {"method": "mcmc"}}, "lexergy", "'importance' or 'smc'"),
        ({"lexergy": {"method": "smc", "target_ess": 4}}, "lexergy.method", "beside `lexergy.target_ess`"),
        ({"lexergy": {"method": "smc"}, "best_of": 4}, "lexergy.method", "beside `best_of`"),
        ({"stream_options": {"include_usage": True}}, "stream_options", "expected both"),
    ],
)
def test_mistakes_of_a_completion(served, changes, param, words):
    response = served.post("/v1/completions", **{"model": served.joint, **GOOD, **changes})
    error = response.json()["error"]
    assert (response.status_code, error["type"], error["param"]) == (400, "invalid_request_error", param)
    assert words in error["message"]


@pytest.mark.parametrize(
    "changes",
    [
        {"lexergy": {"candidates": 4}},
        {"lexergy": {"method": "smc"}},
        {"lexergy": {"return_candidates": True}},
        {"best_of": 2},
    ],
)
def test_the_base_lm_has_no_candidates(served, changes):
    response = served.post("/v1/completions", **{"model": served.base, **GOOD, **changes})
    assert response.status_code == 400
    assert "ask a joint model" in response.json()["error"]["message"]


def test_neutral_values_of_what_is_not_supported_are_taken(served):
    neutral = {
        "presence_penalty": 0,
        "frequency_penalty": 0.0,
        "logit_bias": {},
        "suffix": None,
        "seed": None,
        "n": None,
    }
    assert served.post("/v1/completions", model=served.base, **GOOD, **neutral).status_code == 200


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"{", "application/json"),
        (b"[]", "application/json"),
        (b'"text"', "application/json"),
        (b"", "application/json"),
        (b"\xff\xfe", "application/json"),
        (b"[" * 100_000, "application/json"),
        (b'{"model": "tiny-lm", "prompt": "our"}', "text/plain"),
        (b'{"model": "tiny-lm", "prompt": "our", "seed": ' + b"9" * 5000 + b"}", "application/json"),
        (b'{"model": "tiny-lm", "prompt": "\\ud800"}', "application/json"),
        (b'{"model": "tiny-lm", "prompt": "our", "temperature": NaN}', "application/json"),
        (b'{"model": "tiny-lm", "prompt": "our", "temperature": 1e999}', "application/json"),
        (b'{"model": "tiny-lm", "prompt": "our", "\\ud800": 1}', "application/json"),
    ],
)
def test_bodies_that_are_no_requests(served, content, kind):
    response = httpx.post(f"{served.url}/v1/completions", content=content, headers={"Content-Type": kind})
    assert response.status_code == 400
    assert response.json()["error"]["type"] == "invalid_request_error"


def test_no_such_thing(served):
    missing = served.post("/v1/completions", model="gpt-4", **GOOD)
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "model_not_found")
    assert "tiny-lm+first" in missing.json()["error"]["message"]
    assert served.get("/v1/nowhere").json()["error"]["type"] == "not_found_error"
    wrong = served.get("/v1/completions")
    assert (wrong.status_code, wrong.headers["Allow"]) == (405, "POST")
    nothing = served.post("/v1/detect", input="some text")
    assert (nothing.status_code, nothing.json()["error"]["code"]) == (404, "no_detector")
