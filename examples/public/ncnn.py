"""References for kernels of ncnn; common.py says how they are called."""

import numpy as np
from common import gelu, main, sigmoid

ACTIVATIONS = {
    "gelu": gelu,
    "softplus": lambda x: np.log1p(np.exp(x)),
    "swish": lambda x: x * sigmoid(x),
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "hardswish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "elu": lambda x: np.where(x > 0, x, 0.5 * np.expm1(x)),
    "selu": lambda x: 1.05070098 * np.where(x > 0, x, 1.67326324 * np.expm1(x)),
    "relu": lambda x: np.where(x > 0, x, 0.1 * x),
}


def activation(a, name):
    return {"bottom_top_blob": ACTIVATIONS[name](a["bottom_top_blob"])}


def add(a):
    return {"top_blob": a["a_blob"] + a["b_blob"]}


def innerproduct(a):
    return {"top_blob": np.maximum(a["weight_blob"] @ a["bottom_blob"] + a["bias_blob"], 0)}


def square(a):
    return {"square_blob": a["bottom_top_blob"] ** 2}


def rows_max(a):
    return {"max_workspace": a["bottom_top_blob"].max(axis=1)}


if __name__ == "__main__":
    main(globals())
