"""Table 5 of Clark et al. 2020: word error rates on LibriSpeech after rescoring 100-best lists."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lexergy.core.estimation.findings import Estimate, Finding, above, over_runs
from lexergy.core.rescoring import Comparison
from lexergy.data.lists.librispeech import librispeech_nbest
from lexergy.data.lists.nbest import load_nbest
from lexergy.report.figures.picture import Panel, Series
from lexergy.report.pages.study import Conclusion
from lexergy.report.table import Cell, Table
from lexergy.studies.cloze.workspace import ELECTRIC, NOISE, PRETRAINED, TOWERS, PretrainedModels
from lexergy.studies.study import Settings, Size, Study
from lexergy.tasks.cloze.rescoring import Among, Ranked, Relative, Rescoring, System

PARTS = ("clean", "other")
TRIGRAM, CAUSAL = "trigram LM", "causal LM"
FIRST_PASS, ORACLE, ORACLE_KEPT = "1-best", "oracle", "oracle of the trigram LM's best"
TRIGRAM_KEPT = "trigram LM on the first pass's best"
TUNED = ", tuned"
WITH_ELECTRIC, WITH_CAUSAL, TOGETHER = f"{TRIGRAM} + {ELECTRIC}", f"{TRIGRAM} + {CAUSAL}", "all together"
# dev-clean, dev-other, test-clean, test-other
PRINTED = {
    FIRST_PASS: (7.17, 19.79, 7.26, 20.37),
    "masked LM": (5.17, 16.44, 5.41, 17.41),
    "Electric of WikiBooks": (5.47, 16.56, 5.65, 17.42),
    CAUSAL: (5.39, 16.81, 5.64, 17.61),
    TOWERS: (5.12, 16.37, 5.32, 17.25),
    "ELECTRA-TT": (5.05, 16.27, 5.22, 17.01),
    ELECTRIC: (4.97, 16.23, 5.18, 16.93),
}
MISSING = System("")
LABELS = {TRIGRAM_KEPT + TUNED: "trigram on 20, tuned", NOISE: "noise", NOISE + TUNED: "noise, tuned"}  # in the picture


@dataclass(frozen=True)
class Seen:
    """What one list showed: a system for each row, and the pairs that findings compare."""

    systems: Mapping[str, System]
    reads: Mapping[str, str]  # how many hypotheses, and by whose ranking they are the best
    against: Mapping[tuple[str, str], Comparison]  # the first row less the second, on test


def _examine(pretrained: PretrainedModels, settings: Settings) -> dict[str, Seen]:
    lists = librispeech_nbest()
    seen = {}
    for part in PARTS:
        test, dev = (load_nbest(lists[f"{split}-{part}"]) for split in ("test", "dev"))
        rows = _Rows(Rescoring(test, dev, progress=pretrained.progress))
        _rank(rows, pretrained.scorers(), settings)
        seen[part] = rows.seen()
        pretrained.measuring += rows.seconds
    return seen


class _Rows:
    """The rows of the table for one list."""

    def __init__(self, rescoring: Rescoring) -> None:
        self.rescoring = rescoring
        self.ranked: dict[str, Ranked] = {}
        self.reads: dict[str, str] = {}

    def add(self, name: str, reads: str, ranked: Ranked) -> Ranked:
        self.ranked[name], self.reads[name] = ranked, reads
        return ranked

    def rank(self, name: str, models: Sequence[str], among: Among, reads: str, relative: Relative = "auto") -> Ranked:
        return self.add(name, reads, self.rescoring.ranked(models, among, relative=relative))

    def plain_and_tuned(self, name: str, model: str, among: Among, reads: str) -> Ranked:
        self.rank(name, [model], among, reads, 0.0)
        return self.rank(name + TUNED, [model], among, reads)

    @property
    def seconds(self) -> float:
        """Each model's scoring once; tuned and combined rows read the same scores again."""
        plain = [row.system for name, row in self.ranked.items() if not name.endswith(TUNED)]
        return sum(system.seconds for system in plain if len(system.weights) == 1)

    def seen(self) -> Seen:
        pairs = {(name, FIRST_PASS) for name in self.ranked}
        pairs |= {pair for pair, _ in CLAIMS if set(pair) <= set(self.ranked)}
        compared = {pair: self.rescoring.compared(*(self.ranked[name] for name in pair)) for pair in pairs}
        return Seen(
            {name: row.system for name, row in self.ranked.items()},
            self.reads,
            {pair: comparison for pair, comparison in compared.items() if comparison is not None},
        )


