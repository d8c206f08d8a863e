import array
import sys

# The header of a .npy file has its length in bytes 8 and 9. With NumPy, `numpy.load` and `numpy.save` do all of this.
with open(f"{sys.argv[1]}/X.npy", "rb") as file:
    data = file.read()
start = 10 + int.from_bytes(data[8:10], "little")
x = array.array("f", data[start:])
with open(f"{sys.argv[2]}/Y.npy", "wb") as file:
    file.write(data[:start] + array.array("f", (2 * value for value in x)).tobytes())
