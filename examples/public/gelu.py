import math
import sys

sys.path.append("../kernels")
import npy

shape, x = npy.load(f"{sys.argv[1]}/bottom_top_blob.npy")
y = [0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))) for v in x]
npy.save(f"{sys.argv[2]}/bottom_top_blob.npy", "<f4", shape, y)
