"""What another Cython package may cimport: ``execute_c`` runs a tape without the GIL."""
from cydnn._address cimport Memory, memory_of, pointer_into, pointer_of, stream_into, stream_of
from cydnn._call cimport HandleBase
from cydnn._context cimport Context, Function
from cydnn._descriptor cimport Descriptor
from cydnn._driver cimport check, driver
from cydnn._handles cimport Buffer, Event, Stream
from cydnn._numbers cimport Numbers, Rule, number_t
from cydnn._operands cimport Operands
from cydnn._table cimport PlanTable
from cydnn._tape cimport Tape, execute_c