def _rank(rows: _Rows, scorers: Mapping[str, str], settings: Settings) -> None:
    """The trigram LM reads all hypotheses; the models alone the first pass's best, and in cascades its best."""
    rescoring, keep = rows.rescoring, settings["keep"]
    by_first_pass, by_trigram = f"{keep} of the first pass", f"{keep} of the trigram LM"
    everything = rescoring.everything
    first_pass = rows.add(FIRST_PASS, "", rescoring.first_pass())
    rows.add(ORACLE, "all", rescoring.oracle(everything))
    trigram = rows.plain_and_tuned(TRIGRAM, "trigram", everything, "all")
    nearest = rescoring.best(first_pass, keep)
    rows.rank(TRIGRAM_KEPT + TUNED, ["trigram"], nearest, by_first_pass)
    for name, folder in scorers.items():
        rows.plain_and_tuned(name, folder, nearest, by_first_pass)
    best = rescoring.best(trigram, keep)
    rows.add(ORACLE_KEPT, by_trigram, rescoring.oracle(best))
    electric = scorers[ELECTRIC]
    rows.rank(WITH_ELECTRIC, ["trigram", electric], best, by_trigram)
    causal, sample = settings["causal"], rescoring.best(trigram, keep, settings["causal_dev_utterances"])
    rows.plain_and_tuned(CAUSAL, causal, sample, by_trigram)
    rows.rank(WITH_CAUSAL, ["trigram", causal], sample, by_trigram)
    rows.rank(TOGETHER, ["trigram", causal, electric], sample, by_trigram)


# The better row and the worse one, and what the paper, or this study, says of them
CLAIMS = (
    ((ELECTRIC, FIRST_PASS), "Electric's pseudo-log-likelihood betters the recogniser"),
    ((ELECTRIC, TOWERS), "Electric is better than two towers"),
    ((ELECTRIC, NOISE), "Electric is better than the two towers of its noise, a quarter as wide"),
    ((ELECTRIC + TUNED, TRIGRAM_KEPT + TUNED), "Ours: tuned alike, Electric is better than a trigram LM"),
    ((WITH_ELECTRIC, TRIGRAM + TUNED), "Ours: Electric adds to a trigram LM"),
    ((WITH_CAUSAL, TRIGRAM + TUNED), "Ours: a causal LM adds to a trigram LM"),
    ((TOGETHER, WITH_CAUSAL), "Ours: Electric adds to both"),
)


def _conclude(evidence: Sequence[Mapping[str, Seen]]) -> Conclusion:
    names = list(evidence[0][PARTS[0]].systems)
    return Conclusion(
        tables=(_rates(evidence, names), _differences(evidence, names), _weights(evidence, names)),
        panels=tuple(_panel(evidence, part, names) for part in PARTS),
        findings=tuple(_findings(evidence)),
    )


def _rates(evidence: Sequence[Mapping[str, Seen]], names: Sequence[str]) -> Table:
    lists = [(split, part) for split in ("dev", "test") for part in PARTS]
    columns = ["", "reads", *(name for split, part in lists for name in (f"{split}-{part}", f"{split}-{part}, paper"))]
    rows = []
    for name in [*names, *(row for row in PRINTED if row not in names)]:
        row: list[Cell] = [name, evidence[0][PARTS[0]].reads.get(name, "not trained here")]
        for (split, part), printed in zip(lists, PRINTED.get(name, (None,) * len(lists)), strict=True):
            values = [getattr(seen[part].systems.get(name, MISSING), split) for seen in evidence]
            row += [None if None in values else float(np.mean(values)), printed]
        rows.append(tuple(row))
    return Table("word error rates", tuple(columns), rows)


def _differences(evidence: Sequence[Mapping[str, Seen]], names: Sequence[str]) -> Table:
    columns = ["", *(f"{column}{part}" for part in PARTS for column in ("test-", "low, ", "high, "))]
    rows: list[tuple[Cell, ...]] = []
    for name in names:
        estimates = [_gap(evidence, part, name, FIRST_PASS) for part in PARTS]
        if name != FIRST_PASS:
            rows.append((name, *(value for estimate in estimates for value in estimate)))
    return Table("differences to the 1-best", tuple(columns), rows)


