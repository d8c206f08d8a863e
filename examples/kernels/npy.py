"""NumPy's array format in plain Python, for references that need no NumPy."""

import array
import ast
import struct

CODES = {"<f4": "f", "<f8": "d", "<f2": "e", "<i4": "i", "<u4": "I", "|u1": "B", "|i1": "b"}


def load(path):
    """Shape and values of the array in a file."""
    with open(path, "rb") as file:
        magic, (major, _) = file.read(6), file.read(2)
        assert magic == b"\x93NUMPY", path
        length = struct.unpack("<H", file.read(2))[0] if major == 1 else struct.unpack("<I", file.read(4))[0]
        header = ast.literal_eval(file.read(length).decode())
        data = file.read()
    code = CODES[header["descr"]]
    if code == "e":  # f16, which arrays lack
        return header["shape"], struct.unpack(f"<{len(data) // 2}e", data)
    return header["shape"], array.array(code, data)


def save(path, dtype, shape, values):
    """Writes values as an array of this type and shape."""
    header = repr({"descr": dtype, "fortran_order": False, "shape": tuple(shape)})
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        code = CODES[dtype]
        values = list(values) if code == "e" else array.array(code, values)
        file.write(struct.pack(f"<{len(values)}e", *values) if code == "e" else values.tobytes())
