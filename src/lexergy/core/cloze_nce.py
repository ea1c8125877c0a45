"""Noise contrastive estimation at each position of a sequence: how Electric learns p(x_t | all other tokens).

Clark et al. (2020), "Pre-Training Transformers as Energy-Based Cloze Models". An unnormalised cloze model is
p^(x_t | x_\\t) = exp(-E(x)_t); a noise distribution q(x_t | x_\\t) can be sampled and scored.
"""

import math

import torch
import torch.nn.functional as functional
from torch import Tensor

NOISE_SHARE = 0.15


def num_noise_positions(length: int) -> int:
    """k = ceil(0.15 n), Sec. 2.3."""
    return math.ceil(NOISE_SHARE * length)


def noise_logits(
    energies: Tensor,  # (...)
    noise_log_prob: Tensor,  # (...), log q of the same tokens
    num_noise: int,
    num_data: int,
) -> Tensor:  # (...)
    """The log-odds that a token is noise, with `num_noise` noise tokens for every `num_data` tokens of the data.

    E(x)_t + log(k q(x_t | x_\\t) / n), Sec. 2.5: ELECTRA's classifier is the same without the second term. In
    Algorithm 2, which replaces k tokens of n, the data's are n - k.
    """
    return energies + noise_log_prob + math.log(num_noise / num_data)


def classifier_losses(logits: Tensor, is_noise: Tensor) -> Tensor:  # (...), (...) bool -> (...)
    """-log P(the right answer): softplus(-logit) where a token is noise, softplus(logit) elsewhere."""
    return functional.softplus(torch.where(is_noise, -logits, logits))


def naive_nce_loss(
    data_energies: Tensor,  # (B, n), of every token of the sequences
    data_noise_log_prob: Tensor,  # (B, n)
    noise_energies: Tensor,  # (B, k), each of a sequence with this one token replaced, at a random position
    noise_log_prob: Tensor,  # (B, k)
) -> Tensor:  # (B,)
    """Algorithm 1: n data points and k negatives a sequence, in k + 1 passes; an unbiased estimate of the loss.

    n E_{x,t}[-log (n p^ / (n p^ + k q))] + k E_{x,t,x^~q}[-log (k q / (n p^ + k q))], Sec. 2.2. It is smallest where
    exp(-E) is the data's conditional, so that Z = 1.
    """
    num_data, num_noise = data_energies.shape[-1], noise_energies.shape[-1]
    data = noise_logits(data_energies, data_noise_log_prob, num_noise, num_data)
    noise = noise_logits(noise_energies, noise_log_prob, num_noise, num_data)
    return functional.softplus(data).sum(-1) + functional.softplus(-noise).sum(-1)


def one_pass_logits(
    energies: Tensor,  # (B, n), of the tokens of the sequences after replacement
    noise_log_prob: Tensor,  # (B, n), log q of those tokens given the *original* sequence's others
    num_noise: int,
) -> Tensor:  # (B, n)
    """The log-odds of Algorithm 2, which replaces `num_noise` of the n tokens at once and needs a single pass.

    Its loss is `classifier_losses(logits, is_noise)` summed over positions. A replaced position is noise even where
    the token drawn is the one that was there. It equals Algorithm 1's loss in expectation (with n - k data points)
    if E at a position does not change when other tokens are replaced.
    """
    return noise_logits(energies, noise_log_prob, num_noise, energies.shape[-1] - num_noise)


def choose_positions(uniforms: Tensor, count: int) -> Tensor:  # (B, n) in [0, 1) -> (B, count)
    """`count` different positions of each row, uniformly at random."""
    return uniforms.topk(count).indices


def weakened_noise(
    logits: Tensor,  # (..., V), of the noise
    frequencies: Tensor,  # (V,), log-probabilities of tokens without context
    strength: float,
) -> Tensor:  # (..., V)
    """Logits of q^s p(v)^(1 - s): from the tokens' frequencies (s = 0) to the noise itself (s = 1) (ours).

    NCE is right whatever the noise; the weaker it is, the easier it is told from text.
    """
    return strength * logits.log_softmax(-1) + (1 - strength) * frequencies


def classifier_accuracy(logits: Tensor, is_noise: Tensor) -> float:  # (...), (...) bool
    """The mean of the accuracies on data and on noise, of calling noise what has a positive logit."""
    right = ((logits > 0) == is_noise).double()
    return float((right[is_noise].mean() + right[~is_noise].mean()) / 2)


def log_mean_partition(noise_energies: Tensor, noise_log_prob: Tensor) -> float:  # (N,), (N,), of the noise's tokens
    """log of the mean of Z(x_\\t) = E_q[exp(-E) / q] over positions, by importance sampling; 0 at the optimum."""
    log_ratios = -(noise_energies.detach().double() + noise_log_prob.detach().double())
    return float(log_ratios.logsumexp(0) - math.log(len(log_ratios)))


def electra_log_prob(energies: Tensor, noise_log_prob: Tensor, noise_share: float) -> Tensor:  # (...) each
    """log p(x_t | x_\\t) that ELECTRA's classifier sigma(E) implies together with its generator q.

    ELECTRA calls a token replaced where it differs from the original. At the classifier's optimum, with a share a of
    positions resampled, exp(E) = a q (1 - p) / (p (1 - a + a q)), hence

        p = a q / (a q + exp(E) (1 - a + a q))

    (as in App. G, Clark et al. 2020, "ELECTRA").
    """
    resampled = math.log(noise_share) + noise_log_prob
    kept_or_resampled = torch.logaddexp(torch.full_like(resampled, math.log1p(-noise_share)), resampled)
    return functional.logsigmoid(resampled - energies - kept_or_resampled)
