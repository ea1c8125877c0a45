"""What a fine-tuned model is worth: the metrics of GLUE and SQuAD (App. C, Clark et al. 2020)."""

import re
import string
from collections import Counter
from collections.abc import Sequence

import numpy as np
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

ARTICLES = re.compile(r"\b(a|an|the)\b")


def label_metrics(predicted: Sequence[str], true: Sequence[str]) -> dict[str, float]:
    """Accuracy, the mean of the labels' F1, and Matthews' correlation."""
    return {
        "accuracy": float(accuracy_score(true, predicted)),
        "f1": float(f1_score(true, predicted, average="macro", zero_division=0)),
        "matthews": float(matthews_corrcoef(true, predicted)),
    }


def number_metrics(predicted: Sequence[float], true: Sequence[float]) -> dict[str, float]:
    """Spearman's and Pearson's correlation, 0 where one side does not vary, and the root mean squared error."""
    given, wanted = np.asarray(predicted), np.asarray(true)
    varies = len(given) > 1 and np.ptp(given) > 0 and np.ptp(wanted) > 0
    return {
        "spearman": float(spearmanr(given, wanted).statistic) if varies else 0.0,
        "pearson": float(pearsonr(given, wanted).statistic) if varies else 0.0,
        "rmse": float(np.sqrt(np.mean((given - wanted) ** 2))),
    }


def answer_metrics(predicted: Sequence[str], true: Sequence[Sequence[str]]) -> dict[str, float]:
    """Exact match and F1 of words with the best of the true answers, as SQuAD's own script has them.

    A question without answers is right when nothing is answered.
    """
    pairs = [(answer, list(answers) or [""]) for answer, answers in zip(predicted, true, strict=True)]
    exact = [max(float(_plain(answer) == _plain(true)) for true in answers) for answer, answers in pairs]
    overlap = [max(_word_f1(answer, true) for true in answers) for answer, answers in pairs]
    return {"exact_match": float(np.mean(exact)), "f1": float(np.mean(overlap))}


def _word_f1(predicted: str, true: str) -> float:
    given, wanted = _plain(predicted).split(), _plain(true).split()
    if not given or not wanted:
        return float(given == wanted)
    common = sum((Counter(given) & Counter(wanted)).values())
    return 2 * common / (len(given) + len(wanted))


def _plain(answer: str) -> str:
    """Lower-case words without punctuation and articles."""
    letters = "".join(letter for letter in answer.lower() if letter not in string.punctuation)
    return " ".join(ARTICLES.sub(" ", letters).split())
