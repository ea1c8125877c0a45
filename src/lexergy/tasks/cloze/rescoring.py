"""Re-rank n-best lists with the scores of models, and tell whether that helps."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from lexergy.core.rescoring import (
    FREQUENCY_WEIGHTS,
    Comparison,
    Dev,
    Weight,
    best_ranked,
    choose_weights,
    combined_scores,
    with_rest_below,
)
from lexergy.core.text_measures.text_metrics import metric_named
from lexergy.data.lists.nbest import Hypothesis, Utterance
from lexergy.errors import LexergyError
from lexergy.models.scoring.kinds import load_scorer
from lexergy.models.scoring.scorer import TextScorer
from lexergy.tasks.cloze.hypotheses import HypothesisList, ScoredList, score_list

KEEP = 20
FIRST_PASS, ORACLE = "1-best", "oracle"

Relative = float | Literal["auto"]  # the share mu of the log-frequencies, or: choose it on dev


@dataclass(frozen=True)
class System:
    """One way to choose, and the metric of its choices."""

    name: str
    weights: tuple[Weight, ...] = ()  # of each model; none for the first pass and the oracle
    dev: float | None = None
    test: float | None = None  # none where no utterance has a reference
    against_first_pass: Comparison | None = None
    against_first_model: Comparison | None = None
    kind: str | None = None
    passes: str = "0"  # through the transformer, for a hypothesis of n tokens
    num_read: int = 0  # hypotheses of dev and test
    seconds: float = 0.0  # that scoring them took
    hypotheses_per_second: float | None = None


@dataclass(frozen=True)
class RescoreResult:
    metric: str
    num_utterances: int
    num_hypotheses: int
    resampled: str  # what the intervals are a bootstrap over
    systems: tuple[System, ...]
    warnings: tuple[str, ...]
    reranked: tuple[Utterance, ...]  # by the last stage, best hypothesis first, with the combined scores


@dataclass(frozen=True, eq=False)
class Among:
    """The hypotheses that models read, and how all of them are ranked where the models do not."""

    lists: dict[str, HypothesisList]
    kept: dict[str, Tensor]  # (U, N) bool
    earlier: dict[str, Tensor]  # (U, N)


class Ranked(NamedTuple):
    """A system, and the score of each hypothesis by which it chooses."""

    system: System
    rankings: dict[str, Tensor]  # by list, (U, N)


class Rescoring:
    """A list to re-rank, `test`, and one to choose weights on, `dev`; each model's scores are read once."""

    def __init__(
        self,
        test: Sequence[Utterance],
        dev: Sequence[Utterance] | None = None,
        *,
        metric: str = "wer",
        seed: int = 0,
        progress: bool = True,
    ) -> None:
        self._metric, self._seed, self._progress = metric_named(metric), seed, progress
        parts = {"test": test} if dev is None else {"test": test, "dev": dev}
        lists = {name: HypothesisList.of(name, part, self._metric, progress) for name, part in parts.items()}
        self.everything = Among(
            lists, {name: nbest.present for name, nbest in lists.items()}, {n: x.first_pass for n, x in lists.items()}
        )
        self.warnings = [warning for nbest in lists.values() for warning in nbest.warnings()]
        self._scorers: dict[str, TextScorer] = {}
        self._scored: dict[tuple[str, Among, bool], dict[str, ScoredList]] = {}

    @property
    def test(self) -> HypothesisList:
        return self.everything.lists["test"]

    def first_pass(self) -> Ranked:
        return self._named(FIRST_PASS, self.everything, self.everything.earlier)

    def oracle(self, among: Among) -> Ranked:
        """Always finds the hypothesis with the fewest errors of those that may be chosen."""
        rankings = {name: nbest.oracle(among.kept[name]) for name, nbest in among.lists.items()}
        return self._named(ORACLE, among, rankings)

    def best(self, ranked: Ranked, keep: int, dev_utterances: int | None = None) -> Among:
        """The `keep` best of each utterance by a ranking of all; on dev of so many utterances, at equal distances."""
        lists, kept, earlier = {}, {}, {}
        for name, nbest in self.everything.lists.items():
            rows = nbest.rows(dev_utterances if name == "dev" else None)
            lists[name] = nbest.of_rows(rows)
            earlier[name] = ranked.rankings[name][rows]
            kept[name] = best_ranked(earlier[name], keep) & lists[name].present
        return Among(lists, kept, earlier)

    def ranked(
        self, models: Sequence[str], among: Among, *, relative: Relative = 0.0, weight: float | None = None
    ) -> Ranked:
        """argmax f(x | s) + sum_m lambda_m (PLL_m(x) - mu_m log f_m(x)), with weights chosen on dev, or a given lambda.

        `relative` is mu, the share of the tokens' log-frequencies that is taken away: the first pass knows already how
        frequent words are. Hypotheses that the models do not read come below those that they do, as they were ranked.
        """
        scored = [self._scores(model, among, frequencies=relative != 0) for model in models]
        first_pass = {
            name: nbest.first_pass.masked_fill(~among.kept[name], -torch.inf) for name, nbest in among.lists.items()
        }
        if weight is None:
            dev = among.lists["dev"]
            chosen_on = Dev(first_pass["dev"], dev.statistics, self._metric.value, self._metric.higher_is_better)
            shares = FREQUENCY_WEIGHTS if relative == "auto" else (float(relative),)
            weights = choose_weights(chosen_on, [parts["dev"].scores for parts in scored], frequency_weights=shares)
        else:
            weights = tuple(Weight(weight, float(relative)) for _ in models)
        rankings = {
            name: with_rest_below(
                combined_scores(first_pass[name], [parts[name].scores for parts in scored], weights),
                among.kept[name],
                among.earlier[name],
            )
            for name in among.lists
        }
        ranked = self._named(" + ".join(models), among, rankings)
        scorers = [self._scorers[model] for model in models]
        num_read = sum(part.num_read for part in scored[0].values())
        seconds = sum(part.seconds for parts in scored for part in parts.values())
        system = replace(
            ranked.system,
            weights=weights,
            kind=" + ".join(scorer.kind for scorer in scorers),
            passes=" + ".join(scorer.passes for scorer in scorers),
            num_read=num_read,
            seconds=seconds,
            hypotheses_per_second=num_read / seconds if seconds > 0 else None,
        )
        return Ranked(system, rankings)

    def compared(self, first: Ranked, second: Ranked) -> Comparison | None:
        return self.test.compared(first.rankings["test"], second.rankings["test"], self._seed)

    def _named(self, name: str, among: Among, rankings: dict[str, Tensor]) -> Ranked:
        values = {part: nbest.value(rankings[part]) for part, nbest in among.lists.items()}
        return Ranked(System(name, dev=values.get("dev"), test=values["test"]), rankings)

    def _scores(self, model: str, among: Among, *, frequencies: bool) -> dict[str, ScoredList]:
        key = (model, among, frequencies)
        if key not in self._scored:
            scorer = self._scorers[model] = self._scorers.get(model) or load_scorer(model)
            if frequencies:
                scorer.log_frequencies([])  # says at once if it cannot
            self._scored[key] = {
                name: score_list(
                    scorer, model, nbest, among.kept[name], frequencies=frequencies, progress=self._progress
                )
                for name, nbest in among.lists.items()
            }
            self.warnings += [warning for part in self._scored[key].values() for warning in part.warnings]
        return self._scored[key]


