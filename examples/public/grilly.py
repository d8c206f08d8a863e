"""References for kernels of grilly; common.py says how they are called."""

import numpy as np
from common import gelu, main, patches


def fused_linear_gelu(a):
    return {"Output": gelu(a["Input"] @ a["Weights"].T + a["Bias"])}


def rope(a):
    x = a["Input"]
    half = x.shape[3] // 2
    angle = np.arange(x.shape[1])[:, None] * 10000.0 ** (-np.arange(half) / half)
    cos, sin = np.cos(angle)[None, :, None], np.sin(angle)[None, :, None]
    left, right = x[..., :half], x[..., half:]
    return {"Output": np.concatenate([left * cos - right * sin, right * cos + left * sin], axis=3)}


def lif(a):
    v, rest = a["MembranePotential"], a["RefractoryState"]
    resting = rest > 0
    moved = v + 0.001 * ((-(v + 70) + a["InputCurrent"]) / 0.02)
    fires = ~resting & (moved >= -55)
    return {
        "MembranePotential": np.where(resting | fires, -75, moved),
        "RefractoryState": np.where(resting, np.maximum(rest - 0.001, 0), np.where(fires, 0.002, rest)),
        "Spikes": fires.astype(np.float64),
    }


def maxpool2d(a):
    x = a["InputBuffer"]
    b, c, h, w = x.shape
    index = np.arange(x.size).reshape(x.shape)
    windows, places = (
        y.reshape(b, c, h // 2, 2, w // 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(b, c, h // 2, w // 2, 4)
        for y in (x, index)
    )
    best = windows.argmax(axis=4)[..., None]
    largest, place = (np.take_along_axis(y, best, axis=4)[..., 0] for y in (windows, places))
    return {"OutputBuffer": largest, "IndicesBuffer": place}


def embedding(a):
    table = np.concatenate([a["EmbeddingTable"], np.zeros((1, a["EmbeddingTable"].shape[1]))])
    return {"OutputEmbeddings": table[np.minimum(a["InputTokens"], 100)]}


def gemm(a):
    return {"CBuffer": a["ABuffer"] @ a["BBuffer"]}


def conv2d(a):
    y = np.einsum("bchwij,ocij->bohw", patches(a["InputBuffer"]), a["WeightBuffer"])
    return {"OutputBuffer": y + a["BiasBuffer"][:, None, None]}


def scores(a):
    return {"AttentionScores": 0.125 * np.einsum("bqhd,bkhd->bhqk", a["Queries"], a["Keys"])}


if __name__ == "__main__":
    main(globals())
