"""The stored results of the experiments, of which some are committed."""

from pathlib import Path

STORED = Path(__file__).parents[1] / "stored"
PAPER = STORED / "paper"
