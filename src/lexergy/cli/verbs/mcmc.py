"""`lexergy mcmc`: sample from a masked language model, and see whether the chains have mixed."""

import math
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lexergy.cli.options import Json, Seed, Temperature, TopP, at_least, new_file
from lexergy.cli.render import print_json, print_lines, print_paragraphs, print_table, to_plain, visible
from lexergy.errors import LexergyError

if TYPE_CHECKING:
    from lexergy.tasks.masked.mcmc import SampledSentence, Sampling

DEFAULT_LENGTH = 12


class TargetChoice(StrEnum):
    LOCAL = "local"
    RAW = "raw"


class SamplerChoice(StrEnum):
    METROPOLIS = "metropolis"
    GIBBS = "gibbs"


class OrderChoice(StrEnum):
    RANDOM = "random"
    SEQUENTIAL = "sequential"


class StartChoice(StrEnum):
    SAMPLED = "sampled"
    GREEDY = "greedy"
    GIBBS = "gibbs"
    DISPERSED = "dispersed"


MaskedModel = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A masked LM: its folder, a Hub name, or a run with a `masked_lm`.",
    ),
]
Prompts = Annotated[
    list[str] | None,
    typer.Option("--prompt", help="Text with [MASK] for each token to fill in; several are sampled together."),
]
Sources = Annotated[
    list[str] | None,
    typer.Option(
        "--translate", help="A sentence whose translations to sample, where MODEL is a conditional masked LM."
    ),
]
Length = Annotated[
    int | None,
    typer.Option(
        "--length",
        help="Without a prompt: how many tokens to write.",
        show_default=str(DEFAULT_LENGTH),
        callback=at_least(1, "12 is a good start"),
    ),
]
NumChains = Annotated[
    int,
    typer.Option("--chains", help="Chains per sentence.", callback=at_least(1, "4 or more tell whether they mixed")),
]
NumSweeps = Annotated[
    int,
    typer.Option("--sweeps", help="How often each position is visited.", callback=at_least(1, "100 is a good start")),
]
BurnIn = Annotated[
    int,
    typer.Option(
        "--burn-in", help="First sweeps, left out of all numbers.", callback=at_least(0, "20 is a good start")
    ),
]
Target = Annotated[
    TargetChoice,
    typer.Option("--target", help="The energy sampled from: of locally normalised, or of raw masked logits."),
]
Sampler = Annotated[
    SamplerChoice,
    typer.Option("--sampler", help="`gibbs` takes every proposal: a baseline that samples from no energy."),
]
Order = Annotated[OrderChoice, typer.Option("--order", help="Order of the positions in a sweep.")]
BlockSize = Annotated[
    int,
    typer.Option("--block-size", help="Positions proposed together.", callback=at_least(1, "1 changes one at a time")),
]
LastBlockSize = Annotated[
    int | None,
    typer.Option(
        "--last-block-size",
        help="Block size of the last sweep, approached linearly.",
        show_default="that of the first",
        callback=at_least(1, "1 as in the thesis"),
    ),
]
Cooling = Annotated[
    float,
    typer.Option(
        "--cooling",
        help="Lower the target's temperature by this much per sweep: seek modes.",
        callback=at_least(0, "0.02 as in the thesis"),
    ),
]
Start = Annotated[
    StartChoice,
    typer.Option(
        "--start",
        help="Fill the masks by drawing, or greedily (all chains alike); `gibbs`: greedily, then two sweeps of it; "
        "`dispersed`: greedily, by Mask-Predict, at random and by hot Gibbs sampling in turn.",
    ),
]
Plot = Annotated[
    Path | None,
    typer.Option("--plot", help="Write the energies of all chains, sweep by sweep, to this PNG.", callback=new_file),
]


