"""References for kernels of web-rwkv; common.py says how they are called."""

import numpy as np
from common import main
from common import softmax as softmax_of


def softmax(a):
    return {"x": softmax_of(a["x"])}


def layer_norm(a):
    x = a["x"]
    x = (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)
    return {"x": x * a["w"] + a["b"]}


def rms_norm(a):
    x = a["x"]
    return {"x": x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5) * a["w"] + a["b"]}


def l2_norm(a):
    return {"x": a["x"] / np.sqrt((a["x"] ** 2).sum(axis=-1, keepdims=True) + 1e-5)}


def affine(a):
    return {"x": 2 * a["x"] + 0.5}


def embed(a):
    return {"output": a["input"][a["tokens"]]}


def lerp(a):
    return {"y": a["x"] * (1 - a["f"]) + a["y"] * a["f"]}


def transpose(a):
    return {"output": a["input"].transpose(1, 0, 2)}


if __name__ == "__main__":
    main(globals())
