"""References for kernels of Vello; common.py says how they are called."""

import numpy as np
from common import main


def tags(words):
    return {"scene": np.random.default_rng(1).integers(0, 128, (int(words), 4), dtype=np.uint8)}


def pathtag_reduce(a):
    tag = a["scene"].reshape(-1, 1024).astype(np.int64)
    kind, wide, ends = tag & 3, tag >> 3 & 1, tag >> 2 & 1
    points = (kind + ends) * (1 + wide)
    counts = [tag >> 5 & 1, kind > 0, points, 2 * (tag >> 6 & 1), tag >> 4 & 1]
    return {"reduced": np.stack([count.sum(axis=1) for count in counts], axis=1)}


def pathtag_reduce2(a):
    return {"reduced": a["reduced_in"].reshape(-1, 256, 5).sum(axis=1)}


def before(counts):
    return counts.cumsum(axis=0) - counts


def pathtag_scan1(a):
    blocks = a["reduced"].astype(np.int64).reshape(-1, 256, 5)
    within = blocks.cumsum(axis=1) - blocks
    parents = before(a["reduced2"].astype(np.int64))
    return {"tag_monoids": (within + parents[:, None]).reshape(-1, 5)}


def draw_reduce(a):
    tag = a["scene"].astype(np.int64).reshape(-1, 256)
    counts = [tag != 0, tag & 1, tag >> 2 & 7, tag >> 6 & 15]
    return {"reduced": np.stack([count.sum(axis=1) for count in counts], axis=1)}


def bbox_clear(a):
    boxes = a["path_bboxes"].copy()
    boxes[:, :2], boxes[:, 2:4] = 0x7FFFFFFF, 0x80000000
    return {"path_bboxes": boxes}


def path_count_setup(a, lines):
    return {"indirect": np.array([-(-int(lines) // 256), 1, 1])}


if __name__ == "__main__":
    main(globals(), makers=("tags",))
