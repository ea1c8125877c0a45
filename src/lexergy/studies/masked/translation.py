"""What the studies of Sections 6.6 to 6.8 share: samplers of translations, followed on the same test sentences."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import torch

from lexergy.core.decoding import Decoding
from lexergy.core.estimation.corpus import corpus_difference, corpus_estimate
from lexergy.core.estimation.findings import Estimate, Finding, Verdict, mean
from lexergy.core.mcmc.diagnostics import MIXED_R_HAT, mixing
from lexergy.core.mcmc.sweeps import Schedule
from lexergy.core.text_measures.text_metrics import metric_named
from lexergy.recipes.masked import TranslationRecipe
from lexergy.studies.study import Opener, Settings, Size
from lexergy.tasks.masked.mcmc import Sampling
from lexergy.tasks.masked.starts import StartName
from lexergy.tasks.masked.translation import TranslationLaboratory, open_translation
from lexergy.tasks.masked.translation_walks import Translating, Walk

TRANSLATION = Opener(TranslationRecipe, open_translation, "test sentences")
SIZES = {
    "cpu": Size("translation-cpu", {"sentences": 100, "chains": 4, "sweeps": 80, "burn_in": 20}),
    "paper": Size("paper/translation", {"sentences": 1000, "chains": 4, "sweeps": 80, "burn_in": 20}),
}
COOLED_SIZES = {  # 0.02 per sweep ends at temperature 0.02; the whole test set
    "cpu": Size("translation-cpu", {"sentences": 875, "chains": 1, "sweeps": 50, "burn_in": 0}),
    "paper": Size("paper/translation", {"sentences": 3000, "chains": 1, "sweeps": 50, "burn_in": 0}),
}
FIRST_BLOCK = 4  # positions, falling to 1
ENOUGH_MIXED = 0.9  # of the sentences
SIMILAR_BLEU = 3.0  # about as far apart as the thesis's numbers of samplers that it calls similar
MODEL_METHOD = (
    "A conditional masked LM (encoder, masked decoder, predicted length) is trained on short sentences of Tatoeba, "
    "German to English, where the thesis takes the WMT'14 models of Ghazvininejad et al. 2019, trained on distilled "
    "data. No sentence of either language is in both training and test set. MH proposes each position once per sweep, "
    "in random order, from the masked conditionals and accepts by the locally normalised energy (norm) or by the raw "
    "one (raw); degenerate Gibbs takes every proposal. Energies are locally normalised throughout; those of the thesis "
    "are sums over its data. BLEU is sacreBLEU's."
)
METHOD = (
    f"{MODEL_METHOD} The chains of a sentence start far apart: at the greedy translation of the likeliest length, "
    "where the thesis starts them all, at Mask-Predict's, at tokens drawn uniformly from the vocabulary, and after two "
    "sweeps of Gibbs sampling at temperature 2. R-hat is rank-normalised split R-hat of E_norm after the burn-in, "
    f"sentence by sentence; a sampler counts as mixed where at least {ENOUGH_MIXED:.0%} of the sentences are below "
    f"{MIXED_R_HAT:g}. An energy or a BLEU of chains that have not mixed is that of where they happened to be: no "
    "comparison of such is decided. BLEU is of all samples after the burn-in as one corpus."
)
BLOCK_METHOD = (
    f"Blocks of {FIRST_BLOCK} positions are proposed together, and smaller ones from sweep to sweep, down to single "
    "positions; the thesis does not print its sizes."
)
COOLING_METHOD = (
    "The target is exp(-E / T), where T starts at 1 and falls by a fixed amount per sweep, to 0.02, where it stays. "
    "One chain per sentence, from the greedy translation. A cooled chain samples no distribution, so that there is no "
    "R-hat."
)

Kind: TypeAlias = Literal["norm", "raw", "deg"]
LABELS: dict[Kind, str] = {"norm": "MH, norm", "raw": "MH, raw", "deg": "degenerate Gibbs"}


class Sampler(NamedTuple):
    """A sampler as the thesis names it: `norm` and `raw` are Metropolis-Hastings on these energies."""

    kind: Kind
    temperature: float = 1.0  # of the proposals
    top_p: float | None = None
    blocks: bool = False
    cooling: float = 0.0
    start: StartName = "dispersed"
    descend: bool = False

    @property
    def name(self) -> str:
        """Its kind, and what differs from the default."""
        changed = [
            f"-{field}-{value}"
            for field, value in self._asdict().items()
            if field != "kind" and value != self._field_defaults[field]
        ]
        return "".join([self.kind, *changed])

    @property
    def label(self) -> str:
        """For a sentence."""
        nucleus = "" if self.top_p is None else f", nucleus {self.top_p:g}"
        return f"{LABELS[self.kind]} (temperature {self.temperature:g}{nucleus}{', blocks' if self.blocks else ''})"

    def translating(self, settings: Settings) -> Translating:
        return Translating(self.sampling(settings), settings["sentences"], self.descend)

    def sampling(self, settings: Settings) -> Sampling:
        return Sampling(
            schedule=Schedule(
                settings["sweeps"],
                block_size=FIRST_BLOCK if self.blocks else 1,
                last_block_size=1 if self.blocks else None,
                cooling=self.cooling,
            ),
            chains=settings["chains"],
            energy="raw" if self.kind == "raw" else "local",
            sampler="gibbs" if self.kind == "deg" else "metropolis",
            decoding=Decoding(temperature=self.temperature, top_p=self.top_p),
            start=self.start,
            burn_in=settings["burn_in"],
        )


@dataclass(frozen=True)
class Followed:
    """Some of a walk's sweeps, of one chain per sentence or of all; numbers per sentence are means over these."""

    walk: Walk
    sweeps: slice  # 0 is the start
    chain: int | None = None

    @property
    def energies(self) -> np.ndarray:  # (S, chains, sweeps)
        """Locally normalised, whichever energy the chains follow."""
        return self._kept(self.walk.local)

    @property
    def energy(self) -> np.ndarray:  # (S,)
        return self.energies.mean(axis=(1, 2))

    @cached_property
    def r_hat(self) -> np.ndarray:  # (S,)
        """Of the energy; NaN where it cannot be told."""
        return np.array([mixing(torch.from_numpy(draws)).r_hat for draws in self.energies])

    @property
    def acceptance(self) -> np.ndarray:  # (S,)
        return self._share(self.walk.accepted)

    @property
    def novel(self) -> np.ndarray:  # (S,)
        return self._share(self.walk.novel)

    @property
    def statistics(self) -> np.ndarray:  # (S, chains, sweeps, 10)
        """Of BLEU."""
        return self._kept(self.walk.bleu)

    @property
    def bleu(self) -> np.ndarray:  # (S, 10)
        """Sums of BLEU's statistics: all samples of a sentence count as translations of one corpus."""
        return self.statistics.sum(axis=(1, 2))

    def _share(self, counts: np.ndarray) -> np.ndarray:
        return self._kept(counts).sum(axis=(1, 2)) / self._kept(self.walk.proposed).sum(axis=(1, 2))

    def _kept(self, values: np.ndarray) -> np.ndarray:  # (S, C, 1 + E, ...) -> (S, chains, sweeps, ...)
        chains = values if self.chain is None else values[:, self.chain, None]
        return chains[:, :, self.sweeps]


