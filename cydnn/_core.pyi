"""The hot path: the plan tape, and the table that finds a tape for a legacy call."""
from ._address import Memory as Memory, memory_of as memory_of
from ._address import pointer_of as pointer_of, stream_of as stream_of
from ._call import HandleBase as HandleBase, attempt as attempt, compute as compute
from ._call import nullable as nullable
from ._context import Context as Context, Function as Function
from ._descriptor import Descriptor as Descriptor, descriptor as descriptor
from ._driver import device_count as device_count, driver_version as driver_version
from ._handles import Buffer as Buffer, Event as Event, Stream as Stream
from ._numbers import Numbers as Numbers
from ._operands import Operands as Operands, scratch_of as scratch_of
from ._step import log_launches as log_launches, raw_launch_loop as raw_launch_loop
from ._step import wait_for_every_step as wait_for_every_step
from ._table import PlanTable as PlanTable
from ._tape import Tape as Tape
