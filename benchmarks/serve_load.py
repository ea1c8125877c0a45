"""Many clients at once: nothing but answers and 429, bounded memory, and every text the same as without load.

python benchmarks/serve_load.py runs/tiny --clients 64 --seconds 120

Each client asks for one of a few requests, as soon as the last was answered; where it is told to come back later it
waits, but no longer than a second. One in ten goes away after the first chunk of a stream.
"""

import argparse
import asyncio
import itertools
import json
import random
import time
from collections import Counter
from typing import Any

import httpx
from served import ServedProcess, served

LEAVING = 0.1  # share of the requests whose client goes away


def requests_of(models: list[str]) -> list[dict[str, Any]]:
    """Different prompts, models, lengths and seeds, so that some share a batch and others do not."""
    prompts = ["our union", "the state of", "our nation is", "the people"]
    made = itertools.product(models, prompts, (4, 20), (1, 2))
    return [
        {"model": model, "prompt": prompt, "max_tokens": length, "seed": seed, "n": seed}
        for model, prompt, length, seed in made
    ]


def texts_of(answer: httpx.Response) -> list[str]:
    return [choice["text"] for choice in answer.json()["choices"]]


async def go_away(client: httpx.AsyncClient, url: str, body: dict[str, Any]) -> str:
    async with client.stream("POST", url, json=body | {"stream": True}) as answer:
        if answer.status_code == 200:
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    return "went away"
        return str(answer.status_code)


async def ask(
    number: int, url: str, asked: list[dict[str, Any]], alone: dict[str, list[str]], until: float, counts: Counter[str]
) -> None:
    chooser = random.Random(number)
    async with httpx.AsyncClient(timeout=120) as client:
        while time.monotonic() < until:
            body = chooser.choice(asked)
            if chooser.random() < LEAVING:
                counts[await go_away(client, url, body)] += 1
                continue
            answer = await client.post(url, json=body)
            counts[str(answer.status_code)] += 1
            if answer.status_code == 200:
                counts["same text" if texts_of(answer) == alone[json.dumps(body)] else "OTHER TEXT"] += 1
            elif answer.status_code == 429:
                await asyncio.sleep(min(1.0, float(answer.headers["Retry-After"])))


async def load(server: ServedProcess, clients: int, seconds: float) -> None:
    url, asked = f"{server.url}/v1/completions", requests_of(server.models())
    alone = {json.dumps(body): texts_of(httpx.post(url, json=body, timeout=120)) for body in asked}
    counts: Counter[str] = Counter()
    memory, end = [server.memory()], time.monotonic() + seconds
    asking = [asyncio.ensure_future(ask(number, url, asked, alone, end, counts)) for number in range(clients)]
    while time.monotonic() < end:
        await asyncio.sleep(seconds / 12)
        memory.append(server.memory())
    await asyncio.gather(*asking)
    print(f"{clients} clients, {seconds:g} s: {dict(sorted(counts.items()))}")
    print("resident MB over time:", *(f"{value:.0f}" for value in memory))
    for line in httpx.get(f"{server.url}/metrics").text.splitlines():
        if line.startswith(
            ("lexergy_texts ", "lexergy_batch_texts_sum", "lexergy_batch_texts_count", "lexergy_cancel")
        ):
            print(line)
    assert set(counts) <= {"200", "429", "went away", "same text"}, counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--queue", type=int, default=48)
    arguments = parser.parse_args()
    with served(arguments.run, "--candidates", "16", "--queue", str(arguments.queue)) as server:
        asyncio.run(load(server, arguments.clients, arguments.seconds))


if __name__ == "__main__":
    main()
