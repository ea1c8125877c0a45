"""Completions over HTTP, against the models themselves and against the exact distribution."""

import re
import warnings

import pytest
import torch

from lexergy.testing import chi_square_p_value, exact_log_prob, joint_log_prob
from toys.joint import index, table

PROMPT = "our union"


def test_models_are_named_for_what_they_are(served):
    cards = {card["id"]: card["lexergy"] for card in served.get("/v1/models").json()["data"]}
    assert list(cards) == ["tiny-lm", "tiny-lm+first", "tiny-lm+second"]
    assert cards["tiny-lm"]["kind"] == "base LM"
    assert cards["tiny-lm"]["description"] == "trained in this run"
    assert cards["tiny-lm+second"] | {"kind": "joint model", "energy": "second"} == cards["tiny-lm+second"]
    assert served.get("/v1/models/tiny-lm+first").json()["id"] == "tiny-lm+first"
    assert served.get("/v1/models/none").status_code == 404


def test_a_completion_is_the_joint_models_own(served):
    body = {"model": served.joint, "prompt": PROMPT, "max_tokens": 8, "seed": 5, "lexergy": {"candidates": 32}}
    answer = served.post("/v1/completions", **body).json()
    joint = served.catalogue.models[served.joint].joint
    with warnings.catch_warnings(action="ignore"):
        expected = joint.generate(PROMPT, num_candidates=32, max_new_tokens=8, seed=5)
    (choice,) = answer["choices"]
    assert choice["text"] == expected.text
    assert choice["finish_reason"] == "length"
    assert choice["lexergy"]["ess"] == pytest.approx(expected.ess)
    assert choice["lexergy"]["pareto_k"] == pytest.approx(expected.pareto_k, nan_ok=True)
    assert choice["lexergy"]["energy"] == pytest.approx(expected.candidates[expected.chosen].energy)
    assert answer["lexergy"]["warnings"] == list(expected.warnings)
    assert answer["usage"] == {"prompt_tokens": 3, "completion_tokens": 8, "total_tokens": 11}
    assert answer["lexergy"]["sampled_tokens"] == 32 * 8
    base = served.post("/v1/completions", **body | {"model": served.base, "lexergy": {}}).json()
    assert base["choices"][0]["text"] == expected.base.text
    assert base["lexergy"]["drawn"] == "base LM"


def test_a_completion_by_smc_is_the_joint_models_own(served):
    extension = {"candidates": 32, "method": "smc", "return_candidates": True}
    body = {"model": served.joint, "prompt": PROMPT, "max_tokens": 8, "seed": 5, "lexergy": extension}
    answer = served.post("/v1/completions", **body).json()
    joint = served.catalogue.models[served.joint].joint
    with warnings.catch_warnings(action="ignore"):
        expected = joint.generate(PROMPT, num_candidates=32, max_new_tokens=8, seed=5, method="smc")
    (choice,) = answer["choices"]
    (chunk,) = choice["lexergy"]["chunks"]
    assert choice["text"] == expected.text
    assert chunk["num_ancestors"] == expected.num_ancestors
    assert chunk["ess"] == pytest.approx(expected.ess)
    assert answer["lexergy"]["warnings"] == list(expected.warnings)
    weights = [candidate["weight"] for candidate in chunk["candidates"]]
    assert weights == pytest.approx([candidate.weight for candidate in expected.candidates], abs=1e-6)
    assert sum(weights) == pytest.approx(1)
    several = served.post("/v1/completions", **body, n=3).json()["choices"]
    assert several[0]["text"] == expected.text
    plain = served.post("/v1/completions", **body | {"lexergy": {"method": "importance"}}).json()["choices"][0]
    assert plain["lexergy"]["chunks"][0]["num_ancestors"] is None


def test_smc_needs_an_energy_of_unfinished_texts(served_exact):
    body = {"model": served_exact.joint, "prompt": [3], "max_tokens": 2, "lexergy": {"method": "smc"}}
    response = served_exact.post("/v1/completions", **body)
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (400, "lexergy.method")
    assert "reads whole texts only" in error["message"]


