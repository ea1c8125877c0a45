"""What Tables 5.2 and 5.3 share: local and global search-aware training of taggers, from one start."""

from collections.abc import Mapping, Sequence

from lexergy.core.estimation.findings import Finding, above, similar
from lexergy.report.pages.study import Conclusion
from lexergy.studies.search_aware.comparison import (
    BEAM,
    CONTROLS,
    GREEDY,
    NO_CONTEXT,
    RAW,
    SOFT,
    START,
    TIME,
    UPDATES,
    Evidence,
    Printed,
    Row,
    Seen,
    better,
    carry_out,
    control_plans,
    gap,
    rows_panel,
    rows_table,
    soft_beam,
    start_plans,
    trained_plans,
)
from lexergy.studies.study import Settings, Size
from lexergy.tasks.search_aware.arms import ENCODERS, Arm, ArmLaboratory, arm

_BOTH = (1e-3, 3e-4)
SIZES = {
    "cpu": Size(
        "tagging-cpu",
        {
            **{"beam": 3, "alpha": 10.0, "epochs": 4.0},
            # The better of both on seed 0, for each kind.
            **dict.fromkeys(("local_rates", "global_rates", "control_rates"), (3e-4,)),
            "unidirectional_local_rates": (1e-3,),
        },
    ),
    "paper": Size(
        "paper/supertagging",
        {
            **{"beam": 5, "alpha": 10.0, "epochs": 50.0},
            **{"local_rates": _BOTH, "global_rates": _BOTH, "control_rates": _BOTH},
        },
    ),
}
LOCAL, GLOBAL = "soft beam, local", "soft beam, global"
METHOD = (
    "Taggers of UD English-EWT with composed labels (part of speech, relation, direction of the head, core arguments) "
    "stand in for CCGbank's supertags. The decoder starts from zeros and sees at step i the encoder's state at word i "
    "alone (5.4.2), so that with a unidirectional encoder it knows nothing of later words. Search-aware training is "
    "the direct loss (Hamming) of the continuous relaxation of beam search, alpha annealed; `local` takes its scores "
    "from a softmax at each step, `global` as they are. The thesis does not say which of its search's decodings are "
    f"of validation or test sentences. {CONTROLS}"
)


def examine(laboratory: ArmLaboratory, settings: Settings, start: str, rivals: Sequence[str] = ()) -> dict[Row, Seen]:
    """Both encoders, both normalisations; `rivals` are further objectives of the recipe, unidirectional."""
    seen = {Row("", NO_CONTEXT, ""): Seen(laboratory.most_frequent())}
    for encoder in ENCODERS:
        plans = start_plans(encoder, arm(start, encoder), settings)
        for label, normalisation in ((LOCAL, "local"), (GLOBAL, "global")):
            trained = soft_beam(start, settings, encoder, normalisation=normalisation)
            plans |= trained_plans(encoder, label, trained, settings)
        plans |= control_plans(
            laboratory, encoder, soft_beam(start, settings, encoder, normalisation="local"), settings
        )
        if encoder == "unidirectional":
            for rival in rivals:
                rows = trained_plans(encoder, rival, _like_soft_beam(rival, start, settings, encoder), settings)
                plans |= {row: plan for row, plan in rows.items() if row.decoding == BEAM}
        seen |= carry_out(laboratory, plans)
    return seen


def _like_soft_beam(rival: str, start: str, settings: Settings, encoder: str) -> Arm:
    soft = soft_beam(start, settings, encoder)
    return Arm(rival, soft.encoder, soft.changes)


def conclude(evidence: Sequence[Evidence], printed: Mapping[Row, Printed], findings: Sequence[Finding]) -> Conclusion:
    rows = list(evidence[0])
    return Conclusion(
        tables=(rows_table(evidence, rows, "accuracy", printed, group="encoder"),),
        panels=(rows_panel(evidence, rows[1:], "accuracy"),),
        findings=(*search_findings(evidence), *findings),
    )


def search_findings(evidence: Sequence[Evidence]) -> list[Finding]:
    """What is said of both starts (5.5.1 to 5.5.3)."""
    findings = []
    for encoder in ENCODERS:
        rows = {name: Row(encoder, START, name) for name in (GREEDY, BEAM, RAW)}
        local = Row(encoder, LOCAL, BEAM)
        findings += [
            better(evidence, f"{encoder}: beam search helps the start.", rows[BEAM], rows[GREEDY], "accuracy"),
            better(
                evidence,
                f"{encoder}: search-aware training of a locally normalised model improves upon its start.",
                *(local, rows[BEAM], "accuracy"),
            ),
            *against_controls(evidence, local, BEAM),
            better(
                evidence,
                f"{encoder}: a globally normalised model that was trained search-aware is above its start, decoded on "
                "raw scores without any further training.",
                *(Row(encoder, GLOBAL, BEAM), rows[RAW], "accuracy"),
            ),
            *against_controls(evidence, Row(encoder, GLOBAL, BEAM), RAW),
            similar(
                f"{encoder}: soft and hard beam search decode about as well.",
                "accuracy(soft beam) - accuracy(beam) of the local model, test",
                gap(evidence, Row(encoder, LOCAL, SOFT), local, "accuracy"),
                0.5,
            ),
        ]
    return findings


def against_controls(evidence: Sequence[Evidence], trained: Row, decoding: str) -> list[Finding]:
    """Does it do more than going on with the start's objective, decoded with the same kind of scores?"""
    return [
        better(
            evidence,
            f"{trained.group}: {trained.training} is above the start {control}.",
            *(trained, Row(trained.group, control, decoding), "accuracy"),
        )
        for control in (UPDATES, TIME)
    ]


def global_above_local(evidence: Sequence[Evidence], encoder: str, sentence: str) -> Finding:
    rows = Row(encoder, GLOBAL, BEAM), Row(encoder, LOCAL, BEAM)
    return above(
        sentence, f"accuracy({rows[0].label}) - accuracy({rows[1].label}), test", gap(evidence, *rows, "accuracy")
    )


def global_like_local(evidence: Sequence[Evidence], encoder: str, sentence: str) -> Finding:
    rows = Row(encoder, GLOBAL, BEAM), Row(encoder, LOCAL, BEAM)
    return similar(
        sentence, f"accuracy({rows[0].label}) - accuracy({rows[1].label}), test", gap(evidence, *rows, "accuracy"), 0.5
    )


def printed_rows(unidirectional: Sequence[float], bidirectional: Sequence[float]) -> dict[Row, Printed]:
    """Greedy, beam, local and global, as the thesis prints them; it decodes what it trains by soft beam."""
    return {
        Row(encoder, *row): Printed(test=value)
        for encoder, values in zip(ENCODERS, (unidirectional, bidirectional), strict=True)
        for row, value in zip(((START, GREEDY), (START, BEAM), (LOCAL, SOFT), (GLOBAL, SOFT)), values, strict=True)
    }
