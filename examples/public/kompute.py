"""References for kernels of Kompute; common.py says how they are called."""

import numpy as np
from common import main, sigmoid


def logistic_regression(a):
    x, y, w = np.stack([a["bxi"], a["bxj"]]), a["by"], a["bwin"]
    guess = sigmoid(w @ x + a["bbin"])
    error = (guess - y) / len(y)
    loss = -(y * np.log(guess) + (1 - y) * np.log(1 - guess))
    return {"bwouti": x[0] * error, "bwoutj": x[1] * error, "bbout": error, "blout": loss}


def op_mult(a):
    return {"tensorOutput": a["tensorLhs"] * a["tensorRhs"]}


if __name__ == "__main__":
    main(globals())
