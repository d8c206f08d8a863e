"""References for kernels of llama.cpp; common.py says how they are called.

Quantised matrices are decoded by gguf, llama.cpp's own package, which scripts/corpus gets with the kernels.
"""

import sys

import numpy as np
from common import gelu, main, patches, sigmoid, softmax

# A type's values and bytes per block, and where its f16 scales are.
BLOCKS = {
    "q4_0": (32, 18, [0]), "q4_1": (32, 20, [0, 2]), "q5_0": (32, 22, [0]), "q5_1": (32, 24, [0, 2]),
    "q8_0": (32, 34, [0]), "q2_k": (256, 84, [80, 82]), "q3_k": (256, 110, [108]), "q4_k": (256, 144, [0, 2]),
    "q5_k": (256, 176, [0, 2]), "q6_k": (256, 210, [208]), "tq1_0": (256, 54, [52]), "tq2_0": (256, 66, [64]),
    "iq1_s": (256, 50, [0]), "iq1_m": (256, 56, []), "iq2_xxs": (256, 66, [0]), "iq2_xs": (256, 74, [0]),
    "iq2_s": (256, 82, [0]), "iq3_xxs": (256, 98, [0]), "iq3_s": (256, 110, [0]), "iq4_nl": (32, 18, [0]),
    "iq4_xs": (256, 136, [0]), "mxfp4": (32, 17, []), "nvfp4": (64, 36, []),
}


def signed(generator, shape):
    """Scales of a useful size and of both signs, so that a kernel that loses the sign is found."""
    return (generator.uniform(0.01, 0.1, shape) * generator.choice((-1, 1), shape)).astype(np.float16)


