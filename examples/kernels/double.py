import sys

import npy  # beside this file: `load` and `save` as in NumPy, which would do as well

shape, x = npy.load(f"{sys.argv[1]}/X.npy")
npy.save(f"{sys.argv[2]}/Y.npy", "<f4", shape, (2 * value for value in x))
