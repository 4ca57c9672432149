"""Convolution descriptors and output sizes: 3.5."""
from cydnn import cudnn as c
from cydnn.legacy.tensor import TensorFields
from cydnn.status import BadParam, NotSupported

from ..arrays import conv_desc, filter_desc, tensor_desc
from . import E

NEW, TWO, THREE = c.createConvolutionDescriptor, conv_desc(), conv_desc((0,) * 3, (1,) * 3)
PLAIN = dict(pad_h=0, pad_w=0, u=1, v=1, upscalex=1, upscaley=1, mode=E(1))
IMAGE, FILTER = tensor_desc(2, 3, 8, 9), filter_desc(4, 3, 3, 3)
FLAT = c.createTensorDescriptor()                # no setter makes such a one
FLAT.set("tensor descriptor", TensorFields(0, (2, 3), (3, 1)))
SET = ("setConvolution2dDescriptor", "setConvolution2dDescriptor_v5")
GET = ("getConvolution2dDescriptor", "getConvolution2dDescriptor_v5")
OUT_2D, OUT = "getConvolution2dForwardOutputDim", "getConvolutionNdForwardOutputDim"
ND = "setConvolutionNdDescriptor"
GOOD = {
    "createConvolutionDescriptor": dict,
    "setConvolution2dDescriptor": lambda: dict(convDesc=NEW(), **PLAIN),
    "setConvolution2dDescriptor_v5": lambda: dict(convDesc=NEW(), **PLAIN, dataType=E(0)),
    "getConvolution2dDescriptor": lambda: dict(convDesc=TWO),
    "getConvolution2dDescriptor_v5": lambda: dict(convDesc=TWO),
    ND: lambda: dict(convDesc=NEW(), arrayLength=2, padA=(0, 0), filterStrideA=(1, 1), upscaleA=(1, 1),
                     mode=E(1), dataType=E(0)),
    "getConvolutionNdDescriptor": lambda: dict(convDesc=TWO, arrayLengthRequested=2),
    OUT_2D: lambda: dict(convDesc=TWO, inputTensorDesc=IMAGE, filterDesc=FILTER),
    OUT: lambda: dict(convDesc=TWO, inputTensorDesc=IMAGE, filterDesc=FILTER, nbDims=4),
    "destroyConvolutionDescriptor": lambda: dict(convDesc=NEW()),
}
ROWS = [
    *((f, f"`{name}` is negative", {name: -1}, BadParam, "pad must be >= 0; got .*-1")
      for f in SET for name in ("pad_h", "pad_w")),
    *((f, f"`{name}` is below 1", {name: value}, BadParam, f"stride must be >= 1; got .*{value}")
      for f in SET for name in "uv" for value in (0, -1)),
    *((f, f"`{name}` is not 1", {name: 2}, NotSupported, "upscale must be 1 .*; got .*2")
      for f in SET for name in ("upscalex", "upscaley")),
    *((f, "it has not 2 spatial dims", dict(convDesc=THREE), BadParam, "must have 2 spatial dims; got 3")
      for f in GET),
    *((ND, "`arrayLength` is below 1", dict(arrayLength=value), BadParam,
       f"arrayLength must be >= 1; got {value}") for value in (0, -1)),
    (ND, "`arrayLength` is above 8",
     dict(arrayLength=9, padA=(0,) * 9, filterStrideA=(1,) * 9, upscaleA=(1,) * 9), NotSupported,
     "arrayLength must be <= 8; got 9"),
    (ND, "a pad is negative", dict(padA=(0, -1)), BadParam, r"pad must be >= 0; got \(0, -1\)"),
    (ND, "a stride is below 1", dict(filterStrideA=(1, 0)), BadParam, r"stride must be >= 1; got \(1, 0\)"),
    (ND, "an upscale is not 1", dict(upscaleA=(1, 2)), NotSupported, r"upscale must be 1 .*; got \(1, 2\)"),
    (ND, "an array is shorter than `arrayLength`", dict(padA=(0,)), ValueError, "padA must have at least 2"),
    (ND, "an array is an address", dict(filterStrideA=4711), TypeError, "filterStrideA must be a sequence"),
    ("getConvolutionNdDescriptor", "`arrayLengthRequested` is negative", dict(arrayLengthRequested=-1),
     BadParam, "arrayLengthRequested must be >= 0; got -1"),
    ("getConvolutionNdDescriptor", "`arrayLengthRequested` is above 8", dict(arrayLengthRequested=9),
     NotSupported, "arrayLengthRequested must be <= 8; got 9"),
    *((f, "`convDesc` has not as many spatial dims as the image", dict(convDesc=THREE), BadParam,
       "convDesc must have 2 spatial dims.*; got 3") for f in (OUT_2D, OUT)),
    *((f, "the ranks of image and filter differ", dict(filterDesc=filter_desc(4, 3, 1, 3, 3)), BadParam,
       "filterDesc must have rank 4 like inputTensorDesc; got 5") for f in (OUT_2D, OUT)),
    *((f, "the channels of image and filter differ", dict(filterDesc=filter_desc(4, 2, 3, 3)), BadParam,
       "filterDesc must have c = 3 .*; got 2") for f in (OUT_2D, OUT)),
    *((f, "the filter is larger than the padded image", dict(filterDesc=filter_desc(4, 3, 9, 3)), BadParam,
       "filterDesc must fit into the padded") for f in (OUT_2D, OUT)),
    *((f, "`dataType` is no number", dict(dataType=None), TypeError,
       "dataType must be a cudnnDataType_t; got None") for f in ("setConvolution2dDescriptor_v5", ND)),
    *((f, "the rank of the image is below 3", dict(inputTensorDesc=FLAT), BadParam,
       "inputTensorDesc must have rank >= 3; got 2") for f in (OUT_2D, OUT)),
    (OUT_2D, "the rank of the image is not 4", dict(inputTensorDesc=tensor_desc(2, 3, 8)), BadParam,
     "rank 4|rank 3"),
    (OUT, "`nbDims` is negative", dict(nbDims=-1), BadParam, "nbDims must be >= 0; got -1"),
    (OUT, "`nbDims` is above the rank", dict(nbDims=5), BadParam, "nbDims must be <= the rank 4; got 5"),
]
