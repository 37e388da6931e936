"""Numbers that were chosen to be slow to look up."""

import numpy as np


def numbers_in_each_others_way(bits, n_first, n_after):
    """Give small numbers of different hashes that a dictionary of 2**bits places looks long for.

    The first are the places that it looks at one after another, and those after them start
    somewhere on that way.
    """
    mask = (1 << bits) - 1
    way = [0]
    while len(way) < n_first:
        way.append((5 * way[-1] + 1) & mask)
    taken = np.zeros(1 << bits, dtype=bool)
    taken[way] = True
    numbers = np.random.default_rng(0).integers(1 << bits, 1 << bits + 9, 5_000_000)
    place, rest = numbers & mask, numbers.copy()
    stays = taken[place]
    while rest.any():
        rest >>= 5
        place = (5 * place + rest + 1) & mask
        stays &= taken[place]
    after = np.unique(numbers[stays])[:n_after]
    assert len(after) == n_after
    return [*way, *after.tolist()]
