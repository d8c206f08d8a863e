import math
import sys

import npy

(rows, columns), x = npy.load(f"{sys.argv[1]}/X.npy")
y = []
for row in range(rows):
    scaled = [value / 8 for value in x[row * columns : (row + 1) * columns]]
    largest = max(scaled)
    exponentials = [math.exp(value - largest) for value in scaled]
    total = math.fsum(exponentials)
    y += [value / total for value in exponentials]
output = sys.argv[3] if len(sys.argv) > 3 else "Y"
npy.save(f"{sys.argv[2]}/{output}.npy", "<f4", [rows, columns], y)
