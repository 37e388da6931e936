"""The study of the quick suite, with settings that take seconds."""

from dataclasses import replace

from research.settings import Recipe, Unsir
from research.suites import SUITES

STUDY = replace(
    SUITES["quick"][0],
    recipe=Recipe(epochs=2, batch=64, rate=0.1, padding=1, flip=False),
    unsir=Unsir(noise_images=8, noise_steps=4, retain_a_class=20, batch=64),
    seeds=(0,),
    retrained_only=(1,),
)
