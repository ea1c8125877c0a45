"""A run as a model of lm-eval: requests in tokens, chunks of texts, what is to be told. Needs the extra `lm-eval`."""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.utils import simple_parse_args_string

from lexergy.errors import LexergyError
from lexergy.models.causal.language_model import LanguageModel
from lexergy.models.joint.likelihood import Given, chunked
from lexergy.models.joint.model import ResidualEBM
from lexergy.runs.records import load_run
from lexergy.tasks.harness.encoding import encode_pair, encode_text, start_tokens
from lexergy.tasks.harness.generation import Wanted, wanted_of
from lexergy.tasks.residual.context import RunContext


@dataclass(frozen=True)
class HarnessSettings:
    """How a run is evaluated.

    `compared` are the tasks whose metrics only compare the choices of an item, so that log Z may be left out where it
    cancels; None: all tasks. Texts of `loglikelihood_rolling` are cut into chunks of `chunk_tokens` after at most
    `context_tokens`; unless given, both as in the energy's training.
    """

    num_samples: int = 128
    num_candidates: int = 64
    seed: int = 0
    chunk_tokens: int | None = None
    context_tokens: int | None = None
    compared: Collection[str] | None = ()
    progress: bool = False


class RunLM(LM):
    """What the models of a run have in common: requests in tokens, chunks of texts, what is to be told."""

    def __init__(self, joint: ResidualEBM, settings: HarnessSettings) -> None:
        super().__init__()
        self.joint, self.settings = joint, settings
        self.counts: Counter[str] = Counter()
        self._asked: Counter[str] = Counter()
        self._chunks: set[tuple[int, int]] = set()  # lengths of chunks and of their contexts

    @property
    def lm(self) -> LanguageModel:
        return self.joint.lm

    @classmethod
    def create_from_arg_obj(cls, arg_dict: dict, additional_config: dict | None = None) -> "RunLM":
        """From `--model_args run=FOLDER,energy=NAME,log_z=estimate|cancel,samples=...,candidates=...,seed=...`."""
        given = {"energy": None, "log_z": "estimate", "samples": 128, "candidates": 64, "seed": 0} | arg_dict
        unknown = set(given) - {"run", "energy", "log_z", "samples", "candidates", "seed"}
        if unknown or "run" not in given or given["log_z"] not in ("estimate", "cancel"):
            raise LexergyError(
                f"the model arguments are {arg_dict}; expected `run=FOLDER` and, where wanted, energy, log_z "
                "(estimate or cancel), samples, candidates, seed."
            )
        if (additional_config or {}).get("device"):
            raise LexergyError(
                "`device` was given; a run takes a GPU where there is one; set CUDA_VISIBLE_DEVICES instead."
            )
        # lm-eval always hands on a batch size, by default 1; rows are batched by what fits into memory here.
        settings = HarnessSettings(
            num_samples=given["samples"],
            num_candidates=given["candidates"],
            seed=given["seed"],
            compared=None if given["log_z"] == "cancel" else (),
            progress=True,
        )
        return cls(load_joint(given["run"], given["energy"]), settings)

    @classmethod
    def create_from_arg_string(cls, arg_string: str, additional_config: dict | None = None) -> "RunLM":
        return cls.create_from_arg_obj(simple_parse_args_string(arg_string), additional_config)

    def encode(self, requests: Sequence[Instance]) -> list[Given]:
        encoded = [encode_pair(self.lm, *request.args) for request in requests]
        self.counts["cut"] += sum(item.was_cut for item in encoded)
        self.counts["split"] += sum(item.was_split for item in encoded)
        return [item.given for item in encoded]

    def chunks_of(self, text: str) -> list[Given]:
        trained, settings = self.joint.trained_on, self.settings
        chunk = settings.chunk_tokens or (trained.continuation if trained else None)
        context = settings.context_tokens or (trained.prefix if trained else None)
        if chunk is None or context is None:
            raise LexergyError(
                "nobody knows on which lengths the energy was trained; expected `chunk_tokens` and `context_tokens` in "
                "the settings, so that texts can be cut for `loglikelihood_rolling`."
            )
        ids = encode_text(self.lm, text)
        self._chunks.add((chunk, context))
        return chunked(ids, start_tokens(self.lm), chunk_tokens=chunk, context_tokens=context)

    def texts_wanted(self, requests: Sequence[Instance]) -> Iterator[tuple[list[int], Wanted, int]]:
        """Prompt, what is asked for, and a seed of its own, the same whatever else is asked."""
        for request in requests:
            context, generation_kwargs = request.args
            wanted = wanted_of(generation_kwargs)
            ids = encode_text(self.lm, context) if context.strip() else start_tokens(self.lm)
            longest = len(ids) if self.lm.max_length is None else self.lm.max_length - wanted.max_new_tokens
            if longest < min(1, len(ids)):
                raise LexergyError(
                    f"{wanted.max_new_tokens} tokens are to be written; expected fewer than the {self.lm.max_length} "
                    "that the LM can read; lower them with `--gen-kwargs max_gen_toks=64`."
                )
            self.counts["cut"] += len(ids) > longest
            key = repr((context, wanted))
            address = f"{self.settings.seed} {self._asked[key]} {key}"  # an item asked for again is drawn anew
            self._asked[key] += 1
            yield (
                ids[max(0, len(ids) - longest) :],
                wanted,
                int.from_bytes(hashlib.sha256(address.encode()).digest()[:7]),
            )

    @property
    def notes(self) -> list[str]:
        """What a reader of the numbers should know."""
        told = {
            "cut": "contexts were longer than the LM reads and lost their beginning",
            "split": "continuations were encoded alone, since a token would have lain across their beginning",
        }
        return [
            *(f"{self.counts[name]} {text}" for name, text in told.items() if self.counts[name]),
            *(
                f"whole texts were read in chunks of {chunk} tokens after at most {context} of context, base LM and "
                "joint model alike; with a longer context the base LM would do better"
                for chunk, context in self._chunks
            ),
        ]

    def get_model_info(self) -> dict[str, Any]:
        """What lm-eval puts beside its results."""
        return {"lexergy": {"model": type(self).__name__, "lm": self.lm.name, "notes": self.notes}}


def load_joint(run: Any, energy: str | None = None) -> ResidualEBM:
    """The joint model of a finished run, of its first energy unless one is named."""
    result = load_run(run)
    name = energy or next(iter(result.energies))
    if name not in result.energies:
        raise LexergyError(f"the energy is {name}; expected one of {', '.join(result.energies)}, those of {run}.")
    return RunContext(result.recipe, result.folder).joint(name)
