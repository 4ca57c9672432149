"""Descriptors for tests: tensors by a line, and finalized values for every attribute of every kind."""
from __future__ import annotations

import numpy as np

from cydnn.backend import KINDS, Descriptor, constant
from cydnn.backend.constants import enumerations
from cydnn.backend.table import ENUMS
from cydnn.tensor import packed_strides


def make(kind: str, **attributes) -> Descriptor:
    """A descriptor with attributes, whose names may lack the kind's own name in front; not finalized."""
    d = Descriptor(kind)
    for name, value in attributes.items():
        known = [n for n in d.kind.attributes if n == name or n.endswith(f"_{name}")]
        d.set(min(known, key=len), value)
    return d


def tensor(uid, dims, dtype="FLOAT", strides=None, **more) -> Descriptor:
    """A finalized tensor descriptor."""
    strides = packed_strides(tuple(dims)) if strides is None else strides
    return make("TENSOR", TENSOR_DATA_TYPE=constant(f"CUDNN_DATA_{dtype}"), TENSOR_DIMENSIONS=list(dims),
                TENSOR_STRIDES=list(strides), TENSOR_UNIQUE_ID=uid, TENSOR_BYTE_ALIGNMENT=16,
                **more).finalize()


def convolution(spatial=2, compute="FLOAT", **more) -> Descriptor:
    """Finalized parameters of a convolution."""
    return make("CONVOLUTION", COMP_TYPE=constant(f"CUDNN_DATA_{compute}"),
                CONV_MODE=constant("CUDNN_CROSS_CORRELATION"), SPATIAL_DIMS=spatial, **more).finalize()


def forward(x, w, y, parameters, **more) -> Descriptor:
    """A forward convolution, not finalized."""
    return make("OPERATION_CONVOLUTION_FORWARD", OPERATION_CONVOLUTION_FORWARD_X=x,
                OPERATION_CONVOLUTION_FORWARD_W=w, OPERATION_CONVOLUTION_FORWARD_Y=y, CONV_DESC=parameters,
                **more)


def pointwise(mode: str, y=None, x=None, b=None, t=None, dx=None,
              dy=None, compute="FLOAT", **more) -> Descriptor:
    """A pointwise operation, finalized."""
    pw = make("POINTWISE", POINTWISE_MODE=constant(f"CUDNN_POINTWISE_{mode}"),
              MATH_PREC=constant(f"CUDNN_DATA_{compute}")).finalize()
    given = dict(XDESC=x, BDESC=b, TDESC=t, YDESC=y, DXDESC=dx, DYDESC=dy)
    given = {f"OPERATION_POINTWISE_{n}": d for n, d in given.items() if d is not None}
    return make("OPERATION_POINTWISE", PW_DESCRIPTOR=pw, **given, **more).finalize()


def planned(ops, handle, mode="A") -> tuple:
    """(graph, finalized plan of the first configuration)."""
    graph = make("OPERATIONGRAPH", OPS=ops, OPERATIONGRAPH_HANDLE=handle).finalize()
    found = make("ENGINEHEUR", OPERATION_GRAPH=graph, MODE=constant(f"CUDNN_HEUR_MODE_{mode}")).finalize()
    config = found.get("ENGINEHEUR_RESULTS")[0]
    return graph, make("EXECUTION_PLAN", EXECUTION_PLAN_HANDLE=handle, ENGINE_CONFIG=config).finalize()


def packed(buffers: dict, plan: Descriptor) -> Descriptor:
    """A finalized variant pack with a workspace on the host."""
    workspace = np.zeros(plan.get("EXECUTION_PLAN_WORKSPACE_SIZE")[0] + 1, np.uint8)
    return make("VARIANT_PACK", UNIQUE_IDS=list(buffers), DATA_POINTERS=list(buffers.values()),
                WORKSPACE=workspace).finalize()


def conv_graph(handle):
    """Finalized descriptors of every kind that a convolution with a bias needs, by kind."""
    x, w, y = tensor(1, (2, 8, 6, 6)), tensor(2, (4, 8, 3, 3)), tensor(3, (2, 4, 6, 6), IS_VIRTUAL=True)
    conv = forward(x, w, y, convolution(PRE_PADDINGS=[1, 1], POST_PADDINGS=[1, 1])).finalize()
    add = pointwise("ADD", tensor(5, (2, 4, 6, 6)), y, tensor(4, (1, 4, 1, 1)))
    graph, plan = planned([add, conv], handle)
    config = plan.values["EXECUTION_PLAN_ENGINE_CONFIG"][0]
    engine = config.values["ENGINECFG_ENGINE"][0]
    heur = make("ENGINEHEUR", OPERATION_GRAPH=graph, MODE=constant("CUDNN_HEUR_MODE_A")).finalize()
    return {"TENSOR": x, "CONVOLUTION": conv.values["OPERATION_CONVOLUTION_FORWARD_CONV_DESC"][0],
            "OPERATION": conv, "POINTWISE": add.values["OPERATION_POINTWISE_PW_DESCRIPTOR"][0],
            "OPERATIONGRAPH": graph, "ENGINECFG": config, "ENGINE": engine, "ENGINEHEUR": heur,
            "EXECUTION_PLAN": plan,
            "MATMUL": make("MATMUL", COMP_TYPE=constant("CUDNN_DATA_FLOAT")).finalize(),
            "REDUCTION": make("REDUCTION", COMP_TYPE=constant("CUDNN_DATA_FLOAT"),
                              REDUCTION_OPERATOR=constant("CUDNN_REDUCE_TENSOR_ADD")).finalize(),
            "KNOB_CHOICE": make("KNOB_CHOICE", KNOB_TYPE=constant("CUDNN_KNOB_TYPE_STAGES"),
                                KNOB_VALUE=0).finalize(),
            "KERNEL_CACHE": make("KERNEL_CACHE").finalize(),
            "DEVICEPROP": make("DEVICEPROP", DEVICEPROP_HANDLE="numpy").finalize()}


def right(attr, others: dict) -> list:
    """Elements that an attribute takes."""
    type_ = attr.types[0]
    if type_ == "BACKEND_DESCRIPTOR":
        return [others[attr.of[0]]] if attr.of[0] in others else []
    if type_ in ENUMS:
        return [next(iter(enumerations()[ENUMS[type_]].values()))]
    return {"HANDLE": ["numpy"], "CHAR": ["{}"], "VOID_PTR": [0], "BOOLEAN": [True], "FRACTION": [(1, 2)],
            "FLOAT": [0.5], "DOUBLE": [0.5]}.get(type_, [1])


EVERY = [(kind.name, attr.name) for kind in KINDS.values() for attr in kind.attributes.values()]
