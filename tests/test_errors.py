"""Tests of the messages about unknown names."""

import pytest

from personae.errors import UsageError, nearest_match_error


@pytest.mark.parametrize(
    ("name", "suggestion"), [("mask-cl", "mask-lc"), ("lc", "mask-lc"), ("zzz", None)]
)
def test_the_nearest_name_and_all_others_are_listed(name, suggestion):
    error = nearest_match_error("method", name, ["ppo", "mask-lc", "expert"])
    hint = f" Did you mean '{suggestion}'?" if suggestion else ""
    listed = "Allowed: expert, mask-lc, ppo."
    assert str(error) == f"unknown method {name!r}.{hint} {listed}"
    assert isinstance(error, UsageError)


def test_only_the_nearest_of_very_many_names_are_listed():
    games = [f"{kind}Game{number}-v0" for kind in "ABC" for number in range(500)]
    message = str(nearest_match_error("game", "AGame77-v1", games))
    assert "Did you mean 'AGame77-v0'? Allowed: 1,500 names, such as AGame" in message
    assert len(message) < 300
    hundred = str(nearest_match_error("game", "AGame77-v1", games[:100]))
    assert all(game in hundred for game in games[:100])
    shortened = str(nearest_match_error("game", "AGame77-v1", games[:101]))
    assert "101 names, such as" in shortened
