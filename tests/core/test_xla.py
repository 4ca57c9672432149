"""Calls of XLA, made by hand as XLA lays them out: what a call is, on a GPU its device, stream and scratch
memory, and errors."""
from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_int, c_int64, c_size_t, c_uint32, c_void_p

import pytest

from cydnn._core import CALLS, targets

HEAD = [("size", c_size_t), ("extensions", c_void_p)]
NUMBER = 77


def struct(name, *fields, head=HEAD):
    return type(name, (ctypes.Structure,), dict(_fields_=[*head, *fields]))


Version = struct("Version", ("major", c_int), ("minor", c_int))
Error = struct("Error", ("message", c_char_p), ("code", c_int))
Message = struct("Message", ("error", c_void_p), ("message", c_char_p))
Destroy = struct("Destroy", ("error", c_void_p))
Stream = struct("Stream", ("context", c_void_p), ("stream", c_void_p))
Scratch = struct("Scratch", ("context", c_void_p), ("bytes", c_size_t), ("alignment", c_size_t),
                 ("data", c_void_p))
Free = struct("Free", ("context", c_void_p), ("bytes", c_size_t), ("data", c_void_p))
Ordinal = struct("Ordinal", ("context", c_void_p), ("ordinal", c_int))
Buffer = struct("Buffer", ("dtype", c_int), ("data", c_void_p), ("rank", c_int64), ("dims", POINTER(c_int64)))
Arrays = struct("Arrays", ("count", c_int64), ("types", c_void_p), ("arrays", POINTER(POINTER(Buffer))))
Scalar = struct("Scalar", ("dtype", c_int), ("value", POINTER(c_int64)), head=[])
Attributes = struct("Attributes", ("count", c_int64), ("types", c_void_p), ("names", c_void_p),
                    ("values", POINTER(POINTER(Scalar))))
Metadata = struct("Metadata", ("size", c_size_t), ("version", Version), ("traits", c_uint32),
                  ("state", c_int64), head=[])
Asks = struct("Asks", ("size", c_size_t), ("type", c_int), ("next", c_void_p),
              ("metadata", POINTER(Metadata)), head=[])
of = lambda kind: ctypes.CFUNCTYPE(c_void_p, POINTER(kind))
unused = [(f"unused{i}", c_void_p) for i in range(20)]
Api = struct("Api", ("version", Version), ("internal", c_void_p), ("error", of(Error)),
             ("message", of(Message)), ("destroy", of(Destroy)), *unused[:1], ("stream", of(Stream)),
             *unused[1:5], ("allocate", of(Scratch)), ("free", of(Free)), *unused[5:11],
             ("ordinal", of(Ordinal)))
Frame = struct("Frame", ("api", POINTER(Api)), ("context", c_void_p), ("stage", c_int), ("arguments", Arrays),
               ("results", Arrays), ("attributes", Attributes))
get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
get_pointer.restype, get_pointer.argtypes = c_void_p, [ctypes.py_object, c_char_p]


class Xla:
    """A runtime that writes down what it is asked."""

    def __init__(self, major=0, fails=""):
        self.said, self.asked, self.fails = [], [], fails
        api = self.api = Api(size=ctypes.sizeof(Api), version=Version(major=major, minor=3))
        api.error = of(Error)(lambda e: self.said.append(e.contents.message.decode()) or 1)
        api.stream = of(Stream)(lambda a: self.gives(a, "stream", "stream", 0x50))
        api.message = of(Message)(lambda m: setattr(m.contents, "message", b"no room today"))
        api.destroy = of(Destroy)(lambda d: self.asked.append(("destroy", d.contents.error)))
        api.allocate = of(Scratch)(self.scratch)
        api.free = of(Free)(lambda a: self.gives(a, "free", "data", a.contents.data, a.contents.data))
        api.ordinal = of(Ordinal)(lambda a: self.gives(a, "ordinal", "ordinal", 2))

    def scratch(self, args):
        """Memory aligned to 16 bytes, which is all that XLA takes as an alignment."""
        if args.contents.alignment > 16:
            self.fails = "scratch"
        return self.gives(args, "scratch", "data", 0x1010, args.contents.bytes)

    def gives(self, args, what, field, value, *seen):
        self.asked.append((what, *seen))
        setattr(args.contents, field, value)
        return 1 if what == self.fails else 0

    def call(self, platform, arguments=(), results=(), number=NUMBER, stage=3, asks=None):
        self.keep = rows = [[Buffer(data=a) for a in some] for some in (arguments, results)]
        arrays = [Arrays(count=len(row), arrays=(POINTER(Buffer) * len(row))(*map(ctypes.pointer, row)))
                  for row in rows]
        scalar = Scalar(value=ctypes.pointer(c_int64(number)))
        values = (POINTER(Scalar) * 1)(ctypes.pointer(scalar))
        frame = Frame(ctypes.sizeof(Frame), asks and ctypes.addressof(asks), ctypes.pointer(self.api), 0x9,
                      stage, *arrays, Attributes(count=1, values=values))
        function = ctypes.PYFUNCTYPE(c_void_p, POINTER(Frame))(get_pointer(targets()[platform], None))
        return function(ctypes.pointer(frame))


