"""The hot path: the plan tape, and the table that finds a tape for a legacy call."""
from .core._address import Memory as Memory, memory_of as memory_of
from .core._address import pointer_of as pointer_of, stream_of as stream_of
from .core._call import HandleBase as HandleBase, attempt as attempt, compute as compute
from .core._call import nullable as nullable
from .core._caller import CHOSEN as CHOSEN, IN_C as IN_C, Caller as Caller, Known as Known, Runner as Runner
from .core._capsule import capsule_of as capsule_of
from .core._context import Context as Context, Function as Function
from .core._descriptor import Descriptor as Descriptor, descriptor as descriptor
from .core._driver import device_count as device_count, driver_version as driver_version
from .core._embed import Executor as Executor
from .core._handles import Buffer as Buffer, Event as Event, Stream as Stream
from .core._link import assemble as assemble
from .core._nodes import populate as populate, update as update
from .core._numbers import Numbers as Numbers
from .core._operands import Operands as Operands, scratch_of as scratch_of
from .core._step import log_launches as log_launches, raw_launch_loop as raw_launch_loop
from .core._step import wait_for_every_step as wait_for_every_step
from .core._table import PlanTable as PlanTable
from .core._tape import Tape as Tape
from .core._xla import CALLS as CALLS, targets as targets
