"""Convolution, its algorithms and workspaces: 3.6 to 3.9."""
import numpy as np

from cydnn import cudnn as c
from cydnn.status import BadParam, NotSupported
from support.guard.mirror import Mirror

from ..arrays import DOUBLE, HALF, NHWC, conv_desc, filter_desc as F, tensor_desc as T
from . import NUMPY, E

X, W, Y, CONV = T(2, 3, 6, 5), F(4, 3, 3, 3), T(2, 4, 4, 3), conv_desc()
PTX = c.create(Mirror("sm_80"))
new = lambda: np.ones(200, np.float32)
SHARED = np.ones(200, np.float32)
BIAS = "convolutionBackwardBias"
# direction: ({role: argument}, arguments in order, preference)
DIRECTIONS = {
    "Forward": (dict(image="x", filter="w", output="y"), "x w conv y"),
    "BackwardFilter": (dict(image="x", filter="dw", output="dy"), "x dy conv dw"),
    "BackwardData": (dict(image="dx", filter="w", output="dy"), "w dy conv dx"),
}


def descs(direction) -> dict:
    roles, order = DIRECTIONS[direction]
    of = {**{name: dict(image=X, filter=W, output=Y)[role] for role, name in roles.items()}, "conv": CONV}
    return {f"{name}Desc": of[name] for name in order.split()}


def with_arrays(direction) -> dict:
    found = {}
    for name, desc in descs(direction).items():
        found[name] = desc
        if name != "convDesc":
            found[name.removesuffix("Desc")] = new()
    return found


GOOD = {BIAS: lambda: dict(handle=NUMPY, alpha=1.0, dyDesc=Y, dy=new(), beta=0.0, dbDesc=T(1, 4, 1, 1),
                           db=np.ones(4, np.float32))}
for _d in DIRECTIONS:
    _name = f"Convolution{_d}"
    GOOD |= {
        f"find{_name}Algorithm": lambda d=_d: dict(handle=NUMPY, **descs(d), requestedAlgoCount=9),
        f"find{_name}AlgorithmEx": lambda d=_d: dict(handle=NUMPY, **with_arrays(d), requestedAlgoCount=9,
                                                     workSpace=0, workSpaceSizeInBytes=0),
        f"get{_name}Algorithm": lambda d=_d: dict(handle=NUMPY, **descs(d), preference=E(1),
                                                  memoryLimitInBytes=0),
        f"get{_name}WorkspaceSize": lambda d=_d: dict(handle=NUMPY, **descs(d), algo=E(1)),
        f"convolution{_d}": lambda d=_d: dict(handle=NUMPY, alpha=1.0, **with_arrays(d), algo=E(1),
                                              workSpace=0,
                                              workSpaceSizeInBytes=0, beta=0.0),
    }
