"""Can the classes be told apart without reading? A classifier on storage artefacts alone says so.

A detector that is trained where lengths, line breaks or quotes give the classes away learns those first, looks
excellent on its own test set, and fails on everybody else's texts.
"""

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

ALARM = 0.6  # balanced accuracy from which a shortcut is worth a warning
FOLDS = 5

Measure = Callable[[str], tuple[float, ...]]


def _per_word(text: str, pattern: str) -> float:
    return len(re.findall(pattern, text)) / max(1, len(text.split()))


SHORTCUTS: dict[str, Measure] = {
    "length": lambda text: (np.log1p(len(text)), np.log1p(len(text.split()))),
    "line breaks": lambda text: (_per_word(text, r"\n"), _per_word(text, r"\n\s*\n"), float("\n" in text)),
    "other whitespace": lambda text: (
        _per_word(text, r"[^\S\n ]"),
        _per_word(text, r"  +"),
        _per_word(text, r" [,.;:!?]"),
        float(text != text.strip()),
    ),
    "end of text": lambda text: (
        float(text.rstrip()[-1:] in set(".!?")),
        float(text.rstrip()[-1:].isalnum()),
    ),
    "quotes and encoding": lambda text: (
        _per_word(text, "[‘’“”«»„]"),
        _per_word(text, r"[\"']"),
        _per_word(text, "[–—…]"),
        sum(not letter.isascii() for letter in text) / max(1, len(text)),
    ),
    "punctuation": lambda text: tuple(_per_word(text, re.escape(mark)) for mark in ".,;:!?-()"),
}


@dataclass(frozen=True)
class ShortcutAudit:
    """Balanced accuracy, by cross-validation over groups, of a classifier that reads no word."""

    accuracy: float  # all shortcuts together
    by_shortcut: dict[str, float]

    @property
    def alarming(self) -> dict[str, float]:
        """The shortcuts that tell the classes apart on their own, the most telling first."""
        telling = {name: value for name, value in self.by_shortcut.items() if value >= ALARM}
        return dict(sorted(telling.items(), key=lambda item: -item[1]))


def audit_shortcuts(texts: Sequence[str], is_machine: Sequence[bool], groups: Sequence[str]) -> ShortcutAudit:
    """What length, whitespace, ends, quotes and punctuation tell on their own (logistic regression)."""
    columns = {name: np.array([measure(text) for text in texts], dtype=float) for name, measure in SHORTCUTS.items()}
    labels = np.asarray(is_machine, dtype=bool)
    return ShortcutAudit(
        accuracy=_accuracy(np.concatenate(list(columns.values()), 1), labels, groups),
        by_shortcut={name: _accuracy(values, labels, groups) for name, values in columns.items()},
    )


def _accuracy(features: np.ndarray, labels: np.ndarray, groups: Sequence[str]) -> float:
    folds = min(FOLDS, len(set(groups)))
    if folds < 2 or not features.std(0).any():
        return 0.5
    model = make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced", max_iter=1000))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fold may hold one class only: its texts count as mistaken or not
        predicted = cross_val_predict(model, features, labels, groups=groups, cv=GroupKFold(folds))
    return float(balanced_accuracy_score(labels, predicted))
