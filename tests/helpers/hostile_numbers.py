"""Numbers chosen to be slow to look up."""

import numpy as np


def colliding_numbers(bits, n_first, n_after):
    """Return small numbers with different hashes that collide in a dictionary of 2**bits slots.

    The first ones fill the slots that a lookup probes one after another; the others start
    somewhere along that path.
    """
    mask = (1 << bits) - 1
    path = [0]
    while len(path) < n_first:
        path.append((5 * path[-1] + 1) & mask)
    taken = np.zeros(1 << bits, dtype=bool)
    taken[path] = True
    numbers = np.random.default_rng(0).integers(1 << bits, 1 << bits + 9, 5_000_000)
    slot, rest = numbers & mask, numbers.copy()
    stays = taken[slot]
    while rest.any():
        rest >>= 5
        slot = (5 * slot + rest + 1) & mask
        stays &= taken[slot]
    after = np.unique(numbers[stays])[:n_after]
    assert len(after) == n_after
    return [*path, *after.tolist()]