IMAGE_3D, FILTER_3D, OUTPUT_3D = T(2, 3, 4, 6, 5), F(4, 3, 3, 3, 3), T(2, 4, 2, 4, 3)
CONV_3D = conv_desc((0,) * 3, (1,) * 3)
BROKEN = [  # condition, {role: descriptor}, error, words with the names of the roles
    ("ranks of {image} and {output} differ", dict(output=T(2, 4, 4)), BadParam,
     "{output}Desc must have rank 4 like {image}Desc; got 3"),
    ("ranks of {image} and {filter} differ", dict(filter=F(4, 3, 3)), BadParam,
     "{filter}Desc must have rank 4 like {image}Desc; got 3"),
    ("`convDesc` has not as many spatial dims", dict(conv=CONV_3D), BadParam,
     "convDesc must have 2 spatial dims like {image}Desc; got 3"),
    ("channels of {image} and {filter} differ", dict(filter=F(4, 2, 3, 3)), BadParam,
     "{filter}Desc must have c = 3 like {image}Desc; got 2"),
    ("{filter} is larger than the padded {image}", dict(filter=F(4, 3, 7, 3)), BadParam,
     "{filter}Desc must fit into the padded {image}Desc"),
    ("n of {image} and {output} differ", dict(output=T(1, 4, 4, 3)), BadParam, "{output}Desc must have dims"),
    ("c of {output} is not k of {filter}", dict(output=T(2, 5, 4, 3)), BadParam,
     "{output}Desc must have dims"),
    ("{output} has not the output size", dict(output=T(2, 4, 4, 4)), BadParam,
     r"{output}Desc must have dims \(2, 4, 4, 3\), the output of the forward convolution; got"),
    ("types of {image} and {filter} differ", dict(filter=F(4, 3, 3, 3, dtype=HALF)), BadParam,
     "{filter}Desc must have data type f32 like {image}Desc; got f16"),
    ("types of {image} and {output} differ", dict(output=T(2, 4, 4, 3, dtype=DOUBLE)), BadParam,
     "{output}Desc must have data type f32 like {image}Desc; got f64"),
    ("math type and data type are no pair", dict(conv=conv_desc(compute=DOUBLE)), NotSupported,
     "data and math type must be one of .*; got f32/f64"),
    ("the rank is not 4 or 5", dict(image=T(1, 1, 1), filter=F(1, 1, 1), output=T(1, 1, 1),
                                    conv=conv_desc((0,), (1,))), NotSupported,
     "{image}Desc must have rank 4 or 5; got 3"),
]
NHWC_ONLY = [
    ("an NHWC filter with NCHW data", dict(filter=F(4, 3, 3, 3, format=NHWC)), NotSupported,
     "algo .* cannot: takes an NHWC filter with .* NHWC HWC-packed; got"),
    ("an NHWC filter of DOUBLE", dict(filter=F(4, 3, 3, 3, format=NHWC, dtype=DOUBLE),
                                      image=T(2, 3, 6, 5, layout="nhwc", dtype=DOUBLE),
                                      output=T(2, 4, 4, 3, layout="nhwc", dtype=DOUBLE),
                                      conv=conv_desc(compute=DOUBLE)), NotSupported,
     "takes an NHWC filter with the configurations .*; got DOUBLE"),
]


def rows_of(direction, roles):
    named = dict(roles, conv="conv")
    change = lambda by_role: {f"{named[role]}Desc": desc for role, desc in by_role.items()}
    compute, query = f"convolution{direction}", f"getConvolution{direction}WorkspaceSize"
    choose = f"getConvolution{direction}Algorithm"
    for condition, by_role, error, words in BROKEN:
        for function in (compute, query, choose):
            # which algorithms there are is asked last: for a choice every one of them refuses
            yield function, condition.format(**named), change(by_role), error, words.format(**named)
    for condition, by_role, error, words in NHWC_ONLY:
        for function in (compute, query):
            yield function, condition, change(by_role), error, words
    for function in (compute, query):
        yield (function, "the algorithm does not exist for this rank",
               dict(algo={"Forward": 3, "BackwardFilter": 1, "BackwardData": 2}[direction],
                    **change(dict(image=IMAGE_3D, filter=FILTER_3D, output=OUTPUT_3D, conv=CONV_3D))),
               NotSupported, "algo .* does not exist for rank 5")
    yield (choose, "nothing fits the limit", dict(handle=PTX, preference=2, memoryLimitInBytes=-1),
           NotSupported,
           "no algorithm can do this within -1 bytes of workspace")
    output = {"Forward": "y", "BackwardFilter": "dw", "BackwardData": "dx"}[direction]
    other = next(name for name in roles.values() if name != output)
    yield (compute, "an output is an input", {output: SHARED, other: SHARED}, BadParam, "must not overlap")
    for function in (f"findConvolution{direction}Algorithm", f"findConvolution{direction}AlgorithmEx"):
        yield (function, "`requestedAlgoCount` is below 1", dict(requestedAlgoCount=0), BadParam,
               "requestedAlgoCount must be >= 1; got 0")