def test_a_long_completion_is_written_in_the_chunks_of_generate_long(served):
    body = {"model": served.joint, "prompt": PROMPT, "max_tokens": 24, "seed": 3}
    (choice,) = served.post("/v1/completions", **body).json()["choices"]
    joint = served.catalogue.models[served.joint].joint
    with warnings.catch_warnings(action="ignore"):
        expected = joint.generate_long(PROMPT, num_chunks=3, chunk_tokens=8, num_candidates=8, seed=3)
    assert choice["text"] == expected.text
    assert [chunk["energy"] for chunk in choice["lexergy"]["chunks"]] == pytest.approx(
        [chunk.energy for chunk in expected.chunks]
    )


def test_http_returns_the_exact_joint_distribution(served_exact, exact_joint):
    # Chi-square over 300 draws of 128 candidates; a right server fails with probability 1e-4.
    counts = torch.zeros(49)
    for seed in range(3):
        answer = served_exact.post(
            "/v1/completions",
            model=served_exact.joint,
            prompt=[3],
            max_tokens=2,
            n=100,
            seed=seed,
            lexergy={"candidates": 128},
        ).json()
        for choice in answer["choices"]:
            (chunk,) = choice["lexergy"]["chunks"]
            counts[index(chunk["tokens"])] += 1
    prefix = torch.tensor([3])
    assert chi_square_p_value(counts, joint_log_prob(exact_joint.lm, table(exact_joint), prefix, 2).exp()) > 1e-4
    wrong_sign = joint_log_prob(exact_joint.lm, lambda rows: -table(exact_joint)(rows), prefix, 2).exp()
    assert chi_square_p_value(counts, wrong_sign) < 1e-9
    assert chi_square_p_value(counts, exact_log_prob(exact_joint.lm, prefix, 2).exp()) < 1e-9


def test_choices_are_draws_of_their_own_and_the_seed_decides_them(served):
    body = {"model": served.joint, "prompt": PROMPT, "max_tokens": 6, "n": 4, "seed": 1}
    first, again = (served.post("/v1/completions", **body).json() for _ in range(2))
    texts = [choice["text"] for choice in first["choices"]]
    assert [choice["text"] for choice in again["choices"]] == texts
    assert len(set(texts)) == 4
    assert [choice["index"] for choice in first["choices"]] == [0, 1, 2, 3]
    fewer = served.post("/v1/completions", **body | {"n": 2}).json()
    assert [choice["text"] for choice in fewer["choices"]] == texts[:2]
    unseeded = [served.post("/v1/completions", **body | {"seed": None}).json() for _ in range(2)]
    assert unseeded[0]["lexergy"]["seed"] != unseeded[1]["lexergy"]["seed"]


def test_best_of_is_the_lowest_energy(served):
    body = {"model": served.joint, "prompt": PROMPT, "max_tokens": 12, "seed": 2}
    best = served.post("/v1/completions", **body, best_of=40, n=3).json()
    listed = {"candidates": 40, "return_candidates": True, "chunk_tokens": 12}
    drawn = served.post("/v1/completions", **body, lexergy=listed).json()
    candidates = drawn["choices"][0]["lexergy"]["chunks"][0]["candidates"]
    assert [choice["text"] for choice in best["choices"]] == [candidate["text"] for candidate in candidates[:3]]
    assert best["lexergy"]["drawn"] == "lowest energy"
    nothing = served.post("/v1/completions", **body | {"max_tokens": 0}, best_of=4, n=2).json()
    assert [choice["text"] for choice in nothing["choices"]] == ["", ""]
    assert sum(candidate["weight"] for candidate in candidates) == pytest.approx(1)


def test_candidates_grow_towards_a_target(served):
    body = {"model": served.joint, "prompt": PROMPT, "max_tokens": 4, "seed": 2, "n": 2}
    target = {"candidates": 4, "target_ess": 12, "max_candidates": 256}
    together = served.post("/v1/completions", **body, lexergy=target).json()["choices"]
    assert all(choice["lexergy"]["ess"] >= 12 for choice in together)
    alone = served.post("/v1/completions", **body | {"n": 1}, lexergy=target).json()["choices"]
    assert alone[0]["lexergy"] == together[0]["lexergy"]


def test_texts_stop_at_strings_and_at_their_end(served):
    body = {"model": served.base, "prompt": PROMPT, "max_tokens": 40, "seed": 4}
    whole = served.post("/v1/completions", **body).json()["choices"][0]["text"]
    word = re.search("[a-z]{2}", whole[12:]).group()
    choice = served.post("/v1/completions", **body, stop=[word, "never said"]).json()["choices"][0]
    # The chunk in which a text stops is drawn to its end: those before it are as they were.
    assert choice["text"] == whole[: whole.index(word)]
    assert choice["finish_reason"] == "stop"
    many = served.post("/v1/completions", **body, n=16, lexergy={"stop_at_end": True}).json()["choices"]
    assert {choice["finish_reason"] for choice in many} == {"stop", "length"}
    assert not any("<|endoftext|>" in choice["text"] for choice in many)


