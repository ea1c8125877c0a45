"""`lexergy mcmc`: sample from a masked language model, and see whether the chains have mixed."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lexergy.cli.options import Json, Seed, at_least, positive, share
from lexergy.cli.render import print_json, print_lines, print_paragraphs, print_table, to_plain, visible
from lexergy.errors import LexergyError

if TYPE_CHECKING:
    from lexergy.models.masked.lm import MaskedLM
    from lexergy.tasks.masked.mcmc import SampledSentence, Sampling

DEFAULT_LENGTH = 12


class EnergyChoice(StrEnum):
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


def mcmc(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A masked LM: its folder, a Hub name, or a run with a `masked_lm`.")
    ],
    prompt: Annotated[
        list[str] | None,
        typer.Option(help="Text with [MASK] for each token to fill in; several are sampled together."),
    ] = None,
    translate: Annotated[
        list[str] | None,
        typer.Option(help="A sentence whose translations to sample, where MODEL is a conditional masked LM."),
    ] = None,
    length: Annotated[
        int | None,
        typer.Option(
            help="Without a prompt: how many tokens to write.",
            show_default=str(DEFAULT_LENGTH),
            callback=at_least(1, "12 is a good start"),
        ),
    ] = None,
    chains: Annotated[
        int, typer.Option(help="Chains per sentence.", callback=at_least(1, "4 or more tell whether they mixed"))
    ] = 8,
    sweeps: Annotated[
        int, typer.Option(help="How often each position is visited.", callback=at_least(1, "33 as in the thesis"))
    ] = 33,
    burn_in: Annotated[
        int, typer.Option(help="First sweeps that no number counts.", callback=at_least(0, "7 as in the thesis"))
    ] = 7,
    energy: Annotated[EnergyChoice, typer.Option(help="Locally normalised, or raw masked logits.")] = (
        EnergyChoice.LOCAL
    ),
    sampler: Annotated[
        SamplerChoice, typer.Option(help="`gibbs` takes every proposal: a baseline that samples from no energy.")
    ] = SamplerChoice.METROPOLIS,
    order: Annotated[OrderChoice, typer.Option(help="Of the positions in a sweep.")] = OrderChoice.RANDOM,
    block_size: Annotated[
        int, typer.Option(help="Positions proposed together.", callback=at_least(1, "1 changes one at a time"))
    ] = 1,
    last_block_size: Annotated[
        int | None,
        typer.Option(
            help="Let the block size go there linearly.",
            show_default="it stays",
            callback=at_least(1, "1 as in the thesis"),
        ),
    ] = None,
    temperature: Annotated[
        float, typer.Option(help="Of the proposals.", callback=positive("1 leaves them as they are"))
    ] = 1.0,
    top_p: Annotated[
        float | None,
        typer.Option(help="Propose from the nucleus of this probability.", callback=share("leave it out")),
    ] = None,
    cooling: Annotated[
        float,
        typer.Option(
            help="Lower the target's temperature by this much per sweep: seek modes.",
            callback=at_least(0, "0.02 as in the thesis"),
        ),
    ] = 0.0,
    start: Annotated[
        StartChoice,
        typer.Option(
            help="Fill the masks by drawing, or greedily (all chains alike); `gibbs`: greedily, then two sweeps of it."
        ),
    ] = StartChoice.SAMPLED,
    plot: Annotated[
        Path | None, typer.Option(help="Write the energies of all chains, sweep by sweep, as a PNG.")
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Sample from a masked language model by Metropolis-Hastings.

    Proposals come from the model's own masked conditionals and are accepted by the energy that the model defines
    (Goyal 2021, chapter 6). Says whether the chains have mixed: split R-hat and effective sample size of the energy.

    Examples:

    \b
      lexergy mcmc runs/from-scratch --length 12 --chains 8
      lexergy mcmc runs/from-scratch --prompt "the [MASK] [MASK] of the union" --sweeps 100
      lexergy mcmc path/to/bert --length 20 --block-size 5 --last-block-size 1 --plot chains.png
      lexergy mcmc runs/reproduce/translation-cpu-seed0 --translate "Ich habe Hunger." --cooling 0.02
    """
    if prompt and length is not None:
        raise LexergyError(
            f"`--length` is {length} beside `--prompt`, whose masks say how many tokens there are; leave one out."
        )
    if translate and (prompt or length is not None):
        raise LexergyError("`--translate` is given beside `--prompt` or `--length`; expected it alone; leave one out.")
    if burn_in >= sweeps:
        raise LexergyError(f"`--burn-in` is {burn_in} of {sweeps} sweeps; expected fewer; make more `--sweeps`.")

    from lexergy.core.decoding import Decoding
    from lexergy.core.mcmc.sweeps import Schedule
    from lexergy.tasks.masked.mcmc import Sampling, sample_masked_lm

    sampling = Sampling(
        schedule=Schedule(sweeps, order.value, block_size, last_block_size, cooling),
        chains=chains,
        energy=energy.value,
        sampler=sampler.value,
        decoding=Decoding(temperature=temperature, top_p=top_p),
        start=start.value,
        burn_in=burn_in,
        seed=seed,
    )
    lm, templates = _read(model, prompt, translate, length or DEFAULT_LENGTH)
    prompt = prompt or translate
    sentences = sample_masked_lm(lm, templates, sampling, progress=True)
    if plot is not None:
        _plot(plot, prompt, sentences, burn_in)
    if as_json:
        print_json([_plain(one, text) for one, text in zip(sentences, _titles(prompt, sentences), strict=True)])
        return
    for title, sentence in zip(_titles(prompt, sentences), sentences, strict=True):
        _print(title, sentence, sampling)
    if plot is not None:
        print_lines(f"Picture: {plot}")