IN_HALF = T(2, 3, 6, 5, dtype=HALF), F(4, 3, 3, 3, dtype=HALF), T(2, 4, 4, 3, dtype=HALF)
LARGE = dict(handle=PTX, algo=2)                 # explicit GEMM has the columns in its workspace
ROWS = [
    *(row for direction, (roles, _) in DIRECTIONS.items() for row in rows_of(direction, roles)),
    ("convolutionForward", "y overlaps itself", dict(yDesc=T(2, 4, 4, 3, strides=(0, 12, 3, 1))),
     NotSupported,
     "yDesc must not overlap itself"),
    ("convolutionBackwardData", "dx overlaps itself", dict(dxDesc=T(2, 3, 6, 5, strides=(0, 30, 5, 1))),
     NotSupported, "dxDesc must not overlap itself"),
    ("convolutionForward", "`workSpace` is NULL, and some is needed", dict(LARGE,
                                                                           workSpaceSizeInBytes=1 << 20),
     BadParam, "workspace: it must have at least [0-9]+ bytes; got"),
    ("convolutionForward", "`workSpaceSizeInBytes` is too small",
     dict(LARGE, workSpace=np.zeros(64, np.uint8), workSpaceSizeInBytes=64), BadParam,
     "workspace: it must have at least [0-9]+ bytes; got"),
    ("convolutionForward", "a layout that the algorithm does not take",
     dict(algo=4, xDesc=T(2, 3, 6, 5, layout="nhwc")), NotSupported,
     "algo FFT cannot: takes xDesc NCHW HW-packed"),
    ("convolutionForward", "a type that the algorithm does not take",
     dict(algo=6, xDesc=T(2, 3, 6, 5, dtype=DOUBLE), wDesc=F(4, 3, 3, 3, dtype=DOUBLE),
          yDesc=T(2, 4, 4, 3, dtype=DOUBLE), convDesc=conv_desc(compute=DOUBLE)), NotSupported,
     "algo WINOGRAD cannot: takes the configurations .*; got DOUBLE"),
    *(("convolutionForward", condition, dict(algo=algo, **change), NotSupported, f"cannot: {words}")
      for condition, algo, change, words in (
          ("FFT, FFT_TILING, WINOGRAD: a stride is not 1", 6,
           dict(convDesc=conv_desc(stride=(2, 1)), yDesc=T(2, 4, 2, 3)), "strides must be 1; got"),
          ("WINOGRAD: the filter is not 3x3", 6, dict(wDesc=F(4, 3, 2, 3), yDesc=T(2, 4, 5, 3)),
           "the filter must be 3x3; got"),
          ("FFT, FFT_TILING: the filter is not larger than the padding", 4,
           dict(convDesc=conv_desc((3, 0)), yDesc=T(2, 4, 10, 3)),
           "the filter must be larger than the padding"),
          ("FFT: the padded image is above 256", 4, dict(xDesc=T(1, 1, 257, 3), wDesc=F(1, 1, 3, 3),
                                                         yDesc=T(1, 1, 255, 1)),
           "the padded image must be <= 256"),
          ("FFT_TILING: the filter is above 32", 5, dict(xDesc=T(1, 1, 33, 3), wDesc=F(1, 1, 33, 3),
                                                         yDesc=T(1, 1, 1, 1)), "the filter must be <= 32"),
          ("FFT_TILING: a 3-d filter is above 16", 5,
           dict(xDesc=T(1, 1, 17, 3, 3), wDesc=F(1, 1, 17, 3, 3), yDesc=T(1, 1, 1, 1, 1), convDesc=CONV_3D),
           "the filter must be <= 16"))),
    *((f, "a layout that the algorithm does not take", {"dyDesc": T(2, 4, 4, 3, strides=(96, 24, 6, 2))},
       NotSupported, "algo ALGO_1 cannot: takes dyDesc NCHW CHW-packed; got dims")
      for f in ("convolutionBackwardFilter", "convolutionBackwardData")),
    *((f, "HALF math", {image: IN_HALF[0], filter_: IN_HALF[1], "dyDesc": IN_HALF[2],
                        "convDesc": conv_desc(compute=HALF)}, NotSupported,
       "algo ALGO_1 cannot: takes the configurations .*; got TRUE_HALF") for f, image, filter_ in (
           ("convolutionBackwardFilter", "xDesc", "dwDesc"), ("convolutionBackwardData", "dxDesc", "wDesc"))),
    (BIAS, "n or a spatial size of db is not 1", dict(dbDesc=T(2, 4, 1, 1)), BadParam,
     r"dbDesc must have dims \(1, 4, 1, 1\); got \(2, 4, 1, 1\)"),
    (BIAS, "a spatial size of db is not 1", dict(dbDesc=T(1, 4, 1, 3)), BadParam, "dbDesc must have dims"),
    (BIAS, "c of dy and db differ", dict(dbDesc=T(1, 3, 1, 1)), BadParam, "dbDesc must have dims"),
    (BIAS, "types differ", dict(dbDesc=T(1, 4, 1, 1, dtype=HALF)), BadParam,
     "dbDesc must have data type f32 like dyDesc; got f16"),
    (BIAS, "the rank is not 3 to 5", dict(dyDesc=T(*(1,) * 6)), BadParam,
     "dyDesc must have rank 3 to 5; got 6"),
]
