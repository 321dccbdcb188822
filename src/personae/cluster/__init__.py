"""More than one machine: runs on Ray, and actors on Ray."""

from personae.cluster.connect import acting_on_ray as acting_on_ray
from personae.cluster.ray_runs import learn_on_ray as learn_on_ray
