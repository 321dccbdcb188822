"""Measures of a run, and their statistics, with numpy and scipy only."""

from personae.metrics.continual_world import evaluation_areas as evaluation_areas
from personae.metrics.continual_world import final_performance as final_performance
from personae.metrics.continual_world import performance_lost as performance_lost
from personae.metrics.cora import isolated_forgetting as isolated_forgetting
from personae.metrics.cora import isolated_transfer as isolated_transfer
from personae.metrics.cora import smoothed as smoothed
from personae.metrics.efficiency import steps_to_target as steps_to_target
from personae.metrics.lifelong import average_performance as average_performance
from personae.metrics.lifelong import backward_transfer as backward_transfer
from personae.metrics.lifelong import evaluation_matrix as evaluation_matrix
from personae.metrics.lifelong import evaluation_share as evaluation_share
from personae.metrics.lifelong import first_visits as first_visits
from personae.metrics.lifelong import forgetting as forgetting
from personae.metrics.lifelong import ideal_total as ideal_total
from personae.metrics.lifelong import mean_of_known as mean_of_known
from personae.metrics.lifelong import total_evaluation as total_evaluation
from personae.metrics.lifelong import zero_shot_transfer as zero_shot_transfer
from personae.metrics.statistics import Interval as Interval
from personae.metrics.statistics import Range as Range
from personae.metrics.statistics import bootstrap_difference as bootstrap_difference
from personae.metrics.statistics import bootstrap_mean as bootstrap_mean
from personae.metrics.statistics import holm as holm
from personae.metrics.statistics import interquartile_mean as interquartile_mean
from personae.metrics.statistics import interval_bands as interval_bands
from personae.metrics.statistics import mean_interval as mean_interval
from personae.metrics.statistics import (
    probability_of_improvement as probability_of_improvement,
)
from personae.metrics.statistics import welch_test as welch_test
from personae.metrics.statistics import (
    welch_test_of_intervals as welch_test_of_intervals,
)
from personae.metrics.transfer import area as area
from personae.metrics.transfer import forward_transfer as forward_transfer
