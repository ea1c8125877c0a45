import csv
import io

from lexergy.report.table import Table, comma_separated, markdown

TABLE = Table("", ("model", "nats ", "samples", "note"), [("x | y\nz\\", 1 / 3, 12345, None), ("", None, 7, "yes")])


def test_text_of_models_cannot_break_a_row():
    assert markdown(TABLE).splitlines() == [
        "| model | nats  | samples | note |",
        "| --- | ---: | ---: | --- |",
        "| x \\| y z\\\\ | 0.3333 | 12345 |  |",
        "|  |  | 7 | yes |",
    ]


def test_programs_get_all_digits():
    rows = list(csv.reader(io.StringIO(comma_separated(TABLE))))
    assert rows[0] == ["model", "nats", "samples", "note"]
    assert rows[1] == ["x | y\nz\\", str(1 / 3), "12345", ""]


def test_columns_can_be_chosen_and_turned_into_rows():
    assert TABLE.text_columns == [0, 3]
    assert TABLE.select([2, 0]) == Table("", ("samples", "model"), [(12345, "x | y\nz\\"), (7, "")])
    turned = Table("", ("", "a", "b"), [("row", 1, 2.0), ("next", 3, None)]).transposed
    assert (turned.columns, turned.rows) == (("", "row", "next"), [("a", 1, 3), ("b", 2.0, None)])
    assert turned.transposed.transposed == turned
