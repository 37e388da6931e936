"""The study of the quick suite, with settings that take seconds."""

from dataclasses import replace

import doors
from research.settings import Recipe
from research.suites import SUITES

SMALL_UNSIR = {"noise_images": 8, "noise_steps": 4, "retain_a_class": 20, "batch": 64}
STUDY = replace(
    doors.with_settings(SUITES["quick"][0], "unsir", **SMALL_UNSIR),
    recipe=Recipe(epochs=2, batch=64, rate=0.1, padding=1, flip=False),
    seeds=(0,),
    retrained_only=(1,),
)
