"""References for the kernels with faults; common.py says how they are called."""

import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parent.parent))
from common import main, patches


def lora(a):
    x = a["InputBuffer"]
    return {"OutputBuffer": x @ a["WeightBuffer"].T + x @ a["LoraABuffer"].T @ a["LoraBBuffer"].T}


def pool(a):
    x, mask = a["Input"], a["Mask"]
    sums = mask.sum(axis=1)
    return {"Output": np.einsum("bsd,bs->bd", x, mask) / (sums[:, None] + 1e-8), "MaskSums": sums}


def conv(a):
    gradient = a["GradOutputBuffer"]
    weight = np.einsum("bohw,bchwij->ocij", gradient, patches(a["InputBuffer"]))
    return {"GradWeightBuffer": weight, "GradBiasBuffer": gradient.sum(axis=(0, 2, 3))}


if __name__ == "__main__":
    main(globals())
