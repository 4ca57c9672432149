"""Tapes as nodes of a CUDA graph of the caller's: a chain, one node for each step, with its parameters.

``populate`` adds them to an empty graph, ``update`` gives them other pointers and numbers. What ``execute``
checks is checked here; a graph that is not this tape's is refused before a node of it is touched.
"""
from cpython.tuple cimport PyTuple_GET_SIZE
from libc.stdint cimport uintptr_t
from libc.stdlib cimport calloc, free

from cydnn.core._address cimport Said, size_of
from cydnn.core._context cimport Context, enter, leave
from cydnn.core._driver cimport cu, driver, error_text, need
from cydnn.core._numbers cimport number_t
from cydnn.core._operands cimport scratch_into
from cydnn.core._step cimport (LAUNCH_END, LAUNCH_POINTER, LAUNCH_SIZE, MAX_PARAMS, Block, Patch, Step, fill)
from cydnn.core._tape cimport MAX_SLOTS, Tape, admit, ints_into
from cydnn.core.atomics cimport write_flag
from cydnn.core.cuda cimport KernelNode, MemsetNode, address_t

from cydnn.given import several, shown
from cydnn.status import BadParam

cdef enum:                                    # CUgraphNodeType; CUlaunchAttributeID
    KERNEL = 0, MEMSET = 2, DEPENDENT = 6
    INVALID_VALUE = 1, INVALID_HANDLE = 400   # CUresult

cdef struct Given:                            # what an execute of a tape is given
    void *pointers[MAX_SLOTS]
    number_t numbers[MAX_SLOTS]
    number_t *values
    void *workspace
    size_t workspace_bytes


def populate(Tape tape not None, graph, pointers, scalars=None, workspace=None, workspace_bytes=0) -> int:
    """Add a node for each step of a tape to an empty CUDA graph; returns how many. ``graph``: a CUgraph, or
    its address. The tape must live as long as what is made of the graph. A graph that the driver fails to
    fill is to be thrown away."""
    cdef Given given
    cdef bint pushed
    cdef void *handle = handle_of(graph)
    cdef size_t count = 0
    all_there()
    given_into(tape, &given, pointers, scalars, workspace, workspace_bytes)
    enter(tape.context, &pushed)
    admit(tape, given.pointers, given.workspace, given.workspace_bytes, pushed)
    try:
        count_of(tape.context, handle, &count)
        if count:
            raise BadParam(f"cuda_graph: must be empty to be populated; got one of {count} nodes",
                           status9="BAD_PARAM_CUDA_GRAPH_MISMATCH")
        return add_all(tape, handle, &given)
    finally:
        leave(pushed)


def update(Tape tape not None, graph, pointers, scalars=None, workspace=None, workspace_bytes=0) -> int:
    """Give the nodes that ``populate`` made of a tape other pointers and numbers; returns how many there are.
    ``graph``: the one that was populated, or a copy of it, such as a child of a larger one. What runs
    already is not changed: cuGraphExecUpdate does that."""
    cdef Given given
    cdef bint pushed
    cdef void *handle = handle_of(graph)
    cdef void **nodes
    all_there()
    given_into(tape, &given, pointers, scalars, workspace, workspace_bytes)
    nodes = <void **>calloc(tape.step_count + 2, sizeof(void *))
    if nodes == NULL:
        raise MemoryError()
    try:
        enter(tape.context, &pushed)
        admit(tape, given.pointers, given.workspace, given.workspace_bytes, pushed)
        try:
            find_all(tape, handle, nodes, &given)
            return set_all(tape, nodes, &given)
        finally:
            leave(pushed)
    finally:
        free(nodes)


# -- What is given -------------------------------------------------------------------------------------------

cdef void *handle_of(graph) except NULL:
    """The address of a CUgraph."""
    number = 0
    if not isinstance(graph, (str, bytes, float, bool)):
        try:
            number = int(graph)
        except Exception:                     # its own methods may raise anything
            pass
    if not 0 < number < 1 << 64:
        raise BadParam(f"cuda_graph: must be a CUgraph, or its address; got {shown(graph)}")
    return <void *><uintptr_t>number


