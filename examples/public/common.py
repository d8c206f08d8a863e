"""What the references of examples/public share: how they are called, and a few functions.

    SCRIPT.py FUNCTION IN OUT [ARGUMENT …]

A function takes the inputs by name and returns the outputs by name. `makers` are functions that make inputs:
`SCRIPT.py FUNCTION OUT [ARGUMENT …]`.
"""

import sys

import numpy as np


class Inputs(dict):
    """The arrays of a folder, read when they are needed; floats as f64."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def __missing__(self, name):
        array = np.load(f"{self.folder}/{name}.npy")
        return array.astype(np.float64) if array.dtype.kind == "f" else array


def main(functions, makers=()):
    name, *rest = sys.argv[1:]
    folder = rest.pop(0)
    arrays = functions[name](*rest) if name in makers else functions[name](Inputs(folder), *rest[1:])
    for buffer, array in arrays.items():
        np.save(f"{folder if name in makers else rest[0]}/{buffer}.npy", array)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x, axis=-1):
    y = np.exp(x - x.max(axis=axis, keepdims=True))
    return y / y.sum(axis=axis, keepdims=True)


def patches(x, size=3, pad=1):
    """The windows of images (B, C, H, W): (B, C, H, W, size, size)."""
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    return np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(2, 3))


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def slope(function, x, step=1e-20):
    """The derivative of a function, exact to rounding even beside a kink: Squire and Trapp 1998, the complex step."""
    return np.imag(function(x + 1j * step)) / step
