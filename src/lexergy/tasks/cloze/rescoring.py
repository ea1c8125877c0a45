"""Re-rank n-best lists with a second score, and tell whether that helps."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from lexergy.core.rescoring import Comparison, choose_weight, chosen_statistics, combined_scores, matched_pairs
from lexergy.core.text_metrics import Metric, metric_named
from lexergy.data.nbest import Hypothesis, Utterance
from lexergy.errors import LexergyError
from lexergy.models.scoring.kinds import load_scorer
from lexergy.models.scoring.scorer import TextScorer
from lexergy.progress import progress_bar
from lexergy.tasks.cloze.scoring import TextScores, score_texts

MOST_NAMED = 3


@dataclass(frozen=True)
class System:
    """One way to choose, and the metric of its choices."""

    name: str
    weight: float | None = None  # none for the first pass and the oracle
    dev: float | None = None
    test: float | None = None  # none where no utterance has a reference
    against_first_pass: Comparison | None = None
    against_first_model: Comparison | None = None
    kind: str | None = None
    passes: str = "0"  # through the transformer, for a hypothesis of n tokens
    seconds: float = 0.0  # that scoring dev and test took
    hypotheses_per_second: float | None = None


@dataclass(frozen=True)
class RescoreResult:
    metric: str
    num_utterances: int
    num_hypotheses: int
    systems: tuple[System, ...]
    warnings: tuple[str, ...]
    reranked: tuple[Utterance, ...]  # by the first model, best hypothesis first, with the combined scores


class _List(NamedTuple):
    """A list as tensors; a hypothesis that is not there has a first pass of -inf."""

    utterances: Sequence[Utterance]
    first_pass: Tensor  # (U, N)
    statistics: Tensor  # (U, N, S), zero where there is no reference


class _Scores(NamedTuple):
    log_scores: Tensor  # (U, N)
    seconds: float
    warnings: list[str]


def rescore(
    test: Sequence[Utterance],
    models: Sequence[str],
    *,
    dev: Sequence[Utterance] | None = None,
    weight: float | None = None,
    metric: str = "wer",
    relative: bool = False,
    seed: int = 0,
    progress: bool = True,
) -> RescoreResult:
    """argmax f(x | s) + lambda PLL(x) with lambda from .05 .. 1 chosen on `dev`, or given as `weight`.

    Sec. 3.2, Clark et al. 2020. Each model is compared with the first pass, and with the first model, by a bootstrap of
    matched pairs. Without models the result is that of the first pass and the oracle. `relative`: PLL less the
    tokens' log-frequencies (`scored_shards`), since the first pass knows already how frequent words are.
    """
    measure = metric_named(metric)
    if models and (dev is None) == (weight is None):
        raise LexergyError(
            f"{'neither' if dev is None else 'both'} of a dev list and a weight given; expected exactly one of them: "
            "the weight is chosen on the dev list."
        )
    lists = {"test": _as_tensors(test, measure, "test", progress)}
    if dev is not None:
        lists["dev"] = _as_tensors(dev, measure, "dev", progress)
        if models and all(utterance.reference is None for utterance in dev):
            raise LexergyError("no utterance of the dev list has a reference; expected them, to choose the weight by.")
    warnings = [warning for name, nbest in lists.items() for warning in _missing_references(name, nbest)]
    systems = _without_model(lists, measure)
    first_pass = chosen_statistics(lists["test"].statistics, lists["test"].first_pass.argmax(1))
    rescored = [_rescored(name, lists, measure, weight, relative, progress) for name in models]
    for own in rescored:
        first_model = None if own is rescored[0] else rescored[0].chosen
        system = replace(
            own.system,
            against_first_pass=_compared(own.chosen, first_pass, measure, seed),
            against_first_model=_compared(own.chosen, first_model, measure, seed),
        )
        systems.append(system)
        warnings += own.warnings
    return RescoreResult(
        measure.name,
        len(test),
        sum(len(utterance.hypotheses) for utterance in test),
        tuple(systems),
        tuple(dict.fromkeys(warnings)),
        _reranked(test, rescored[0].combined) if rescored else (),
    )


class _Rescored(NamedTuple):
    """One model's choices among the hypotheses of the test list."""

    system: System
    combined: Tensor  # (U, N)
    chosen: Tensor  # (U, S), statistics of the choices
    warnings: list[str]


def _rescored(
    name: str, lists: dict[str, _List], metric: Metric, weight: float | None, relative: bool, progress: bool
) -> _Rescored:
    scorer = load_scorer(name)
    scores = {part: _scored(scorer, name, part, nbest, relative, progress) for part, nbest in lists.items()}
    chosen_weight = weight if weight is not None else _weight(lists["dev"], scores["dev"], metric)
    combined = {
        part: combined_scores(nbest.first_pass, scores[part].log_scores, chosen_weight) for part, nbest in lists.items()
    }
    values = {part: _metric_of(nbest, combined[part], metric) for part, nbest in lists.items()}
    system = System(
        name,
        chosen_weight,
        dev=values.get("dev"),
        test=values["test"],
        kind=f"{scorer.kind}, relative" if relative else scorer.kind,
        passes=scorer.passes,
        seconds=sum(scored.seconds for scored in scores.values()),
        hypotheses_per_second=_rate(lists, scores),
    )
    chosen = chosen_statistics(lists["test"].statistics, combined["test"].argmax(1))
    warnings = [warning for scored in scores.values() for warning in scored.warnings]
    return _Rescored(system, combined["test"], chosen, warnings)