def make(kind, rows, columns):
    """Blocks of random bytes with scales of a useful size."""
    values, size, scales = BLOCKS[kind]
    generator = np.random.default_rng(1)
    a = generator.integers(0, 256, (int(rows), int(columns) // values, size), dtype=np.uint8)
    for at in scales:
        scale = signed(generator, a.shape[:2])
        a[:, :, at : at + 2] = scale.view(np.uint8).reshape(*a.shape[:2], 2)
    if kind == "mxfp4":
        a[:, :, 0] = generator.integers(120, 128, a.shape[:2])
    if kind == "nvfp4":
        a[:, :, :4] = generator.integers(40, 64, (*a.shape[:2], 4))
    if kind == "iq1_m":  # the scale's four parts are the upper bits of four words
        bits = signed(generator, a.shape[:2]).view(np.uint16)
        for part in range(4):
            a[:, :, 49 + 2 * part] = (a[:, :, 49 + 2 * part] & 15) | ((bits >> (4 * part)) & 15) << 4
    return {"A": a}


def make_mmq(kind, rows, columns, others):
    """The same, and rows of Q8_1 in blocks of 128 values: four pairs of scale and scaled sum, then the values."""
    generator = np.random.default_rng(2)
    values = generator.integers(-127, 128, (int(others), int(columns) // 128, 4, 32), dtype=np.int8)
    scale = generator.uniform(0.001, 0.01, values.shape[:3])
    pairs = np.stack([scale, scale.astype(np.float16) * values.sum(axis=3, dtype=np.int64)], axis=3).astype(np.float16)
    flat = [part.reshape(*values.shape[:2], -1).view(np.uint8) for part in (pairs, values)]
    return {**make(kind, rows, columns), "B": np.concatenate(flat, axis=2)}


def decoded(kind, blocks):
    """The values of quantised rows."""
    sys.path.insert(0, "corpus/llama.cpp")
    from gguf.constants import GGMLQuantizationType
    from gguf.quants import dequantize

    rows = np.ascontiguousarray(blocks).reshape(blocks.shape[0], -1)
    return dequantize(rows, GGMLQuantizationType[kind.upper()]).astype(np.float64)


def mul_mat_vec(a, kind):
    return {"D": decoded(kind, a["A"]) @ a["B"]}


def mul_mm(a, kind=None):
    return {"D": a["B"] @ (decoded(kind, a["A"]) if kind else a["A"]).T}


def mul_mmq(a, kind):
    b = a["B"]
    scale = np.ascontiguousarray(b[:, :, :16]).view(np.float16).astype(np.float64)[:, :, ::2]
    values = np.ascontiguousarray(b[:, :, 16:]).view(np.int8).reshape(*b.shape[:2], 4, 32)
    return {"D": (values * scale[..., None]).reshape(len(b), -1) @ decoded(kind, a["A"]).T}


def encode(a, kind):
    sys.path.insert(0, "corpus/llama.cpp")
    from gguf.constants import GGMLQuantizationType
    from gguf.quants import quantize

    blocks = quantize(a["S"].astype(np.float32), GGMLQuantizationType[kind.upper()])
    return {"Q": blocks.reshape(len(blocks), -1, BLOCKS[kind][1])}


def attention(a):
    weights = softmax(0.125 * np.einsum("htd,hsd->hts", a["Q"], a["K"]))
    return {"O": np.einsum("hts,hsd->thd", weights, a["V"])}


def dequant(a, kind):
    return {"D": decoded(kind, a["A"])}


def get_rows(a, kind):
    return {"D": decoded(kind, a["A"])[a["B"]]}


def erf(x):
    from math import erf as one

    return np.vectorize(one)(x)


ACTIVATIONS = {
    "gelu": gelu,
    "gelu_erf": lambda x: 0.5 * x * (1 + erf(x / np.sqrt(2))),
    "gelu_quick": lambda x: x * sigmoid(1.702 * x),
    "silu": lambda x: x * sigmoid(x),
    "softplus": lambda x: np.log1p(np.exp(x)),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.1 * x),
    "hardswish": lambda x: x * np.clip((x + 3) / 6, 0, 1),
    "relu": lambda x: np.maximum(x, 0),
    "xielu": lambda x: np.where(x > 0, 0.7 * x * x + 0.5 * x, (np.expm1(np.minimum(x, -1e-6)) - x) * 0.8 + 0.5 * x),
}
BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}
GATES = {"geglu": "gelu", "swiglu": "silu", "reglu": "relu", "geglu_erf": "gelu_erf", "geglu_quick": "gelu_quick"}


def unary(a, name):
    return {"D": ACTIVATIONS[name](a["A"])}


def scale(a):
    return {"D": a["A"] * 0.125 + 0.5}


def binary(a, name):
    return {"D": BINARY[name](a["A"], a["B"])}


def glu(a, name):
    left, right = np.split(a["A"], 2, axis=1)
    return {"D": ACTIVATIONS[GATES[name]](left) * right}


def rms_norm(a):
    x = a["A"]
    return {"D": x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-6) * a["B"]}


def norm(a, name="A", eps="1e-5"):
    x = a[name]
    return {"D": (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + float(eps))}


def l2_norm(a):
    return {"D": a["A"] / np.linalg.norm(a["A"], axis=1, keepdims=True)}


def rms_norm_back(a):
    x, g, n = a["X"], a["G"], a["X"].shape[1]
    mean = (x * x).mean(axis=1, keepdims=True) + 1e-6
    return {"D": g / np.sqrt(mean) - x * (x * g).sum(axis=1, keepdims=True) / (n * mean**1.5)}


def soft_max(a):
    return {"D": softmax(0.125 * a["X"])}


def soft_max_back(a):
    return {"D": 0.5 * (a["G"] - (a["Y"] * a["G"]).sum(axis=1, keepdims=True)) * a["Y"]}


def silu_back(a):
    s = sigmoid(a["X"])
    return {"D": a["G"] * (s + a["X"] * s * (1 - s))}


def sum_rows(a):
    return {"D": a["A"].sum(axis=1)}


def cumsum(a):
    return {"D": a["A"].cumsum(axis=1)}


def argmax(a):
    return {"D": a["A"].argmax(axis=1)}


def argsort(a):
    return {"D": a["A"].argsort(axis=1)}


def diag_mask(a):
    rows, columns = np.indices(a["X"].shape)
    return {"D": np.where(columns > rows + 5, -np.inf, a["X"])}


def im2col(a):
    b, c, h, w = a["X"].shape
    return {"D": patches(a["X"]).transpose(0, 2, 3, 1, 4, 5).reshape(b, h, w, c * 9)}


def timestep(a):
    half = 160
    angle = a["X"][:, None] * np.exp(-np.log(10000) * np.arange(half) / half)
    return {"D_": np.concatenate([np.cos(angle), np.sin(angle)], axis=1)}


def pad(a):
    return {"D": np.pad(a["A"], ((1, 2), (2, 3)))}


def concat(a):
    return {"D": np.concatenate([a["A"], a["B"]], axis=1)}


def upscale_nearest(a):
    return {"D": a["A"].repeat(3, axis=1).repeat(2, axis=2)}


def stretched(x, axis, factor):
    size = x.shape[axis]
    at = (np.arange(size * factor) + 0.5) / factor - 0.5
    low = np.floor(at)
    part = (at - low).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
    first, second = (np.clip(low + step, 0, size - 1).astype(int) for step in (0, 1))
    return x.take(first, axis) * (1 - part) + x.take(second, axis) * part


def upscale_bilinear(a):
    return {"D": stretched(stretched(a["A"], 1, 3), 2, 2)}


def repeat(a):
    return {"D": np.tile(a["A"], (2, 2))}


def conv2d_dw(a):
    return {"D": np.einsum("bchwij,cij->bchw", patches(a["B_"]), a["A"])}


def conv_transpose_1d(a):
    kernel, x = a["A"], a["B"]
    channels, outputs, width = kernel.shape
    y = np.zeros((outputs, (x.shape[1] - 1) * 2 + width))
    for at in range(width):
        y[:, at : at + 2 * x.shape[1] : 2] += kernel[:, :, at].T @ x
    return {"D": y}


def pool1d(a):
    x, y = a["X"], []
    for start in range(-1, x.shape[1] - 1, 2):
        y.append(x[:, max(start, 0) : start + 3].mean(axis=1))
    return {"D": np.stack(y, axis=1)}


def pool2d(a):
    c, h, w = a["X"].shape
    return {"D": a["X"].reshape(c, h // 2, 2, w // 2, 2).max(axis=(2, 4))}


def wkv6(a, heads):
    shape = (-1, int(heads), 64)
    k, v, r, d = (a[name].reshape(shape) for name in ("KBuf", "VBuf", "RBuf", "TimeDBuf"))
    f, state, y = a["TimeFBuf"].reshape(shape[1:]), a["StateBuf"][0].copy(), []
    for t in range(len(k)):
        kv = k[t][:, :, None] * v[t][:, None, :]
        y.append(np.einsum("hi,hij->hj", r[t], f[:, :, None] * kv + state))
        state = state * d[t][:, :, None] + kv
    return {"DstBuf": np.concatenate([np.ravel(y), state.ravel()])}


def wkv7(a, heads):
    shape = (-1, int(heads), 64)
    r, w, k, v, x, b = (a[name].reshape(shape) for name in ("RBuf", "WBuf", "KBuf", "VBuf", "ABuf", "BBuf"))
    state, y = a["StateBuf"][0].copy(), []
    for t in range(len(k)):
        sa = np.einsum("hij,hj->hi", state, x[t])
        state = state * w[t][:, None, :] + v[t][:, :, None] * k[t][:, None, :] + sa[:, :, None] * b[t][:, None, :]
        y.append(np.einsum("hij,hj->hi", state, r[t]))
    return {"DstBuf": np.concatenate([np.ravel(y), state.ravel()])}


def add_id(a):
    return {"D": a["X"] + a["Y"][a["Z"]]}


def adamw_params():
    return {"P": np.array([0.01, 0.9, 0.999, 1e-8, 0.1, 1 / (1 - 0.9), 1 / (1 - 0.999)], dtype=np.float32)}


def adamw(a):
    alpha, beta1, beta2, eps, decay, beta1h, beta2h = a["P"]
    m = a["GM"] * beta1 + a["G"] * (1 - beta1)
    v = a["GV"] * beta2 + a["G"] ** 2 * (1 - beta2)
    x = a["X"] * (1 - alpha * decay) - alpha * m * beta1h / (np.sqrt(v * beta2h) + eps)
    return {"X": x, "GM": m, "GV": v}


def sgd(a):
    alpha, decay = a["P"]
    return {"X": a["X"] * (1 - alpha * decay) - alpha * a["G"]}


def solve_tri(a):
    return {"D": np.linalg.solve(np.tril(a["A"]), a["B_"])}


def take(a):
    return {"D": a["A"][a["B"]]}


def transposed(a):
    return {"D": a["A"].T}


def same(a):
    return {"D": a["A"]}


def rotated(x, first, second, size, theta_scale=0.7498942):
    angle = np.arange(len(x))[:, None] * theta_scale ** np.arange(size // 2)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    y = np.empty_like(x)
    y[..., first] = x[..., first] * cos - x[..., second] * sin
    y[..., second] = x[..., first] * sin + x[..., second] * cos
    return {"D_": y}


def rope_norm(a):
    return rotated(a["X"], slice(0, None, 2), slice(1, None, 2), 64)


def rope_neox(a):
    return rotated(a["X"], slice(0, 32), slice(32, 64), 64)


def count_equal(a):
    return {"D": np.array([(a["X"] == a["Y"]).sum()])}


if __name__ == "__main__":
    main(globals(), makers=("make", "make_mmq", "adamw_params"))
