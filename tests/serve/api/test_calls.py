"""Candidates weighed, texts scored, texts judged, tokens told."""

import warnings
from dataclasses import replace

import pytest

from lexergy.models.scoring.causal import causal_scorer
from toys.served import serving
from toys.texts import MACHINE, written

CANDIDATES = [" is the state", " of of of", " our nation is"]


def test_rerank_is_the_joint_models_own(served):
    body = {"model": served.joint, "prompt": "our union", "candidates": CANDIDATES, "seed": 4}
    answer = served.post("/v1/rerank", **body).json()
    joint = served.catalogue.models[served.joint].joint
    expected = joint.rerank("our union", CANDIDATES, seed=4)
    assert [item["energy"] for item in answer["candidates"]] == pytest.approx([c.energy for c in expected.candidates])
    assert [item["weight"] for item in answer["candidates"]] == pytest.approx([c.weight for c in expected.candidates])
    assert (answer["best"], answer["drawn"]) == (expected.best, expected.drawn)
    assert answer["warnings"] == list(expected.warnings)
    weighed = served.post("/v1/rerank", **body | {"weigh_by": "joint"}).json()
    assert [item["weight"] for item in weighed["candidates"]] == pytest.approx(
        [c.weight for c in joint.rerank("our union", CANDIDATES, weigh_by="joint").candidates]
    )


def test_what_a_completion_lists_can_be_weighed_again(served):
    asked = {"model": served.joint, "prompt": "our union", "max_tokens": 6, "seed": 1}
    answer = served.post("/v1/completions", **asked, lexergy={"return_candidates": True}).json()
    listed = answer["choices"][0]["lexergy"]["chunks"][0]["candidates"]
    again = served.post(
        "/v1/rerank",
        model=served.joint,
        prompt="our union",
        candidates=[{"tokens": candidate["tokens"]} for candidate in listed],
    ).json()
    assert again["best"] == 0
    for first, second in zip(listed, again["candidates"], strict=True):
        assert second["energy"] == pytest.approx(first["energy"], abs=1e-4)
        assert second["weight"] == pytest.approx(first["weight"], abs=1e-4)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"candidates": []}, "at least 1 item"),
        ({"candidates": [""]}, "candidate 1 is empty"),
        ({"candidates": [{"text": "a", "log_prob": -1}, "b"]}, "expected all or none"),
        ({"candidates": [{"text": "a", "weight": 1}]}, "no field of this request"),
        ({"candidates": ["a"] * 301}, "at most 300"),
        ({"candidates": ["our union " * 60]}, "the model can read"),
        ({"prompt": ""}, "the prompt is empty"),
        ({"model": "tiny-lm"}, "expected a joint model"),
    ],
)
def test_mistakes_of_a_rerank(served, changes, words):
    body = {"model": served.joint, "prompt": "our union", "candidates": CANDIDATES, **changes}
    response = served.post("/v1/rerank", **body)
    assert response.status_code == 400
    assert words in response.json()["error"]["message"]


def test_score_is_the_base_lms(served):
    texts = ["our union is the state", "of"]
    answer = served.post("/v1/score", model=served.base, input=texts).json()
    expected = causal_scorer(served.catalogue.lm).score(texts)
    assert [item["log_score"] for item in answer["data"]] == pytest.approx([score.log_score for score in expected])
    assert "".join(token["text"] for token in answer["data"][0]["tokens"]) == texts[0]
    assert answer["kind"] == "log-likelihood"
    alone = served.post("/v1/score", model=served.base, input=texts[0]).json()
    assert alone["data"][0]["log_score"] == pytest.approx(answer["data"][0]["log_score"])
    joint = served.post("/v1/score", model=served.joint, input="x")
    assert (joint.status_code, "/v1/rerank" in joint.json()["error"]["message"]) == (400, True)
    assert served.post("/v1/score", model="none", input="x").status_code == 404
    assert served.post("/v1/score", model=served.base, input="our union " * 9000).status_code == 400


def test_detect(tiny_catalogue, states_detector):
    with serving(lambda: replace(tiny_catalogue, detector=states_detector)) as server:
        text = written(MACHINE, 3)
        first, second = server.post("/v1/detect", input=[text, "a"], prior=0.2).json()["data"]
        (expected,) = states_detector.detect([text], prior=0.2)
        assert (first["probability"], first["energy"]) == pytest.approx((expected.probability, expected.energy))
        assert [span["end"] for span in first["spans"]] == [span.end for span in expected.spans]
        assert "expected at least 2" in second["error"]
        assert server.post("/v1/detect", input=text, prior=1).status_code == 400


def test_tokenize(served):
    answer = served.post("/tokenize", prompt="our union", model=served.joint).json()
    assert answer["tokens"] == served.catalogue.lm.encode("our union").tolist()
    assert (answer["count"], answer["max_model_len"]) == (len(answer["tokens"]), 48)
    with warnings.catch_warnings(action="error"):
        assert served.post("/tokenize", prompt="").json()["tokens"] == []
