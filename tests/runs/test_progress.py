import io

from rich.console import Console

from personae.runs.progress import _live_lines, make_reporter

PARTS = (
    "task 3/8 d3-010",
    "266,240/819,200 steps",
    "return 0.87",
    "evaluation 2.60/8",
    "12,345 steps/s",
    "ETA 1:01:15",
)


def test_in_a_file_progress_is_a_line(capsys, progress):
    with make_reporter() as show:
        show(progress)
        show(progress)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[0].endswith(" | ".join(PARTS))


def test_on_a_narrow_terminal_every_part_is_whole(progress):
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    with _live_lines(console) as show:
        show(progress)
    for part in PARTS:
        assert part in console.file.getvalue()


def test_quiet_shows_nothing(capsys, progress):
    with make_reporter(quiet=True) as show:
        show(progress)
    assert capsys.readouterr() == ("", "")
