"""Mazes of Minigrid: crossing rivers of walls or lava."""