def test_prompts_are_texts_or_tokens_one_or_many(served):
    tokens = served.post("/tokenize", prompt=PROMPT).json()["tokens"]
    other = served.post("/tokenize", prompt="the state of").json()["tokens"]
    body = {"model": served.base, "max_tokens": 5, "seed": 0, "n": 2}
    texts = served.post("/v1/completions", prompt=[PROMPT, "the state of"], **body).json()["choices"]
    ids = served.post("/v1/completions", prompt=[tokens, other], **body).json()["choices"]
    assert [choice["text"] for choice in texts] == [choice["text"] for choice in ids]
    alone = served.post("/v1/completions", prompt=tokens, **body).json()["choices"]
    assert alone == texts[:2]


def test_log_probs_are_the_base_lms(served):
    body = {"prompt": PROMPT, "max_tokens": 8, "seed": 1, "logprobs": 3, "temperature": 0.5}
    answer = served.post("/v1/completions", model=served.joint, **body).json()["choices"][0]
    model = served.catalogue.models[served.joint]
    with warnings.catch_warnings(action="ignore"):
        written = model.joint.generate(PROMPT, 8, 8, temperature=0.5, seed=1).tokens
    prompt = model.lm.encode(PROMPT)
    exact = model.lm.token_log_prob(torch.cat((prompt, written))[None], prefix_length=len(prompt))[0]
    told = answer["logprobs"]
    assert told["token_logprobs"] == pytest.approx(exact.tolist(), abs=1e-4)
    likeliest = model.lm.next_log_prob(prompt[None])[0].topk(3).values
    assert sorted(told["top_logprobs"][0].values(), reverse=True) == pytest.approx(likeliest.tolist(), abs=1e-4)
    assert told["text_offset"][0] == 0


def test_a_prompt_can_be_scored_without_writing(served):
    body = {"prompt": "our union is the state", "max_tokens": 0, "logprobs": 0, "echo": True}
    answer = served.post("/v1/completions", model=served.base, **body).json()
    choice = answer["choices"][0]
    assert choice["text"] == body["prompt"]
    assert choice["finish_reason"] == "length"
    lm = served.catalogue.lm
    tokens = lm.encode(body["prompt"])
    exact = lm.token_log_prob(tokens[None], prefix_length=1)[0].tolist()
    told = choice["logprobs"]
    assert told["token_logprobs"][0] is None
    assert told["token_logprobs"][1:] == pytest.approx(exact, abs=1e-4)
    assert [
        choice["text"][place:][: len(word)] for place, word in zip(told["text_offset"], told["tokens"], strict=True)
    ] == (told["tokens"])
    assert answer["usage"]["completion_tokens"] == 0
    more = served.post("/v1/completions", model=served.base, **body | {"max_tokens": 4, "seed": 1}).json()["choices"][0]
    assert more["text"].startswith(body["prompt"])
    assert len(more["logprobs"]["tokens"]) == len(tokens) + 4


def test_a_prompt_is_scored_by_its_ids_though_it_is_no_text(served):
    lm = served.catalogue.lm
    prompt = torch.randint(4, lm.vocab_size, (10,), generator=torch.Generator().manual_seed(0)).tolist()
    body = {"model": served.base, "prompt": prompt, "max_tokens": 0, "prompt_logprobs": 2}
    first, *told = served.post("/v1/completions", **body).json()["choices"][0]["prompt_logprobs"]
    exact = lm.token_log_prob(torch.tensor([prompt]), prefix_length=1)[0].tolist()
    assert first is None
    scores = [likely[str(token)]["logprob"] for token, likely in zip(prompt[1:], told, strict=True)]
    assert scores == pytest.approx(exact, abs=1e-4)
    assert all(len(likely) in (2, 3) for likely in told)
    assert served.post("/v1/completions", **body, logprobs=1).status_code == 400


def test_greedy_is_the_base_lms(served):
    texts = {
        served.post("/v1/completions", model=served.base, prompt=PROMPT, temperature=0).json()["choices"][0]["text"]
        for _ in range(2)
    }
    assert len(texts) == 1
