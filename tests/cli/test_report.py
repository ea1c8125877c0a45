"""`lexergy report` on a tiny run."""

from lexergy.cli.main import run_command


def test_report_prints_its_path(tiny_run, capsys):
    page = tiny_run / "report.html"
    page.unlink()
    capsys.readouterr()
    assert run_command(["report", str(tiny_run)]) == 0
    assert capsys.readouterr().out == f"{page}\n"
    assert "<script" not in page.read_text()
