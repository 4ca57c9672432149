"""The hot path: the plan tape, and the table that finds a tape for a legacy call.

It knows bytes and launches, never ops. What it offers lives in the modules below; the names are here too, so
that ``_core`` is all a user imports.
"""
import cydnn.core._address as _address
import cydnn.core._call as _call
import cydnn.core._caller as _caller
import cydnn.core._capsule as _capsule
import cydnn.core._context as _context
import cydnn.core._descriptor as _descriptor
import cydnn.core._driver as _driver
import cydnn.core._embed as _embed
import cydnn.core._handles as _handles
import cydnn.core._link as _link
import cydnn.core._nodes as _nodes
import cydnn.core._numbers as _numbers
import cydnn.core._operands as _operands
import cydnn.core._step as _step
import cydnn.core._table as _table
import cydnn.core._tape as _tape
import cydnn.core._xla as _xla

NAMES = {
    _driver: "device_count driver_version",
    _context: "Context Function",
    _handles: "Buffer Event Stream",
    _address: "Memory memory_of pointer_of stream_of",
    _capsule: "capsule_of",
    _numbers: "Numbers",
    _operands: "Operands scratch_of",
    _step: "log_launches raw_launch_loop wait_for_every_step",
    _tape: "Tape",
    _embed: "Executor",
    _link: "assemble",
    _nodes: "populate update",
    _descriptor: "Descriptor descriptor",
    _table: "PlanTable",
    _caller: "CHOSEN Caller IN_C Known Runner",
    _call: "HandleBase attempt compute nullable",
    _xla: "CALLS targets",
}
globals().update((name, getattr(module, name))
                 for module, names in NAMES.items() for name in names.split())
del NAMES
