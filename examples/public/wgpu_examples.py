"""References for the examples of wgpu; common.py says how they are called."""

import numpy as np
from common import main


def collatz(a):
    n = a["v_indices"].astype(np.uint64)
    steps = np.zeros_like(n)
    while (n > 1).any():
        steps += n > 1
        n = np.where(n <= 1, n, np.where(n % 2 == 0, n // 2, 3 * n + 1))
    return {"v_indices": steps}


def boids(a):
    at, speed = a["particlesSrc"][:, :2], a["particlesSrc"][:, 2:]
    away = at[None] - at[:, None]
    distance = np.linalg.norm(away, axis=2)
    np.fill_diagonal(distance, np.inf)
    near, nearer, seen = (distance < limit for limit in (0.1, 0.025, 0.025))
    count = near.sum(axis=1, keepdims=True)
    together = np.where(count > 0, near @ at / np.maximum(count, 1) - at, 0)
    apart = -(nearer[..., None] * away).sum(axis=1)
    count = seen.sum(axis=1, keepdims=True)
    alike = np.where(count > 0, seen @ speed / np.maximum(count, 1), 0)
    speed = speed + 0.02 * together + 0.05 * apart + 0.005 * alike
    length = np.linalg.norm(speed, axis=1, keepdims=True)
    speed = speed / length * np.clip(length, 0, 0.1)
    at = at + speed * 0.04
    at = np.where(at < -1, 1, np.where(at > 1, -1, at))
    return {"particlesDst": np.concatenate([at, speed], axis=1)}


if __name__ == "__main__":
    main(globals())
