"""Graphs that the tests of this room share."""
from __future__ import annotations

from cydnn.graph import Graph, Node, Tensor
from cydnn.ops import BatchNormTraining, ConvDgrad, ConvFprop, ConvWgrad, Matmul, Pointwise, Reduction
from cydnn.tensor import TensorDesc

IMAGE, FILTER = (4, 16, 12, 12), (32, 16, 3, 3)
OUT = (4, 32, 12, 12)


def tensor(uid, dims, dtype="f16", kind="memory", layout="nhwc", **facts) -> Tensor:
    return Tensor(uid, TensorDesc.packed(dtype, dims, layout if len(dims) > 2 else "nchw"), kind, **facts)


def point(mode, *uids, **attributes) -> Node:
    """A pointwise node: its inputs, then its output."""
    return Node(Pointwise(mode=mode, **attributes), dict(zip("xbt", uids[:-1]), y=uids[-1]))


def conv(x, w, y) -> Node:
    return Node(ConvFprop(pre_pad=1, post_pad=1), dict(x=x, w=w, y=y))


def conv_tail(*nodes, tensors=(), last=(), middle="f32", layout="nhwc", dtype="f16") -> Graph:
    """A convolution 1 * 2 -> 3 with what follows it. Values from 10 on are in between, those in ``last``
    outputs."""
    own = [tensor(1, IMAGE, dtype, layout=layout), tensor(2, FILTER, dtype, layout=layout),
           tensor(3, OUT, middle, "virtual", layout)]
    known = {t.uid for t in (*own, *tensors)}
    made = [u for n in nodes for u in n.writes if u not in known]
    own += [tensor(u, OUT, dtype if u in last else middle, "memory" if u in last else "virtual", layout)
            for u in made]
    return Graph([conv(1, 2, 3), *nodes], [*own, *tensors])


def bias_residual_relu() -> Graph:
    """conv + bias + residual + ReLU, and the mask of where it is positive in packed booleans."""
    extra = [tensor(4, (1, 32, 1, 1)), tensor(5, OUT), tensor(20, OUT, "bool"),
             tensor(6, (1, 1, 1, 1), "f32", "value")]
    return conv_tail(point("add", 3, 4, 10), point("add", 10, 5, 11), point("relu_fwd", 11, 12),
                     point("cmp_gt", 11, 6, 20),
                     tensors=extra, last=(12,))


def silu() -> Graph:
    """x * sigmoid(x) behind a convolution: a value with two readers."""
    return conv_tail(point("sigmoid_fwd", 3, 10), point("mul", 3, 10, 11), last=(11,))


def three_outputs() -> Graph:
    """Pointwise nodes with a fork and three outputs."""
    dims = (8, 32, 10, 10)
    tensors = [tensor(1, dims), tensor(2, (1, 32, 1, 1)), tensor(10, dims, "f32", "virtual"),
               tensor(11, dims), tensor(12, dims, "f32"),
               tensor(13, dims)]
    return Graph([point("add", 1, 2, 10), point("relu_fwd", 10, 11), point("sigmoid_fwd", 10, 12),
                  point("mul", 10, 12, 13)], tensors)


def conv_reduction() -> Graph:
    graph = [tensor(1, IMAGE), tensor(2, FILTER), tensor(3, OUT, "f32", "virtual"),
             tensor(4, (1, 32, 1, 1), "f32")]
    return Graph([conv(1, 2, 3), Node(Reduction(mode="add"), dict(x=3, y=4))], graph)


def dgrad_mul() -> Graph:
    tensors = [tensor(1, OUT), tensor(2, FILTER), tensor(3, IMAGE, "f32", "virtual"), tensor(4, IMAGE),
               tensor(5, IMAGE)]
    return Graph([Node(ConvDgrad(pre_pad=1, post_pad=1), dict(dy=1, w=2, dx=3)), point("mul", 3, 4, 5)],
                 tensors)


def wgrad_mul() -> Graph:
    tensors = [tensor(1, IMAGE), tensor(2, OUT), tensor(3, FILTER, "f32", "virtual"), tensor(4, FILTER),
               tensor(5, FILTER)]
    return Graph([Node(ConvWgrad(pre_pad=1, post_pad=1), dict(x=1, dy=2, dw=3)), point("mul", 3, 4, 5)],
                 tensors)


def norm_add_relu() -> Graph:
    """Batch norm whose result is f32 in between, and running statistics."""
    one = (1, 16, 1, 1)
    tensors = [tensor(1, IMAGE), *(tensor(u, one, "f32") for u in (2, 3, 4, 5, 6, 7, 8, 9)),
               tensor(20, IMAGE, "f32", "virtual"),
               tensor(21, IMAGE), tensor(22, IMAGE, "f32", "virtual"), tensor(23, IMAGE)]
    norm = Node(BatchNormTraining(),
                dict(x=1, scale=2, bias=3, running_mean=4, running_var=5, y=20, mean=6, rstd=7,
                                          next_running_mean=8, next_running_var=9), dict(factor=0.1))
    return Graph([norm, point("add", 20, 21, 22), point("relu_fwd", 22, 23)], tensors)


def scale_conv() -> Graph:
    """A value made in front of a convolution."""
    tensors = [tensor(1, IMAGE), tensor(2, FILTER), tensor(3, OUT), tensor(4, (1, 16, 1, 1)),
               tensor(5, IMAGE, "f32", "virtual")]
    return Graph([point("mul", 1, 4, 5), conv(5, 2, 3)], tensors)


def matmul_column() -> Graph:
    """A product and a column of numbers, one a row."""
    tensors = [tensor(1, (2, 24, 40)), tensor(2, (2, 40, 16)),
               tensor(3, (2, 24, 16), "f32", "virtual", "nchw"),
               tensor(4, (2, 24, 1), layout="nchw"), tensor(5, (2, 24, 16), layout="nchw")]
    tensors[:2] = [t.replace(desc=TensorDesc.packed("f16", t.dims)) for t in tensors[:2]]
    return Graph([Node(Matmul(), dict(a=1, b=2, c=3)), point("add", 3, 4, 5)], tensors)


def softmax_of_scores() -> Graph:
    """A product, and softmax over its columns as the operations it is made of."""
    rows, thin = (2, 24, 16), (2, 24, 1)
    tensors = [tensor(1, (2, 24, 40)), tensor(2, (2, 40, 16)),
               *(tensor(u, rows, "f32", "virtual", "nchw") for u in (3, 11, 12)),
               *(tensor(u, thin, "f32", "virtual", "nchw") for u in (10, 13)),
               tensor(14, rows, layout="nchw")]
    tensors[:2] = [t.replace(desc=TensorDesc.packed("f16", t.dims)) for t in tensors[:2]]
    return Graph([Node(Matmul(), dict(a=1, b=2, c=3)), Node(Reduction(mode="max"), dict(x=3, y=10)),
                  point("sub", 3, 10, 11),
                  point("exp", 11, 12), Node(Reduction(mode="add"), dict(x=12, y=13)),
                  point("div", 12, 13, 14)], tensors)


LISTED = dict(conv_reduction=conv_reduction, dgrad_mul=dgrad_mul, wgrad_mul=wgrad_mul,
              norm_add_relu=norm_add_relu,
              scale_conv=scale_conv, silu=silu, matmul_column=matmul_column,
              softmax_of_scores=softmax_of_scores,
              bias_residual_relu=bias_residual_relu, three_outputs=three_outputs)