def _weights(evidence: Sequence[Mapping[str, Seen]], names: Sequence[str]) -> Table:
    """Of the first seed."""
    rows: list[tuple[Cell, ...]] = []
    for name in names:
        weights = [evidence[0][part].systems[name].weights for part in PARTS]
        if weights[0]:
            rows.append((name, *(" + ".join(f"{weight[k]:g}" for weight in own) for own in weights for k in (0, 1))))
    columns = ("", *(f"{symbol}, {part}" for part in PARTS for symbol in ("lambda", "mu")))
    return Table("weights", columns, rows)


def _gap(evidence: Sequence[Mapping[str, Seen]], part: str, first: str, second: str) -> Estimate:
    """The first row's WER above the second's on test: of one seed over speakers, of several over seeds."""
    if first == second:
        return Estimate(0.0, 0.0, 0.0)
    compared = [seen[part].against[first, second] for seen in evidence]
    if len(compared) == 1:
        return Estimate(*compared[0][:3])
    return over_runs([comparison.difference for comparison in compared], [np.nan] * len(compared))


def _findings(evidence: Sequence[Mapping[str, Seen]]) -> list[Finding]:
    findings = []
    for (better, worse), sentence in CLAIMS:
        for part in PARTS:
            if (better, worse) in evidence[0][part].against:
                gap = _gap(evidence, part, better, worse)
                findings.append(
                    above(
                        f"{sentence}, on {part} speech.",
                        f"WER({worse}) - WER({better})",
                        Estimate(-gap.value, -gap.high, -gap.low),
                    )
                )
    return findings


def _panel(evidence: Sequence[Mapping[str, Seen]], part: str, names: Sequence[str]) -> Panel:
    shown = [name for name in names if name not in (FIRST_PASS, ORACLE, ORACLE_KEPT)]
    ours = Series.of("ours", range(len(shown)), [_gap(evidence, part, name, FIRST_PASS) for name in shown], "points")
    place = 2 + PARTS.index(part)
    printed = {x: PRINTED[name][place] - PRINTED[FIRST_PASS][place] for x, name in enumerate(shown) if name in PRINTED}
    paper = Series("paper", list(printed), list(printed.values()), style="points")
    labels = tuple(LABELS.get(name, name) for name in shown)
    return Panel("", "WER - 1-best's", (ours, paper), f"test-{part}", categories=labels, reference=0.0)


STUDY = Study(
    title="LibriSpeech 100-best lists, rescored",
    part="Table 5 and Section 3.2",
    paper='Clark et al. 2020, "Pre-Training Transformers as Energy-Based Cloze Models"',
    method=(
        "The paper's own lists. Hypotheses are ranked by f(x) + lambda PLL(x) with lambda from .05, .1, ..., 1 by the "
        "WER on dev, clean and other apart, as in the paper. Rows that are tuned, and all that combine models, have "
        "lambda (PLL(x) - mu log-frequency(x)) for each model, with mu from 0, .25, ..., 1 chosen on dev too: how "
        "frequent words are the recogniser has learnt itself. The trigram LM is the one of pocketsphinx, general "
        "American English. To save time the other models read the best few hypotheses only (column `reads`; the rest "
        "stay below them): alone those of the first pass, and in cascades those of the tuned trigram LM. The paper's "
        "models have 110 M parameters and three days of 16 TPUs, and its causal LM is GPT-2. In the size cpu that is "
        "SmolLM2-135M (Instruct, weights of 4 bits, Q4_1), which has read far more than any model of the paper. Its "
        "log-frequencies are those of words in the trigram LM, it reads the trigram LM's best, and its dev rates, as "
        "those of all rows that it is in, are of 700 utterances at equal distances. Differences are of matched pairs."
    ),
    sizes={
        "cpu": Size("electric-direct-cpu", {"keep": 20, "causal": "smollm2-135m", "causal_dev_utterances": 700}),
        "paper": Size(
            "paper/electric", {"keep": 100, "causal": "openai-community/gpt2", "causal_dev_utterances": None}
        ),
    },
    workspace=PRETRAINED,
    examine=_examine,
    conclude=_conclude,
)
