"""What another Cython package may cimport: ``execute_c`` runs a tape without the GIL."""
from cydnn.core._address cimport Memory, memory_of, pointer_into, pointer_of, stream_into, stream_of
from cydnn.core._call cimport HandleBase
from cydnn.core._context cimport Context, Function
from cydnn.core._descriptor cimport Descriptor
from cydnn.core._driver cimport check, driver
from cydnn.core._handles cimport Buffer, Event, Stream
from cydnn.core._numbers cimport Numbers, Rule, number_t
from cydnn.core._operands cimport Operands
from cydnn.core._table cimport PlanTable
from cydnn.core._tape cimport Tape, execute_c
from cydnn.core.cuda cimport Driver
