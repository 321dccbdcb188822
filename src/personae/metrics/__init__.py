"""What a run is worth, in numbers; numpy and scipy only."""

from personae.metrics.efficiency import steps_to_target as steps_to_target
from personae.metrics.lifelong import ideal_total as ideal_total
from personae.metrics.lifelong import total_evaluation as total_evaluation
from personae.metrics.statistics import Interval as Interval
from personae.metrics.statistics import mean_interval as mean_interval