def _read(
    model: str, prompt: list[str] | None, translate: list[str] | None, length: int
) -> "tuple[MaskedLM, list[list[int]]]":
    """The model, and the rows whose masks it is to fill."""
    from lexergy.models.masked.conditional import ConditionalMaskedLM
    from lexergy.models.masked.lm import MaskedLM

    if translate:
        translator = ConditionalMaskedLM.from_pretrained(model)
        return translator, translator.templates(translate)
    lm = MaskedLM.from_pretrained(model)
    return lm, [lm.encode(text) for text in prompt] if prompt else [lm.blank(length)]


def _titles(prompt: list[str] | None, sentences: "list[SampledSentence]") -> list[str]:
    return list(prompt) if prompt else ["written freely"] * len(sentences)


def _plain(sentence: "SampledSentence", title: str) -> dict:
    return {"prompt": title, **to_plain(sentence), "mixed": sentence.mixing.mixed}


def _print(title: str, sentence: "SampledSentence", sampling: "Sampling") -> None:
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
    if sampling.sampler == "gibbs":
        return "Degenerate Gibbs sampling: these sentences follow no energy's distribution."
    if sampling.schedule.cooling:
        return "The target was cooled: these sentences lie around its modes, they are no sample from it."
    found = sentence.mixing
    draws = found.num_chains * found.num_draws
    numbers = f"split R-hat {found.r_hat:.3f}, effective sample size {found.ess:.0f} of {draws}"
    if found.mixed:
        return f"The chains have mixed: {numbers}."
    if found.r_hat != found.r_hat:
        return (
            "WARNING: whether the chains have mixed cannot be told: it takes two chains or more, four sweeps or more "
            "after the burn-in, and energies that change."
        )
    return (
        f"WARNING: the chains have not mixed ({numbers}; expected R-hat below 1.01 and 50 per chain): treat them as "
        "where the chains happened to be; make more `--sweeps`, or larger blocks at first (`--block-size 4 "
        "--last-block-size 1`)."
    )


def _plot(path: Path, prompt: list[str] | None, sentences: "list[SampledSentence]", burn_in: int) -> None:
    from lexergy.files import atomic_write_bytes
    from lexergy.report.panels import draw_panels
    from lexergy.report.picture import Panel, Series

    panels = tuple(
        Panel(
            xlabel=f"sweep (the first {burn_in} are burn-in)",
            ylabel="energy",
            title=title,
            series=tuple(Series("", range(1, len(trace) + 1), trace) for trace in sentence.energies.tolist()),
        )
        for title, sentence in zip(_titles(prompt, sentences), sentences, strict=True)
    )
    atomic_write_bytes(path, draw_panels(panels))
