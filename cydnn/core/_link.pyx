"""The driver's assembler: machine code of a PTX text."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from cydnn.core._context cimport Context, enter, leave
from cydnn.core._driver cimport cu, need

cdef enum:
    IS_PTX = 1                                # CUjitInputType


def assemble(Context context not None, bytes text not None) -> bytes:
    """The machine code of a PTX text for a device, as ``Context.load`` takes it too."""
    cdef void *link = NULL
    cdef void *image = NULL
    cdef size_t size = 0
    cdef bint pushed
    cdef const char *call = "cuLinkCreate"
    need(<void *>cu.LinkCreate, call)
    need(<void *>cu.LinkAddData, "cuLinkAddData")
    need(<void *>cu.LinkComplete, "cuLinkComplete")
    need(<void *>cu.LinkDestroy, "cuLinkDestroy")
    enter(context, &pushed)
    cdef int status = cu.LinkCreate(0, NULL, NULL, &link)
    if status == 0:
        call = "cuLinkAddData"                # with the 0 behind the text
        status = cu.LinkAddData(link, IS_PTX, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text) + 1, "cydnn",
                                0, NULL, NULL)
    if status == 0:
        call, status = "cuLinkComplete", cu.LinkComplete(link, &image, &size)
    code = (<char *>image)[:size] if status == 0 else b""                # the link's own memory
    if link != NULL:
        cu.LinkDestroy(link)
    leave(pushed)
    context.check(status, call)
    return code
