"""The LM of a run, evaluated by lm-eval beside the joint model, on equal terms."""

from collections import defaultdict
from collections.abc import Sequence

import torch
from lm_eval.api.instance import Instance

from lexergy.models.causal.lm import weights_of
from lexergy.models.causal.top_log_probs import greedy_log_probs
from lexergy.models.joint.likelihood import Given
from lexergy.models.joint.sampling import text_of
from lexergy.progress import progress_bar
from lexergy.tasks.harness.run_lm import RunLM


class BaseLM(RunLM):
    """The run's LM alone, on the same tokens and in the same chunks."""

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        """log P_LM of each continuation, and whether greedy decoding writes it."""
        return self._log_probs(self.encode(requests), "base LM, continuations")

    def loglikelihood_rolling(self, requests: list[Instance]) -> list[float]:
        """The sum of log P_LM over a text's chunks, whose contexts are those of the joint model."""
        texts = [self.chunks_of(request.args[0]) for request in requests]
        values = iter(self._log_probs([chunk for chunks in texts for chunk in chunks], "base LM, chunks"))
        return [sum(next(values)[0] for _ in chunks) for chunks in texts]

    def generate_until(self, requests: list[Instance]) -> list[str]:
        """A plain sample of the LM, the joint model's first candidate; greedy decoding where that is asked for."""
        lm = self.joint.stopping(None).lm
        texts = []
        with progress_bar("base LM, texts", len(requests), self.settings.progress) as bar:
            for prompt, wanted, seed in self.texts_wanted(requests):
                samples = lm.sample(
                    torch.tensor([prompt]),
                    num_samples=1,
                    max_new_tokens=wanted.max_new_tokens,
                    stop=wanted.stop,
                    seed=seed,
                    **wanted.decoding,
                )
                texts.append(text_of(lm, samples.tokens[0, 0, : int(samples.lengths)], wanted.stop))
                bar.advance(1)
        return texts

    def _log_probs(self, given: Sequence[Given], label: str) -> list[tuple[float, bool]]:
        results: list[tuple[float, bool]] = [(0.0, False)] * len(given)
        shapes = defaultdict(list)
        for place, item in enumerate(given):
            shapes[len(item.prefix), len(item.continuation)].append(place)
        with progress_bar(label, len(given), self.settings.progress) as bar:
            for (prefix_length, _), places in shapes.items():
                rows = torch.tensor([given[place].prefix + given[place].continuation for place in places])
                log_prob, is_greedy = greedy_log_probs(weights_of(self.lm), rows, prefix_length)
                for place, pair in zip(places, zip(log_prob.tolist(), is_greedy.tolist(), strict=True), strict=True):
                    results[place] = pair
                bar.advance(len(places))
        return results
