"""Shapes by name: the generators and energies of "Real or fake" (2020, Tables 9 and 10), and small ones for a CPU.

A section of a recipe takes one with `preset: transf-big`; keys written beside it count. The paper's numbers of
parameters, in millions, embeddings + the rest, all follow from a vocabulary of `PAPER_VOCABULARY`, GPT-2's (the text
says 50k), and from these readings:

- TransfHuge is 1536 wide: 77 + 1360. At fairseq's 1600 for "transformer_lm_gpt2_big" it would have 80 + 1475. The 25
  heads of the text do not divide 1536.
- BiLSTM big has embeddings of 768 and 1024 hidden units (39 + 90), not 758 and 2014: 758 gives 38, and 2014 gives 337.
- Conv has 12 layers. Its widths are not printed; fairseq's "fconv_lm" has kernels of 4 and an output layer of its own,
  with which embeddings of 256 and layers of 1250 give 13 + 164 = 176.
- Positions are sinusoids, which have no parameters; those of our OPTs are learnt, and are not counted.
- UniTransf (51 + 151) is a `unit` energy from TransfBig; BiTransf (51 + 304) an `encoder` from
  FacebookAI/roberta-large, pooled at the `first` position, RoBERTa's pooling layer of 1 M counted, which the formula of
  Sec. 4.3 does not have. Linear has a number for each token: .05, printed as .1.
"""

from typing import Any

PAPER_VOCABULARY = 50257

GENERATORS: dict[str, dict[str, Any]] = {
    "conv": {
        "architecture": "gated_conv",
        "embedding_size": 256,
        "hidden_size": 1250,
        "num_layers": 12,
        "kernel_size": 4,
    },
    "transf-small": {"architecture": "opt", "hidden_size": 512, "num_layers": 6, "num_heads": 8},
    "transf-big": {"architecture": "opt", "hidden_size": 1024, "num_layers": 12, "num_heads": 16},
    "transf-huge": {"architecture": "opt", "hidden_size": 1536, "num_layers": 48, "num_heads": 24},
    # Weights beside the embeddings in about the paper's proportions; Llamas, which are sampled fastest on a CPU.
    "conv-cpu": {
        "architecture": "gated_conv",
        "embedding_size": 64,
        "hidden_size": 96,
        "num_layers": 6,
        "kernel_size": 4,
    },
    "transf-small-cpu": {"hidden_size": 64, "num_layers": 2, "num_heads": 4},
    "transf-big-cpu": {"hidden_size": 128, "num_layers": 4, "num_heads": 4},
    "transf-huge-cpu": {"hidden_size": 256, "num_layers": 8, "num_heads": 8},
}

BILSTMS: dict[str, dict[str, Any]] = {
    "bilstm-small": {"embedding_size": 512, "hidden_size": 512, "num_layers": 4},
    "bilstm-big": {"embedding_size": 768, "hidden_size": 1024, "num_layers": 4},
    "bilstm-small-cpu": {"embedding_size": 64, "hidden_size": 64, "num_layers": 2},
    "bilstm-big-cpu": {"embedding_size": 96, "hidden_size": 128, "num_layers": 2},
}


def with_preset(keys: Any, presets: dict[str, dict[str, Any]]) -> Any:
    """A section's keys with those of the preset that it names filled in."""
    if not isinstance(keys, dict) or "preset" not in keys:
        return keys
    written = {key: value for key, value in keys.items() if key != "preset"}
    if keys["preset"] not in list(presets):  # a list is asked: what a file gives need not be hashable
        raise ValueError(f"`preset` is {keys['preset']}; expected one of {', '.join(presets)}")
    return presets[keys["preset"]] | written