def rescore(
    test: Sequence[Utterance],
    models: Sequence[str] = (),
    *,
    then: Sequence[str] = (),
    keep: int = KEEP,
    dev: Sequence[Utterance] | None = None,
    dev_utterances: int | None = None,
    weight: float | None = None,
    relative: Relative = 0.0,
    metric: str = "wer",
    seed: int = 0,
    progress: bool = True,
) -> RescoreResult:
    """Rank by first pass and models, each alone and all together, as `Rescoring.ranked` does.

    `models` read all hypotheses. The models in `then` read the `keep` best of what came before, on dev of
    `dev_utterances` only: a cascade, whose last stage has them all. Each is compared with the first pass, and with the
    first model, by a bootstrap of matched pairs over speakers (over utterances where speakers are not known). Without
    models the result is that of the first pass and the oracle.
    """
    _check(bool(models or then), bool(then), dev, weight, relative)
    rescoring = Rescoring(test, dev, metric=metric, seed=seed, progress=progress)
    everything = rescoring.everything
    first_pass = rescoring.first_pass()
    without = [first_pass]
    if not rescoring.test.metric.higher_is_better:
        without.append(rescoring.oracle(everything))
    rows = [rescoring.ranked([model], everything, relative=relative, weight=weight) for model in models]
    stage = rows[0] if rows else first_pass
    if len(models) > 1 and dev is not None:
        stage = rescoring.ranked(models, everything, relative=relative)
        rows.append(stage)
    if then:
        among = rescoring.best(stage, keep, dev_utterances)
        together = list(models)
        for model in then:
            rows.append(rescoring.ranked([model], among, relative=relative))
            together.append(model)
            if len(together) > 1:
                rows.append(rescoring.ranked(together, among, relative=relative))
        stage = rows[-1]
    return RescoreResult(
        rescoring.test.metric.name,
        len(test),
        sum(len(utterance.hypotheses) for utterance in test),
        "utterances" if rescoring.test.speakers is None else "speakers",
        (*(row.system for row in without), *_with_comparisons(rescoring, rows, first_pass)),
        tuple(dict.fromkeys(rescoring.warnings)),
        _reranked(test, stage.rankings["test"]) if rows else (),
    )


def _check(
    has_models: bool, is_cascade: bool, dev: Sequence[Utterance] | None, weight: float | None, relative: Relative
) -> None:
    if has_models and (dev is None) == (weight is None):
        raise LexergyError(
            f"{'neither' if dev is None else 'both'} of a dev list and a weight given; expected exactly one of them: "
            "the weight is chosen on the dev list."
        )
    if dev is None and (is_cascade or relative == "auto"):
        raise LexergyError(
            "a weight was given, and more weights are to be chosen; expected a dev list, to choose all of them on."
        )
    if has_models and dev is not None and all(utterance.reference is None for utterance in dev):
        raise LexergyError("no utterance of the dev list has a reference; expected them, to choose the weight by.")


def _with_comparisons(rescoring: Rescoring, rows: Sequence[Ranked], first_pass: Ranked) -> list[System]:
    return [
        replace(
            row.system,
            against_first_pass=rescoring.compared(row, first_pass),
            against_first_model=None if row is rows[0] else rescoring.compared(row, rows[0]),
        )
        for row in rows
    ]


def _reranked(utterances: Sequence[Utterance], ranking: Tensor) -> tuple[Utterance, ...]:
    orders = ranking.sort(dim=1, descending=True, stable=True).indices.tolist()
    result = []
    for utterance, order, scores in zip(utterances, orders, ranking.tolist(), strict=True):
        ranks = [rank for rank in order if rank < len(utterance.hypotheses)]
        hypotheses = tuple(Hypothesis(utterance.hypotheses[rank].text, scores[rank]) for rank in ranks)
        result.append(replace(utterance, hypotheses=hypotheses))
    return tuple(result)
