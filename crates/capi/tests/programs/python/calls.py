"""Calls the C library by ctypes: structs by value, results, errors, and a document."""

import ctypes
import json
import sys
from ctypes import POINTER, byref, c_char, c_double, c_size_t, c_uint32, c_void_p, sizeof

library = ctypes.CDLL(sys.argv[1])


class Str(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("len", c_size_t)]

    def text(self) -> str:
        return ctypes.string_at(self.data, self.len).decode()


class Prediction(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("tuples_per_s", c_double),
        ("low", c_double),
        ("high", c_double),
        ("tuples", c_double),
        ("time_ns", c_double),
        ("bytes_per_tuple", c_double),
        ("workers", c_uint32),
        ("reserved", c_uint32),
        ("bottleneck", c_char * 64),
    ]


kept = []


def string(text: str) -> Str:
    raw = text.encode()
    kept.append(raw)
    return Str(ctypes.cast(ctypes.c_char_p(raw), c_void_p), len(raw))


library.tl_last_error.restype = Str
library.tl_text_get.restype = Str
library.tl_machine_load.argtypes = [Str, POINTER(c_void_p)]
library.tl_predict.argtypes = [c_void_p, Str, Str, c_uint32, POINTER(Prediction)]
library.tl_predict_json.argtypes = [Str, POINTER(c_void_p)]
for name in ["tl_text_get", "tl_text_free", "tl_machine_free"]:
    getattr(library, name).argtypes = [c_void_p]

machine = c_void_p()
assert library.tl_machine_load(string("nus24"), byref(machine)) == 0
answer = Prediction(size=sizeof(Prediction))
assert library.tl_predict(machine, string("probe"), string("3:2"), 16, byref(answer)) == 0
assert answer.workers == 16 and answer.low < answer.tuples_per_s < answer.high
assert answer.bottleneck.decode()

text = c_void_p()
question = json.dumps({"machine": "nus24", "work": "probe", "placement": "3:2", "workers": 16})
assert library.tl_predict_json(string(question), byref(text)) == 0
document = json.loads(library.tl_text_get(text).text())
result = document["predictions"][0]["result"]
assert result["tuples_per_s"]["value"] == answer.tuples_per_s
library.tl_text_free(text)

assert library.tl_predict(machine, string("prob"), string(""), 0, byref(answer)) == 2
assert "did you mean probe" in library.tl_last_error().text()
library.tl_machine_free(machine)
print("done")
