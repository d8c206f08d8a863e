"""References for kernels of rasptorch; common.py says how they are called."""

import numpy as np
from common import gelu, main, patches, sigmoid, slope, softmax

FUNCTIONS = {
    "gelu": gelu,
    "silu": lambda x: x * sigmoid(x),
    "elu": lambda x: np.where(np.real(x) > 0, x, 0.5 * np.expm1(x)),
    "relu": lambda x: np.maximum(x, 0),
}


def elementwise(a, name):
    return {"BufO": FUNCTIONS[name](a["BufA"])}


def gradient(a, name):
    return {"BufO": a["BufG"] * slope(FUNCTIONS[name], a["BufX"])}


def mul_add_relu(a):
    return {"BufO": np.maximum(a["BufA"] * a["BufB"] + a["BufA"], 0)}


def matmul(a):
    return {"BufO": a["BufA"] @ a["BufB"]}


def matmul_a_bt(a):
    return {"BufO": a["BufA"] @ a["BufB"].T}


def matmul_at_b(a):
    return {"BufO": a["BufA"].T @ a["BufB"]}


def softmax2d(a):
    return {"BufOut": softmax(a["BufIn"])}


def log_softmax2d(a):
    return {"BufOut": np.log(softmax(a["BufIn"]))}


def layernorm2d(a):
    x = a["BufIn"]
    return {"BufOut": (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)}


def softmax2d_backward(a):
    y, g = a["BufY"], a["BufG"]
    return {"BufDX": y * (g - (y * g).sum(axis=1, keepdims=True))}


def transpose(a):
    return {"BufOut": a["BufIn"].T}


def reduce_sum_stage(a):
    return {"BufOut": np.add.reduceat(a["BufIn"], range(0, len(a["BufIn"]), 512))}


def add(a):
    return {"BufO": a["BufA"] + a["BufB"]}


def permute(a):
    return {"BufOut": a["BufIn"].transpose(2, 0, 1)}


def broadcast(a, rows):
    return {"BufOut": np.tile(a["BufIn"], (int(rows), 1))}


def adam(a):
    g = a["BufGrad"] + 0.01 * a["BufParam"]
    m = 0.9 * a["BufM"] + 0.1 * g
    v = 0.999 * a["BufV"] + 0.001 * g * g
    return {"BufM": m, "BufV": v, "BufParam": a["BufParam"] - 0.01 * (m / 0.1) / (np.sqrt(v / 0.001) + 1e-8)}


def rmsprop(a):
    g = a["BufGrad"] + 0.01 * a["BufParam"]
    v = 0.9 * a["BufV"] + 0.1 * g * g
    return {"BufV": v, "BufParam": a["BufParam"] - 0.01 * g / (np.sqrt(v) + 1e-8)}


def im2col(a):
    b, c, h, w = a["BufX"].shape
    return {"BufO": patches(a["BufX"]).transpose(0, 2, 3, 1, 4, 5).reshape(b * h * w, c * 9)}


def nchw2mat(a):
    return {"BufO": a["BufX"].transpose(0, 2, 3, 1).reshape(-1, a["BufX"].shape[1])}


def softmax_xent_loss(a):
    return {"BufOut": -(a["BufTarget"] * np.log(softmax(a["BufLogits"]))).sum(axis=1)}


if __name__ == "__main__":
    main(globals())