Seen: TypeAlias = Mapping[Hashable, Followed]
"""What one seed gave: by sampler, or by name."""
Quantity: TypeAlias = Literal["energy", "acceptance", "novel"]


def follow(
    laboratory: TranslationLaboratory, samplers: Iterable[Sampler], settings: Settings
) -> dict[Hashable, Followed]:
    """The walks of samplers, after the burn-in."""
    kept = slice(1 + settings["burn_in"], None)
    return {
        sampler: Followed(laboratory.walk(sampler.name, sampler.translating(settings)), kept) for sampler in samplers
    }


def during(evidence: Sequence[Seen], sweeps: slice) -> list[Seen]:
    """The same walks at other sweeps."""
    return [{key: replace(followed, sweeps=sweeps) for key, followed in seen.items()} for seen in evidence]


def started(evidence: Sequence[Seen], chain: int) -> list[Seen]:
    """The chains that began at one of the starts, `tasks.masked.starts.DISPERSED`."""
    return [{key: replace(followed, chain=chain) for key, followed in seen.items()} for seen in evidence]


class Mixed(NamedTuple):
    """Of a sampler's chains, over sentences and seeds."""

    median: float  # R-hat
    share_above: float  # of the sentences, 1.05 or that cannot be told

    @property
    def enough(self) -> bool:
        return self.share_above <= 1 - ENOUGH_MIXED


def mixed(evidence: Sequence[Seen], name: Hashable) -> Mixed:
    """Have the chains of a sampler mixed, in most sentences?"""
    r_hat = np.concatenate([seen[name].r_hat for seen in evidence])
    return Mixed(float(np.median(r_hat)), float(np.mean(~(r_hat < MIXED_R_HAT))))


def where_mixed(finding: Finding, evidence: Sequence[Seen], *samplers: Sampler) -> Finding:
    """Not decided where one of the samplers that it compares has not mixed; the sentence then says which."""
    seen = {sampler: mixed(evidence, sampler) for sampler in samplers}
    above = f"of the sentences above {MIXED_R_HAT:g}"
    doubts = [
        f"{sampler.label}: median R-hat {told.median:.2f}, {told.share_above:.0%} {above}"
        for sampler, told in seen.items()
        if not told.enough
    ]
    if not doubts:
        return finding
    sentence = f"{finding.sentence} Chains have not mixed ({'; '.join(doubts)})."
    return replace(finding, sentence=sentence, verdict=Verdict.NOT_DECIDED)


def average(evidence: Sequence[Seen], name: Hashable, quantity: Quantity) -> Estimate:
    """The mean over sentences."""
    return mean([getattr(seen[name], quantity) for seen in evidence])


def gap(evidence: Sequence[Seen], first: Hashable, second: Hashable, quantity: Quantity) -> Estimate:
    """By how much the first is above the second, sentence by sentence."""
    return mean([getattr(seen[first], quantity) - getattr(seen[second], quantity) for seen in evidence])


def bleu(evidence: Sequence[Seen], name: Hashable) -> Estimate:
    """The corpus's BLEU, with its bootstrap over sentences where there is one seed."""
    return corpus_estimate([seen[name].bleu for seen in evidence], metric_named("bleu").of_sums)


def bleu_gap(evidence: Sequence[Seen], first: Hashable, second: Hashable) -> Estimate:
    """By how much the first BLEU is above the second, the sentences of both drawn again together."""
    left, right = ([seen[name].bleu for seen in evidence] for name in (first, second))
    return corpus_difference(left, right, metric_named("bleu").of_sums)
