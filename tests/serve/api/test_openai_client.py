"""OpenAI's own client against a served run."""

from collections.abc import Iterator

import openai
import pytest


@pytest.fixture(scope="module")
def client(served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def test_completions(client, served):
    assert [model.id for model in client.models.list()] == ["tiny-lm", "tiny-lm+first", "tiny-lm+second"]
    asked = {"model": served.joint, "prompt": "our union", "max_tokens": 10, "n": 2, "seed": 7, "stop": ["zz"]}
    first, again = (
        client.completions.create(**asked, extra_body={"top_k": 50, "lexergy": {"candidates": 16}}) for _ in range(2)
    )
    assert [choice.text for choice in first.choices] == [choice.text for choice in again.choices]
    assert first.usage.completion_tokens == 20
    assert first.choices[0].lexergy["ess"] > 1
    assert first.system_fingerprint == again.system_fingerprint
    stream = client.completions.create(**asked, extra_body={"top_k": 50, "lexergy": {"candidates": 16}}, stream=True)
    texts = ["", ""]
    for event in stream:
        for choice in event.choices:
            texts[choice.index] += choice.text
    assert texts == [choice.text for choice in first.choices]


def test_chat(client, served):
    messages = [
        {"role": "system", "content": "our union"},
        {"role": "user", "content": [{"type": "text", "text": "is"}]},
    ]
    asked = {"model": served.joint, "messages": messages, "max_completion_tokens": 9, "seed": 1}
    answer = client.chat.completions.create(**asked, logprobs=True, top_logprobs=2)
    message = answer.choices[0].message
    assert message.role == "assistant"
    assert all(len(token.top_logprobs) == 2 for token in answer.choices[0].logprobs.content)
    stream = client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    events = list(stream)
    assert "".join(event.choices[0].delta.content for event in events if event.choices) == message.content
    assert events[0].choices[0].delta.role == "assistant"
    assert events[-1].usage == answer.usage
    finishes = [event.choices[0].finish_reason for event in events if event.choices]
    assert finishes[-1] == answer.choices[0].finish_reason
    assert set(finishes[:-1]) <= {None}


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"max_tokens": 10**6}, openai.BadRequestError),
        ({"user": "me"}, openai.BadRequestError),
        ({"model": "gpt-4"}, openai.NotFoundError),
    ],
)
def test_errors_are_the_clients_own(client, served, changes, error):
    with pytest.raises(error) as caught:
        client.completions.create(**{"model": served.base, "prompt": "our", "max_tokens": 2, **changes})
    assert caught.value.body["message"]
    assert caught.value.type in ("invalid_request_error", "not_found_error")
