import io

from rich.console import Console

from personae.training.progress import Moment, _live_lines, make_reporter

MOMENT = Moment(
    visit=3,
    num_visits=8,
    task="d3-010",
    steps=266_240,
    total_steps=819_200,
    training_return=0.87,
    evaluation=2.6,
    best_evaluation=8.0,
    steps_per_second=12_345.0,
    seconds_left=3_675.0,
)
PARTS = (
    "task 3/8 d3-010",
    "266,240/819,200 steps",
    "return 0.87",
    "evaluation 2.60/8",
    "12,345 steps/s",
    "ETA 1:01:15",
)


def test_piped_to_a_file_each_moment_is_a_plain_line(capsys):
    with make_reporter() as show:
        show(MOMENT)
        show(MOMENT)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[0].endswith(" | ".join(PARTS))


def test_on_a_narrow_terminal_every_part_is_whole():
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    with _live_lines(console) as show:
        show(MOMENT)
    for part in PARTS:
        assert part in console.file.getvalue()


def test_quiet_shows_nothing(capsys):
    with make_reporter(quiet=True) as show:
        show(MOMENT)
    assert capsys.readouterr() == ("", "")