def _as_tensors(utterances: Sequence[Utterance], metric: Metric, name: str, progress: bool) -> _List:
    most = max(len(utterance.hypotheses) for utterance in utterances)
    first_pass = torch.full((len(utterances), most), -torch.inf, dtype=torch.double)
    num_statistics = metric.statistics([""], "a").shape[1]
    statistics = torch.zeros(len(utterances), most, num_statistics, dtype=torch.double)
    with progress_bar(f"{metric.name} of {name} hypotheses", len(utterances), progress) as bar:
        for row, utterance in enumerate(utterances):
            count = len(utterance.hypotheses)
            first_pass[row, :count] = torch.tensor([hypothesis.score for hypothesis in utterance.hypotheses])
            if utterance.reference is not None:
                texts = [hypothesis.text for hypothesis in utterance.hypotheses]
                statistics[row, :count] = metric.statistics(texts, utterance.reference)
            bar.advance(1)
    return _List(utterances, first_pass, statistics)


def _missing_references(name: str, nbest: _List) -> list[str]:
    missing = [utterance.id for utterance in nbest.utterances if utterance.reference is None]
    if not missing:
        return []
    return [f"{_named(missing)} of the {name} list: no reference; re-ranked, but not counted in the metric"]


def _without_model(lists: dict[str, _List], metric: Metric) -> list[System]:
    """The first pass and, for errors, the oracle, which always finds the hypothesis with the fewest."""
    choices = {"1-best": {name: nbest.first_pass for name, nbest in lists.items()}}
    if not metric.higher_is_better:
        choices["oracle"] = {
            name: torch.where(nbest.first_pass.isneginf(), -torch.inf, -nbest.statistics[..., 0])
            for name, nbest in lists.items()
        }
    values = {
        system: {name: _metric_of(lists[name], ranking, metric) for name, ranking in rankings.items()}
        for system, rankings in choices.items()
    }
    return [System(system, dev=parts.get("dev"), test=parts["test"]) for system, parts in values.items()]


def _scored(scorer: TextScorer, source: str, part: str, nbest: _List, relative: bool, progress: bool) -> _Scores:
    places = [
        (row, rank) for row, utterance in enumerate(nbest.utterances) for rank in range(len(utterance.hypotheses))
    ]
    texts = [nbest.utterances[row].hypotheses[rank].text for row, rank in places]
    scores = score_texts(scorer, source, texts, relative=relative, progress=progress)
    log_scores = torch.zeros_like(nbest.first_pass)
    rows, ranks = torch.tensor(places).unbind(1)
    log_scores[rows, ranks] = torch.from_numpy(scores.log_scores)
    is_empty = torch.ones_like(nbest.first_pass, dtype=torch.bool)
    is_empty[rows, ranks] = torch.from_numpy(scores.num_tokens == 0)
    # An empty text has no score: it takes the worst of its utterance's, so that silence is never preferred by length.
    worst = log_scores.masked_fill(is_empty, torch.inf).amin(1, keepdim=True)
    log_scores = torch.where(is_empty, worst.masked_fill(worst.isinf(), 0.0), log_scores)
    return _Scores(log_scores, scores.seconds, _odd_texts(part, nbest, places, scores))


def _odd_texts(part: str, nbest: _List, places: list[tuple[int, int]], scores: TextScores) -> list[str]:
    names = [f"{nbest.utterances[row].id} (hypothesis {rank + 1})" for row, rank in places]
    warnings = []
    empty = [name for name, count in zip(names, scores.num_tokens, strict=True) if count == 0]
    if empty:
        warnings.append(f"{_named(empty)} of the {part} list: empty; takes its utterance's worst score")
    long = [name for name, count in zip(names, scores.num_pieces, strict=True) if count > 1]
    if long:
        warnings.append(f"{_named(long)} of the {part} list: longer than the model reads at once; read in pieces")
    return warnings


def _named(names: list[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _weight(dev: _List, scores: _Scores, metric: Metric) -> float:
    return choose_weight(
        dev.first_pass,
        scores.log_scores,
        dev.statistics,
        metric.value,
        higher_is_better=metric.higher_is_better,
    )


def _metric_of(nbest: _List, ranking: Tensor, metric: Metric) -> float | None:  # (U, N)
    """The metric of what ranks highest; none where there is no reference."""
    value = float(metric.value(chosen_statistics(nbest.statistics, ranking.argmax(1)).sum(0)))
    return value if value == value else None


def _compared(chosen: Tensor, baseline: Tensor | None, metric: Metric, seed: int) -> Comparison | None:
    """None without another system, and without references."""
    if baseline is None or not chosen.any():
        return None
    return matched_pairs(chosen, baseline, metric.value, seed)


def _rate(lists: dict[str, _List], scores: dict[str, _Scores]) -> float | None:
    seconds = sum(scored.seconds for scored in scores.values())
    hypotheses = sum(int((~nbest.first_pass.isneginf()).sum()) for nbest in lists.values())
    return hypotheses / seconds if seconds > 0 else None


def _reranked(utterances: Sequence[Utterance], combined: Tensor) -> tuple[Utterance, ...]:
    orders = combined.sort(dim=1, descending=True, stable=True).indices.tolist()
    result = []
    for utterance, order, scores in zip(utterances, orders, combined.tolist(), strict=True):
        ranks = [rank for rank in order if rank < len(utterance.hypotheses)]
        hypotheses = tuple(Hypothesis(utterance.hypotheses[rank].text, scores[rank]) for rank in ranks)
        result.append(replace(utterance, hypotheses=hypotheses))
    return tuple(result)