def mcmc(
    model: MaskedModel,
    prompt: Prompts = None,
    translate: Sources = None,
    length: Length = None,
    chains: NumChains = 8,
    sweeps: NumSweeps = 100,
    burn_in: BurnIn = 20,
    target: Target = TargetChoice.LOCAL,
    sampler: Sampler = SamplerChoice.METROPOLIS,
    order: Order = OrderChoice.RANDOM,
    block_size: BlockSize = 1,
    last_block_size: LastBlockSize = None,
    temperature: Temperature = 1.0,
    top_p: TopP = None,
    cooling: Cooling = 0.0,
    start: Start = StartChoice.SAMPLED,
    plot: Plot = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Sample from a masked language model by Metropolis-Hastings.

    Proposals come from the model's own masked conditionals and are accepted by the energy that the model defines
    (Goyal 2021, chapter 6). Says whether the chains have mixed: split R-hat and effective sample size of the energy.

    Examples:

    \b
      lexergy mcmc runs/from-scratch --length 12 --chains 8
      lexergy mcmc runs/from-scratch --prompt "the [MASK] [MASK] of the union" --sweeps 200
      lexergy mcmc path/to/bert --length 20 --block-size 5 --last-block-size 1 --plot chains.png
      lexergy mcmc runs/reproduce/translation-cpu-seed0 --translate "Ich habe Hunger." --cooling 0.02
    """
    _check(prompt, translate, length, burn_in, sweeps)

    from lexergy.core.decoding import Decoding
    from lexergy.core.mcmc.sweeps import Schedule
    from lexergy.tasks.masked.mcmc import Sampling, open_masked_lm, sample_masked_lm

    sampling = Sampling(
        schedule=Schedule(sweeps, order.value, block_size, last_block_size, cooling),
        chains=chains,
        energy=target.value,
        sampler=sampler.value,
        decoding=Decoding(temperature=temperature, top_p=top_p),
        start=start.value,
        burn_in=burn_in,
        seed=seed,
    )
    lm, templates = open_masked_lm(model, prompt or [], translate or [], length or DEFAULT_LENGTH)
    sentences = sample_masked_lm(lm, templates, sampling, progress=True)
    titles = prompt or translate or ["written freely"]
    if plot is not None:
        _plot(plot, titles, sentences, burn_in)
    _print(titles, sentences, sampling, plot, as_json)


def _check(
    prompt: list[str] | None, translate: list[str] | None, length: int | None, burn_in: int, sweeps: int
) -> None:
    if prompt and length is not None:
        raise LexergyError(
            f"`--length` is {length} beside `--prompt`, whose masks say how many tokens there are; leave one out."
        )
    if translate and (prompt or length is not None):
        raise LexergyError("`--translate` is given beside `--prompt` or `--length`; expected it alone; leave one out.")
    if burn_in >= sweeps:
        raise LexergyError(f"`--burn-in` is {burn_in} of {sweeps} sweeps; expected fewer; make more `--sweeps`.")


def _print(
    titles: list[str], sentences: "list[SampledSentence]", sampling: "Sampling", plot: Path | None, as_json: bool
) -> None:
    pairs = list(zip(titles, sentences, strict=True))
    if as_json:
        print_json(
            [{"prompt": title, **to_plain(sentence), "mixed": sentence.mixing.mixed} for title, sentence in pairs]
        )
        return
    for title, sentence in pairs:
        _print_sentence(title, sentence, sampling)
    if plot is not None:
        print_lines(f"Picture: {plot}")


def _print_sentence(title: str, sentence: "SampledSentence", sampling: "Sampling") -> None:
    rows = [
        (visible(sample.text), f"{sample.energy:.2f}", f"{sample.acceptance:.0%}", f"{sample.novel:.0%}")
        for sample in sentence.samples
    ]
    print_table(visible(title), ("where a chain ended", "energy", "accepted", "novel"), rows)
    print_paragraphs(
        f"Of all proposals {sentence.acceptance:.0%} were accepted and {sentence.novel:.0%} changed the sentence.",
        _verdict(sentence, sampling),
    )


def _verdict(sentence: "SampledSentence", sampling: "Sampling") -> str:
    """What the numbers allow to say of the chains."""
    from lexergy.core.mcmc.diagnostics import LEAST_ESS

    if sampling.sampler == "gibbs":
        return "Degenerate Gibbs sampling: these sentences follow no energy's distribution."
    if sampling.schedule.cooling:
        return "The target was cooled: these sentences lie around its modes, they are no sample from it."
    mixing = sentence.mixing
    draws = mixing.num_chains * mixing.num_draws
    numbers = f"split R-hat {mixing.r_hat:.3f}, effective sample size {mixing.ess:.0f} of {draws}"
    if mixing.mixed:
        return f"The chains have mixed: {numbers}."
    if math.isnan(mixing.r_hat):
        return (
            "WARNING: whether the chains have mixed cannot be told: it takes two chains or more, four sweeps or more "
            "after the burn-in, and energies that change."
        )
    return (
        f"WARNING: the chains have not mixed ({numbers}; expected R-hat below {mixing.r_hat_limit:.3g} and an "
        f"effective sample size of {LEAST_ESS:.0f}): treat the sentences as where the chains happened to be; make more "
        "`--sweeps`, or larger blocks at first (`--block-size 4 --last-block-size 1`)."
    )


def _plot(path: Path, titles: list[str], sentences: "list[SampledSentence]", burn_in: int) -> None:
    from lexergy.files import atomic_write_bytes
    from lexergy.report.figures.panels import draw_panels
    from lexergy.report.figures.picture import Panel, Series

    panels = tuple(
        Panel(
            xlabel=f"sweep (the first {burn_in} are burn-in)",
            ylabel="energy",
            title=title,
            series=tuple(Series("", range(1, len(trace) + 1), trace) for trace in sentence.energies.tolist()),
        )
        for title, sentence in zip(titles, sentences, strict=True)
    )
    atomic_write_bytes(path, draw_panels(panels))