cdef int all_there() except -1:
    driver()
    need(<void *>cu.GraphGetNodes, "cuGraphGetNodes")
    need(<void *>cu.GraphGetRootNodes, "cuGraphGetRootNodes")
    need(<void *>cu.GraphNodeGetDependentNodes, "cuGraphNodeGetDependentNodes")
    need(<void *>cu.GraphNodeGetType, "cuGraphNodeGetType")
    need(<void *>cu.GraphAddKernelNode, "cuGraphAddKernelNode")
    need(<void *>cu.GraphKernelNodeGetParams, "cuGraphKernelNodeGetParams")
    need(<void *>cu.GraphKernelNodeSetParams, "cuGraphKernelNodeSetParams")
    need(<void *>cu.GraphKernelNodeSetAttribute, "cuGraphKernelNodeSetAttribute")
    need(<void *>cu.GraphAddMemsetNode, "cuGraphAddMemsetNode")
    return need(<void *>cu.GraphMemsetNodeSetParams, "cuGraphMemsetNodeSetParams")


cdef int given_into(Tape tape, Given *given, pointers, scalars, workspace, workspace_bytes) except -1:
    """As ``Tape.execute`` reads it."""
    cdef Said said[MAX_SLOTS]
    cdef Py_ssize_t ints
    pointers = tuple(several("execute: pointers", pointers, "pointers"))
    ints = ints_into(pointers, given.pointers)
    if ints < PyTuple_GET_SIZE(pointers):
        tape.operands.objects_into(pointers, ints, given.pointers, said)
    if PyTuple_GET_SIZE(pointers) != tape.slot_count:
        raise BadParam(f"pointers: must be {tape.slot_count} ({', '.join(tape.names)}); "
                       f"got {len(pointers)}")
    given.values = tape.numbers.defaults
    if scalars is not None:
        tape.numbers.read_all(tuple(several("execute: scalars", scalars, "numbers")), given.numbers)
        given.values = given.numbers
    elif tape.numbers.required:
        tape.numbers.refuse_missing()
    given.workspace_bytes = size_of(workspace_bytes)
    scratch_into(workspace, given.workspace_bytes, &given.workspace)
    write_flag(&tape.is_sealed, True)
    return 0


cdef int count_of(Context context, void *graph, size_t *count) except -1:
    """How many nodes a graph has. The first that it is asked, so what is no graph fails here."""
    cdef int status = cu.GraphGetNodes(graph, NULL, count)
    if status in (INVALID_VALUE, INVALID_HANDLE):
        raise BadParam(f"cuda_graph: must be a CUDA graph that was not destroyed; the driver says "
                       f"cuGraphGetNodes: {error_text(status)}", status9="BAD_PARAM_CUDA_GRAPH_MISMATCH")
    return context.check(status, "cuGraphGetNodes")


cdef int refuse_foreign(Tape tape, int count, str got) except -1:
    raise BadParam(f"cuda_graph: must be one that was populated from this plan, a chain of {count} nodes; "
                   f"got {got}", status9="BAD_PARAM_CUDA_GRAPH_MISMATCH")


# -- Parameters of a node ------------------------------------------------------------------------------------

cdef bint is_there(Step *step, Given *given):
    """A memset of an operand that is absent is none."""
    cdef Patch *at = step.patches
    return step.function != NULL or at.index < 0 or given.pointers[at.index] != NULL


cdef int kernel_into(Tape tape, Step *step, Given *given, Block *block, KernelNode *node, void **params,
                     void **extra) except -1:
    """A launch; its block is copied by the driver when the node is made or set."""
    cdef unsigned int i
    cdef int status = fill(step, given.pointers, given.workspace, given.values, tape.numbers.rules, block)
    if status:
        return tape.context.fail(status, "cuTensorMapReplaceAddress", step.label)
    extra[0], extra[1], extra[2], extra[3], extra[4] = (
        LAUNCH_POINTER, block.bytes, LAUNCH_SIZE, &step.bytes, LAUNCH_END)
    for i in range(step.param_count):
        params[i] = block.bytes + step.params[i]
    node.function, node.smem, node.kernel, node.context = step.function, step.smem, NULL, NULL
    for i in range(3):
        node.grid[i], node.block[i] = step.grid[i], step.block[i]
    node.params = params if step.param_count else NULL
    node.extra = NULL if step.param_count else extra
    return 0


cdef void memset_into(Step *step, Given *given, MemsetNode *node):
    cdef Patch *at = step.patches
    cdef char *base = <char *>(given.workspace if at.index < 0 else given.pointers[at.index])
    node.at, node.value, node.width = <address_t>(base + at.addend), <unsigned char>step.value, step.bytes
    node.pitch, node.element_bytes, node.height = 0, 1, 1


# -- All nodes -----------------------------------------------------------------------------------------------