@pytest.fixture
def plan():
    """Calls of a plan with one argument, one result and 64 bytes of workspace."""
    calls = []
    runs = lambda ordinal: lambda *given: calls.append((ordinal, *given))
    CALLS[NUMBER] = lambda ordinal: (runs(ordinal), (~0, 0), (1.5,), 64, bytearray)
    yield calls
    del CALLS[NUMBER]


def test_what_a_function_is():
    metadata = Metadata(traits=9)
    xla = Xla()
    assert xla.call("CUDA", asks=Asks(type=1, metadata=ctypes.pointer(metadata))) is None and not xla.asked
    assert (metadata.version.major, metadata.version.minor, metadata.traits) == (0, 3, 0)


def test_a_call_on_a_gpu(plan):
    xla = Xla()
    assert xla.call("CUDA", [0xA0], [0xB0]) is None and not xla.said
    assert plan == [(2, (0xB0, 0xA0), (1.5,), 0x1100, 64, 0x50)]
    assert xla.asked == [("ordinal",), ("scratch", 64 + 240), ("stream",), ("free", 0x1010)]


def test_a_call_on_the_host(plan):
    xla = Xla()
    assert xla.call("cpu", [0xA0], [0xB0]) is None
    assert plan == [(None, (0xB0, 0xA0), (1.5,), bytearray(64), 64)] and not xla.asked


def test_other_stages_run_nothing(plan):
    assert all(Xla().call("CUDA", [0xA0], [0xB0], stage=stage) is None for stage in range(3)) and not plan


@pytest.mark.parametrize("how, given, sentence", [
    (dict(major=1), {}, "version 0.3 of XLA's foreign functions or later must be there; got 1.3"),
    ({}, dict(number=78), "a program must be traced in the process that runs it; got call 78 of another one"),
    ({}, dict(results=()), "a call must have the arrays of its plan; got none for slot -1"),
    (dict(fails="ordinal"), {}, "XLA must give the device of a call; got no room today"),
    (dict(fails="scratch"), {}, "XLA must give 304 bytes of workspace; got no room today"),
    (dict(fails="stream"), {}, "XLA must give the stream of a call; got no room today")])
def test_errors(plan, how, given, sentence):
    xla = Xla(**how)
    assert xla.call("CUDA", **{"arguments": [0xA0], "results": [0xB0], **given}) == 1 and not plan
    assert len(xla.said) == 1 and sentence in xla.said[0]
    assert xla.asked.count(("destroy", 1)) == ("no room" in sentence)
    assert ("free", 0x1000) in xla.asked or ("scratch", 64) not in xla.asked or how.get("fails") == "scratch"


def test_an_error_of_the_plan_frees_its_memory(plan):
    CALLS[NUMBER] = lambda ordinal: (lambda *given: 1 / 0, (0,), None, 64, bytearray)
    xla = Xla()
    assert xla.call("CUDA", [0xA0], [0xB0]) == 1 and xla.said == ["division by zero"]
    assert xla.asked[-1] == ("free", 0x1010)
