"""Curricula of mazes: the paper's MG10, and any number of random mazes."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import count as count_up
from itertools import islice

from personae.curricula.curriculum import Curriculum
from personae.curricula.options import Evaluation, Inputs
from personae.curricula.task import Task
from personae.envs.crossing.env import CrossingOptions
from personae.envs.crossing.maze import make_maze
from personae.errors import require
from personae.learners.ppo import PPO
from personae.methods import EWCOptions

FAMILY = "personae/Crossing-v0"
PUBLISHED_PPO = PPO(bootstrap_truncated=False)
"""PPO with time limits as terminal, as in all published runs."""
STEPS_PER_TASK = 256_000
# As text, since other random generators would draw other mazes from these seeds.
MG10_MAZES = """
n1-860    n1-861    n2-860    n2-861    n3-860    n3-861

######### ######### ######### ######### ######### #########
#.#.....# #.......# #.#.....# #...#...# #.......# #...#.#.#
#.#.....# #...#...# #.####### #...#...# #######.# #...#...#
#.#.....# #...#...# #.#.....# #...#...# #.#...#.# #.....#.#
#.#.....# #...#...# #.#.....# #...#...# #.#...#.# #...#.#.#
#.#.....# #...#...# #.#.....# #...#...# #.#...#.# #...#.#.#
#.#.....# #...#...# #.......# ##.###### #.#...#.# #######.#
#......G# #...#..G# #.#....G# #......G# #.#...#G# #...#.#G#
######### ######### ######### ######### ######### #########
"""
"""The mazes that Minigrid makes for SimpleCrossingS9N1 to N3 from seeds 860 and 861."""


def maze_curriculum(
    identifier: str, description: str, tasks: Iterable[Task]
) -> Curriculum:
    """Return a curriculum of mazes with the settings of the published runs."""
    return Curriculum(
        id=identifier,
        description=description,
        tasks=tuple(tasks),
        ppo=PUBLISHED_PPO,
        steps_per_task=STEPS_PER_TASK,
        # The numbers of objects go up to 10; the published runs scale them to 0..1.
        inputs=Inputs(scale=1 / 10),
        # Note: the strength of EWC in the published code; the paper's text has 1e2.
        ewc=EWCOptions(strength=1e5),
        evaluation=Evaluation(interval=20),
    )


def maze_task(name: str, maze: Sequence[str]) -> Task:
    """Return the task of crossing a maze; its target is the shortest path's return."""
    target = CrossingOptions(tuple(maze)).best_return
    return Task(name, FAMILY, {"maze": list(maze)}, target=target)


def with_lava(maze: Sequence[str]) -> list[str]:
    """Return a maze with lava instead of its inner walls."""
    inner = [f"#{row[1:-1].replace('#', '~')}#" for row in maze[1:-1]]
    return [maze[0], *inner, maze[-1]]


def mg10() -> Curriculum:
    """Return MG10: six mazes with walls, then four of them again with lava."""
    names, _, *rows = [line.split() for line in MG10_MAZES.strip().splitlines()]
    mazes = dict(zip(names, zip(*rows, strict=True), strict=True))
    simple = [maze_task(f"simple-{name}", maze) for name, maze in mazes.items()]
    lava = [maze_task(f"lava-{name}", with_lava(mazes[name])) for name in names[:4]]
    return maze_curriculum(
        "personae/MG10-v0",
        "Minigrid: 6 mazes with walls, then 4 with lava (paper: MG10).",
        (*simple, *lava),
    )


RANDOM_MAZES = re.compile(r"(?:personae/)?(lava-)?crossing-(\d{1,4})(?:-v0)?", re.I)
"""Names of curricula of random mazes, such as crossing-20 and lava-crossing-5."""
MOST_MAZES = 1000
"""Largest number of random mazes in a curriculum."""


# Cached, because a command looks its curriculum up more than once.
@cache
def random_mazes(name: str) -> Curriculum | None:
    """Return the curriculum of random mazes that a name asks for, or None.

    The mazes have one, two or three rivers and are all different. A longer curriculum
    begins with the mazes of a shorter one.

    Args:
        name: A name such as crossing-20 or lava-crossing-5. Other names give None.
    """
    match = RANDOM_MAZES.fullmatch(name)
    if match is None:
        return None
    obstacle, count = ("lava" if match[1] else "wall"), int(match[2])
    require(
        1 <= count <= MOST_MAZES,
        f"{name}: the number of mazes must be 1 to {MOST_MAZES}, not {count}",
    )
    mazes = islice(_different_mazes(obstacle), count)
    title = "Lava-Crossing" if match[1] else "Crossing"
    return maze_curriculum(
        f"personae/{title}-{count}-v0",
        f"Minigrid: {count} random mazes ({obstacle}).",
        # Mazes are tasks as text, not as seeds, so that run.json shows each of them.
        (maze_task(f"maze-{i + 1}", maze) for i, maze in enumerate(mazes)),
    )


def _different_mazes(obstacle: str) -> Iterator[tuple[str, ...]]:
    """Yield mazes with one, two, three rivers in turn, and none of them twice."""
    known_mazes = set()
    for seed in count_up():
        maze = make_maze(seed, 9, 1 + seed % 3, obstacle)
        if maze not in known_mazes:
            known_mazes.add(maze)
            yield maze


def curricula() -> list[Curriculum]:
    """Return the curricula of mazes that have a fixed name."""
    return [mg10()]
