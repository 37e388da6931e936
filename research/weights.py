"""Files of weights, which keep the facts about a training beside them."""

from __future__ import annotations

import json
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

from research.files import whole_file
from research.results.files import Facts


def save_weights(model: nn.Module, file: Path, facts: Facts | None = None) -> None:
    """Write a model's weights whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    with whole_file(file) as part:
        save_file(tensors, part, metadata={"facts": json.dumps(facts or {})})


def facts_beside(file: Path) -> Facts:
    """Read the facts that were saved with some weights."""
    with safe_open(file, framework="pt") as stored:
        facts: Facts = json.loads(stored.metadata()["facts"])
    return facts
