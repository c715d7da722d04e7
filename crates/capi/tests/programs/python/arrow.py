"""Gives a slice of placed memory to pyarrow, which frees the region with it."""

import ctypes
import gc
import sys
from ctypes import POINTER, byref, c_char_p, c_double, c_size_t, c_void_p

import pyarrow

library = ctypes.CDLL(sys.argv[1])


class Str(ctypes.Structure):
    _fields_ = [("data", c_char_p), ("len", c_size_t)]


library.tl_region_data.restype = c_void_p
library.tl_region_data.argtypes = library.tl_region_free.argtypes = [c_void_p]
library.tl_region_create.argtypes = [c_size_t, c_void_p, POINTER(c_void_p)]
library.tl_region_slice.argtypes = [c_void_p, c_size_t, c_size_t, Str, c_void_p, c_void_p]


def mapped(address: int) -> bool:
    with open("/proc/self/maps", encoding="utf-8") as lines:
        ranges = (line.split(" ", 1)[0].split("-") for line in lines)
        return any(int(start, 16) <= address < int(end, 16) for start, end in ranges)


region = c_void_p()
# As large as no other mapping that could take its place.
assert library.tl_region_create(300 << 20, None, byref(region)) == 0
start = library.tl_region_data(region)
values = ctypes.cast(start, POINTER(c_double))
for number in range(1000):
    values[number] = number / 2

# The structs of Arrow's interface have 80 and 72 bytes; pyarrow takes their addresses.
array, schema = (c_size_t * 10)(), (c_size_t * 9)()
places = [ctypes.addressof(array), ctypes.addressof(schema)]
assert library.tl_region_slice(region, 80, 900, Str(b"g", 1), *places) == 0
taken = pyarrow.Array._import_from_c(*places)
taken.validate(full=True)
library.tl_region_free(region)

assert taken.type == pyarrow.float64() and len(taken) == 900 and taken.null_count == 0
assert taken.buffers()[1].address == start + 80
assert taken[0].as_py() == 5.0 and taken[899].as_py() == 909 / 2
part = taken.slice(10, 5)
del taken
gc.collect()
assert part.to_pylist() == [10.0, 10.5, 11.0, 11.5, 12.0]
assert mapped(start)
del part
gc.collect()
assert not mapped(start + (200 << 20))
print("done")