cdef int add_all(Tape tape, void *graph, Given *given) except -1:
    """A node for each step behind that of the step before."""
    cdef void *last = NULL
    cdef int i, count = 0
    for i in range(tape.step_count):
        if is_there(&tape.steps[i], given):
            add(tape, &tape.steps[i], graph, &last, given)
            count += 1
    return count


cdef int add(Tape tape, Step *step, void *graph, void **last, Given *given) except -1:
    cdef Block block
    cdef KernelNode kernel
    cdef MemsetNode set
    cdef void *params[MAX_PARAMS]
    cdef void *extra[5]
    cdef void *node = NULL
    cdef size_t after = last[0] != NULL
    cdef unsigned int i
    cdef int status
    cdef const char *call = "cuGraphAddMemsetNode"
    if step.function == NULL:
        memset_into(step, given, &set)
        status = cu.GraphAddMemsetNode(&node, graph, last, after, &set, tape.context.handle)
    else:
        call = "cuGraphAddKernelNode"
        kernel_into(tape, step, given, &block, &kernel, params, extra)
        status = cu.GraphAddKernelNode(&node, graph, last, after, &kernel)
        for i in range(step.attribute_count if status == 0 else 0):
            if step.attributes[i].id != DEPENDENT and status == 0:       # an edge is what it waits for
                call = "cuGraphKernelNodeSetAttribute"
                status = cu.GraphKernelNodeSetAttribute(node, step.attributes[i].id,
                                                        step.attributes[i].value)
    if status:
        return tape.context.fail(status, call, step.label)
    last[0] = node
    return 0


cdef int find_all(Tape tape, void *graph, void **nodes, Given *given) except -1:
    """The nodes of a graph in the order of the steps, each of which is that of its step."""
    cdef size_t count = 0, roots = 2, users
    cdef int i, at = 0, wanted = 0
    for i in range(tape.step_count):
        wanted += is_there(&tape.steps[i], given)
    count_of(tape.context, graph, &count)
    if <int>count != wanted:
        return refuse_foreign(tape, wanted, f"one of {count} nodes")
    if wanted == 0:
        return 0
    tape.context.check(cu.GraphGetRootNodes(graph, nodes, &roots), "cuGraphGetRootNodes")
    if roots != 1:
        return refuse_foreign(tape, wanted, f"one of {roots} roots")
    for i in range(tape.step_count):
        if not is_there(&tape.steps[i], given):
            continue
        check_node(tape, &tape.steps[i], nodes[at], wanted, at)
        users, at = 2, at + 1
        if at < wanted:
            tape.context.check(cu.GraphNodeGetDependentNodes(nodes[at - 1], &nodes[at], &users),
                               "cuGraphNodeGetDependentNodes")
            if users != 1:
                return refuse_foreign(tape, wanted, f"one whose node {at} has {users} behind it")
    return 0


cdef int check_node(Tape tape, Step *step, void *node, int wanted, int at) except -1:
    """A node is of the kind of a step, and of its kernel."""
    cdef KernelNode kernel
    cdef int kind = -1
    tape.context.check(cu.GraphNodeGetType(node, &kind), "cuGraphNodeGetType")
    if kind != (MEMSET if step.function == NULL else KERNEL):
        return refuse_foreign(tape, wanted, f"one whose node {at + 1} is of another kind")
    if kind == KERNEL:
        tape.context.check(cu.GraphKernelNodeGetParams(node, &kernel), "cuGraphKernelNodeGetParams")
        if kernel.function != step.function:
            name = step.label.decode()
            return refuse_foreign(tape, wanted, f"one whose node {at + 1} is not the kernel {name}")
    return 0


cdef int set_all(Tape tape, void **nodes, Given *given) except -1:
    """Each node with the parameters of its step."""
    cdef Block block
    cdef KernelNode kernel
    cdef MemsetNode set
    cdef void *params[MAX_PARAMS]
    cdef void *extra[5]
    cdef int i, status, at = 0
    cdef Step *step
    cdef const char *call
    for i in range(tape.step_count):
        step = &tape.steps[i]
        if not is_there(step, given):
            continue
        if step.function == NULL:
            memset_into(step, given, &set)
            call, status = "cuGraphMemsetNodeSetParams", cu.GraphMemsetNodeSetParams(nodes[at], &set)
        else:
            kernel_into(tape, step, given, &block, &kernel, params, extra)
            call, status = "cuGraphKernelNodeSetParams", cu.GraphKernelNodeSetParams(nodes[at], &kernel)
        if status:
            return tape.context.fail(status, call, step.label)
        at += 1
    return at
