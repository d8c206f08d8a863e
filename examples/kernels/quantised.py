"""Matrices of Q4_0 and Q8_0 blocks, and their products with a vector."""

import math
import random
import struct
import sys

import npy


def make(kind, rows, columns, folder, matrix="W"):
    """Blocks of random scales and values."""
    generator = random.Random(1)
    data = bytearray()
    for _ in range(rows * columns // 32):
        # Scales of both signs, as models have them: a kernel that lost the sign would pass with positive ones alone.
        data += struct.pack("<e", generator.choice((-1, 1)) * generator.uniform(0.01, 0.1))
        data += generator.randbytes(32 if kind == "q8_0" else 16)
    npy.save(f"{folder}/{matrix}.npy", "|u1", [rows, columns // 32, len(data) // (rows * columns // 32)], data)


def values(kind, block):
    """The 32 values that a block stands for."""
    (scale,) = struct.unpack_from("<e", block)
    if kind == "q8_0":
        return [scale * value for value in struct.unpack_from("<32b", block, 2)]
    return [scale * ((byte & 15) - 8) for byte in block[2:]] + [scale * ((byte >> 4) - 8) for byte in block[2:]]


def right(kind, source, target, matrix="W", vector="X", product="Y"):
    """The product in f64."""
    (rows, blocks, size), w = npy.load(f"{source}/{matrix}.npy")
    _, x = npy.load(f"{source}/{vector}.npy")
    w = bytes(w)
    y = []
    for row in range(rows):
        starts = range(row * blocks * size, (row + 1) * blocks * size, size)
        weights = [value for start in starts for value in values(kind, w[start : start + size])]
        y.append(math.fsum(a * b for a, b in zip(weights, x)))
    npy.save(f"{target}/{product}.npy", "<f4", [rows], y)


task, kind, *rest = sys.argv[1:]
if task == "make":
    make(kind, int(rest[0]), int(rest[1]), *rest[2:])
else:
    right(kind, *rest)
