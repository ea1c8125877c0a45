"""The joint model of a run, evaluated by lm-eval: never the base LM's number under its name."""

import warnings
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from lm_eval.api.instance import Instance

from lexergy.core.conditions import is_unlike
from lexergy.errors import LexergyError
from lexergy.models.joint.likelihood import Given, estimate_log_z, score_given, text_bounds
from lexergy.models.joint.model import ResidualEBM
from lexergy.progress import progress_bar
from lexergy.tasks.harness.generation import check_joint
from lexergy.tasks.harness.run_lm import HarnessSettings, RunLM
from lexergy.tasks.harness.treatment import Kind, Treatment, treatment


class NotKnown:
    """Whether greedy decoding of the joint model would write a text: nobody knows, so nobody may use it."""

    def __int__(self) -> int:
        raise LexergyError(
            "the metric asks whether greedy decoding writes the text, which is not known of the joint model; "
            "take that metric out of the task, or evaluate the base LM alone."
        )

    __bool__ = __int__  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "not known"


class JointLM(RunLM):
    """The joint model, log P(x | prefix) = log P_LM(x | prefix) - E(prefix, x) - log Z(prefix, length)."""

    def __init__(self, joint: ResidualEBM, settings: HarnessSettings) -> None:
        super().__init__(joint, settings)
        self.treatments: list[Treatment] = []
        self._lengths: list[tuple[int, int]] = []  # of prefixes and continuations that the energy read

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, Any]]:
        """log P of each continuation among all of its length, with T_n for log Z.

        Where an item's requests have one prefix and one length, and its task only compares them, log Z is left out.
        Greedy decoding is not known of the joint model. lm-eval asks for it of every item with choices, whether or not
        a metric needs it: there the answer is False, and `lexergy lm-eval` refuses metrics that need it.
        """
        settings, given = self.settings, self.encode(requests)
        scored = score_given(self.joint, given, progress=settings.progress)
        items = _by_item(requests)
        cancels = {place for places in items.values() if self._cancels(requests, given, places) for place in places}
        estimated = [place for place in range(len(given)) if place not in cancels]
        log_z = estimate_log_z(
            self.joint,
            (given[place].space for place in estimated),
            num_samples=settings.num_samples,
            seed=settings.seed,
            progress=settings.progress,
        )
        self._lengths += [(len(item.prefix), len(item.continuation)) for item in given]
        for task, places in _by_task(requests).items():
            without = [place for place in places if place in cancels]
            spaces = {given[place].space for place in places if place not in cancels}
            if without:
                self.treatments.append(treatment(task, Kind.CANCELS, len(without)))
            if spaces:
                weights = [(log_z[space].ess, log_z[space].pareto_k) for space in spaces]
                count = len(places) - len(without)
                self.treatments.append(treatment(task, Kind.ESTIMATED, count, settings.num_samples, weights))
        values = [
            score.log_score - (0.0 if place in cancels else log_z[given[place].space].value)
            for place, score in enumerate(scored)
        ]
        alone = {
            place
            for places in items.values()
            if len({requests[place].idx for place in places}) == 1
            for place in places
        }
        return [(value, NotKnown() if place in alone else False) for place, value in enumerate(values)]

    def _cancels(self, requests: Sequence[Instance], given: Sequence[Given], places: Sequence[int]) -> bool:
        """Whether the choices of an item differ in their text alone: at least two after each prefix, of one length."""
        compared = self.settings.compared
        if compared is not None and requests[places[0]].task_name not in compared:
            return False
        choices = {(requests[place].idx, given[place]) for place in places}  # a request may be repeated
        spaces = Counter(choice.space for _, choice in choices)
        one_length = len(spaces) == len({space.prefix for space in spaces})
        return one_length and min(spaces.values()) > 1

    def loglikelihood_rolling(self, requests: list[Instance]) -> list[float]:
        """What a text has at least, in expectation, when Algorithm 1 writes it chunk by chunk from n candidates."""
        texts = [self.chunks_of(request.args[0]) for request in requests]
        chunks = [chunk for chunks in texts for chunk in chunks]
        self._lengths += [(len(chunk.prefix), len(chunk.continuation)) for chunk in chunks]
        settings = self.settings
        bounds = iter(
            text_bounds(
                self.joint, chunks, num_samples=settings.num_samples, seed=settings.seed, progress=settings.progress
            )
        )
        by_text = [[next(bounds) for _ in chunks] for chunks in texts]
        for task, places in _by_task(requests).items():
            weights = [(bound.ess, float("nan")) for place in places for bound in by_text[place]]
            self.treatments.append(treatment(task, Kind.BOUND, len(places), settings.num_samples, weights))
        return [sum(bound.bound for bound in own) for own in by_text]

    def generate_until(self, requests: list[Instance]) -> list[str]:
        """A draw of Algorithm 1 from n candidates of the LM, stopped at its strings."""
        texts, weights = [], []
        with progress_bar("joint model, texts", len(requests), self.settings.progress) as bar:
            for prompt, wanted, seed in self.texts_wanted(requests):
                check_joint(wanted)
                with warnings.catch_warnings(action="ignore"):  # told once, in `notes` and `treatments`
                    drawn = self.joint.generate(
                        prompt,
                        num_candidates=self.settings.num_candidates,
                        max_new_tokens=wanted.max_new_tokens,
                        stop=wanted.stop,
                        seed=seed,
                        **wanted.decoding,
                    )
                self._lengths.append((len(prompt), wanted.max_new_tokens))
                texts.append(drawn.text)
                weights.append((drawn.ess, drawn.pareto_k))
                bar.advance(1)
        for task, places in _by_task(requests).items():
            own = [weights[place] for place in places]
            self.treatments.append(treatment(task, Kind.RESAMPLED, len(places), self.settings.num_candidates, own))
        return texts

    @property
    def notes(self) -> list[str]:
        trained = self.joint.trained_on
        if trained is None:
            return super().notes
        unlike = [
            lengths
            for lengths in self._lengths
            if is_unlike(lengths[0], trained.prefix) or is_unlike(lengths[1], trained.continuation)
        ]
        if not unlike:
            return super().notes
        prefix, continuation = Counter(unlike).most_common(1)[0][0]
        return [
            *super().notes,
            f"the energy was trained on prefixes of {trained.prefix} tokens and continuations of "
            f"{trained.continuation}; {len(unlike)} of {len(self._lengths)} texts here are unlike that, most often "
            f"{prefix} and {continuation}",
        ]

    def get_model_info(self) -> dict[str, Any]:
        info = super().get_model_info()
        info["lexergy"]["treatments"] = [asdict(item) | {"doubt": item.doubt} for item in self.treatments]
        return info


def _by_item(requests: Sequence[Instance]) -> Mapping[tuple, list[int]]:
    places = defaultdict(list)
    for place, request in enumerate(requests):
        places[request.task_name, request.doc_id].append(place)
    return places


def _by_task(requests: Sequence[Instance]) -> Mapping[str, list[int]]:
    places = defaultdict(list)
    for place, request in enumerate(requests):
        places[str(request.task_name)].append(place)
    return places
