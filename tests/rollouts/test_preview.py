"""What agents would do before they train, along the optimal path."""

import numpy as np

from personae.report import read_record


def test_every_visit_begins_with_a_preview(lives, tiny):
    for method, record in lives.items():
        previews = read_record(record.directory).previews
        assert [p.task for p in previews] == [t.name for t in tiny.tasks], method
        for preview, task in zip(previews, tiny.tasks, strict=True):
            turns = [1 + turn for turn in task.options["goal"]]
            # Home, then a wait before each decision, and one before the leaf.
            expected = [0, *(step for turn in turns for step in (0, turn)), 0]
            assert preview.actions.tolist() == expected
            assert preview.probabilities.shape == (2, len(expected), 3)
            np.testing.assert_allclose(preview.probabilities.sum(-1), 1, rtol=1e-4)


def test_masks_have_opinions_and_a_new_head_has_none(lives, baselines):
    """As the paper says of EWC with a head per task: uniform, whatever was learned."""
    ewc, lc = baselines["ewc-mh"].previews[2], lives["mask-lc"].previews[2]
    np.testing.assert_allclose(ewc.probabilities, 1 / 3, atol=0.02)
    assert np.abs(lc.probabilities - 1 / 3).max() > 0.05


def test_a_preview_is_of_the_agent_that_starts_to_train(lives):
    """On the first task masks of all methods start from the same scores."""
    first = [record.previews[0].probabilities for record in lives.values()]
    np.testing.assert_array_equal(first[0], first[1])
    np.testing.assert_array_equal(first[0], first[2])
    third = [lives[m].previews[2].probabilities for m in ("mask-ri", "mask-lc")]
    assert (third[0] != third[1]).any()
