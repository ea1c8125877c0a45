"""What a detector has to beat: words counted, and the likelihood of an LM."""

from collections.abc import Sequence

import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor


def tf_idf_energies(train: Sequence[str], is_machine: Sequence[bool], texts: Sequence[str]) -> Tensor:
    """Log-odds of `texts` under TF-IDF of words and word pairs with logistic regression, fitted on `train`: (N,)."""
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    model = make_pipeline(words, LogisticRegression(C=10.0, class_weight="balanced", max_iter=1000))
    return torch.from_numpy(model.fit(train, is_machine).decision_function(texts))


def likelihood_energies(train: Tensor, is_machine: Tensor, log_probs: Tensor) -> Tensor:  # (N,), (N,), (M,) -> (M,)
    """The mean log-probability of a text's tokens as its energy, scaled and shifted on training texts."""
    model = make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced"))
    model.fit(train.double().numpy()[:, None], is_machine.numpy())
    return torch.from_numpy(model.decision_function(log_probs.double().numpy()[:, None]))
