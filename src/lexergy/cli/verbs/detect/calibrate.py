"""`lexergy detect calibrate`: a detector for another kind of text, by its bias alone."""

from typing import Annotated

import typer

from lexergy.cli.options import Json, LocalOut
from lexergy.cli.render import lexergy_command, print_json, print_lines, print_table
from lexergy.cli.verbs.detect.options import DetectorFolder
from lexergy.cli.verbs.detect.train import Human, HumanField, MachineField

MachineTexts = Annotated[list[str], typer.Option("--machine", help="Texts by machines, given in the same way.")]


def calibrate(
    model: DetectorFolder,
    human: Human,
    machine: MachineTexts,
    out: LocalOut,
    human_field: HumanField = "text",
    machine_field: MachineField = "text",
    as_json: Json = False,
) -> None:
    """Fit a detector's bias to another kind of text, from a few texts whose writers are known.

    On texts of another kind the energies of people and machines alike are shifted first of all, so that the detector
    accuses everybody or nobody. Twenty texts of either kind mend that; nothing else of the detector changes.

    Examples:

    \b
      lexergy detect calibrate runs/detector --human letters/ --machine written/ --out runs/letters
    """
    from lexergy.tasks.detection.calibrating import recalibrate
    from lexergy.tasks.detection.examples import load_examples

    examples = load_examples(human, machine, human_field=human_field, machine_field=machine_field)
    result = recalibrate(model, examples, out)
    if as_json:
        print_json(result)
        return
    print_table(
        f"Offset {result.before.offset:+.2f} before, {result.after.offset:+.2f} now",
        ("texts", "number", "mean P(machine) before", "now"),
        [
            (name, str(count), f"{result.probability_before[name]:.3f}", f"{result.probability_after[name]:.3f}")
            for name, count in result.texts.items()
        ],
    )
    print_lines(f"Detector: {result.folder}", "", "Next:", f"  {lexergy_command()} detect {result.folder} FILE...")
