"""Operations of the guide that the cudnn-frontend package has in C++ alone, as methods of a pygraph."""
from __future__ import annotations

from ..given import flag, whole
from ..ops import BnBackwardWeights, BnFinalize, PagedCacheLoad, Signal, SoftmaxFwd
from ..status import BadParam
from .enums import data_type, member, signal_mode

NOT_SET = data_type.NOT_SET


class GuideOperations:
    """Softmax, and batch normalization in parts: between the sums of a convolution's epilogue and the scale
    and bias of the next one's prologue."""

    def softmax(self, input, axis=-1, generate_stats=False, compute_data_type=NOT_SET, name=""):
        """[Y, Stats]: softmax along a dim (-1: the last), and the log of each row's sum of exponentials,
        where ``generate_stats`` (else None)."""
        name = self._named("softmax", name)
        rank = len(self._mine(name, "input", input).dim)
        axis = whole(f"{name}: axis", axis)
        if axis < 0 and not rank:
            raise BadParam(f"{name}: axis must be >= 0 where the dim of input is not set; got {axis}")
        outputs = dict(y="Y")
        if flag(f"{name}: generate_stats", generate_stats):
            outputs["stats"] = "STATS"
        made = self._record("softmax", SoftmaxFwd, dict(x=("input", input)), outputs, compute_data_type, name,
                            attributes=dict(axis=("axis", axis + rank if axis < 0 else axis)))
        return [made["y"], made.get("stats")]

    def paged_cache_load(self, container, seq_len, page_table, compute_data_type=NOT_SET, name=""):
        """Y (b, h, s, d): rows of the container (pages, h, page, d) by the page table (b, 1, n, 1), 0 behind
        the lengths (b, 1, 1, 1). s is n pages unless the dim of Y is set."""
        inputs = dict(container=("container", container), seq_len=("seq_len", seq_len),
                      table=("page_table", page_table))
        return self._record("paged_cache_load", PagedCacheLoad, inputs, dict(y="Y"), compute_data_type,
                            name)["y"]

    def signal(self, input, mode, value=1, compute_data_type=NOT_SET, name=""):
        """[Y, Flag]: the input, and one i32 in memory, which is set to ``value`` once Y is there, or waited
        for before the input is read. What waits for a flag that nobody sets never ends."""
        name = self._named("signal", name)
        way = member(name, "mode", signal_mode, mode)
        if way.name == "NOT_SET":
            raise BadParam(f"{name}: mode must be set; got {way}")
        made = self._record("signal", Signal, dict(x=("input", input)), dict(y="Y", flag="FLAG"),
                            compute_data_type, name, attributes=dict(mode=("mode", way.name.lower()),
                                                                     value=("value", value)))
        made["flag"].set_output(True).set_dim([1]).set_stride([1]).set_data_type(data_type.INT32)
        return [made["y"], made["flag"]]

    def bn_finalize(self, sum, sq_sum, scale, bias, epsilon, accum_count, prev_running_mean=None,
                    prev_running_var=None, momentum=None, compute_data_type=NOT_SET, name=""):
        """[eq_scale, eq_bias, mean, inv_variance, next_running_mean, next_running_var]; the last two are None
        without running inputs, which ``momentum`` is needed with. ``accum_count``: a tensor of one element,
        how many numbers a sum is of."""
        name = self._named("bn_finalize", name)
        inputs = dict(sum=("sum", sum), sq_sum=("sq_sum", sq_sum), scale=("scale", scale),
                      bias=("bias", bias), count=("accum_count", accum_count))
        scalars = dict(epsilon=("epsilon", epsilon))
        outputs = dict(eq_scale="EQ_SCALE", eq_bias="EQ_BIAS", mean="MEAN", rstd="INV_VARIANCE")
        if prev_running_mean is not None or prev_running_var is not None:
            inputs |= dict(running_mean=("prev_running_mean", prev_running_mean),
                           running_var=("prev_running_var", prev_running_var))
            outputs |= dict(next_running_mean="NEXT_RUNNING_MEAN", next_running_var="NEXT_RUNNING_VAR")
            scalars |= dict(factor=("momentum", momentum))
        made = self._record("bn_finalize", BnFinalize, inputs, outputs, compute_data_type, name,
                            scalars=scalars)
        return [made.get(o) for o in BnFinalize.writes]

    def bn_backward_weights(self, loss, input, mean, inv_variance, scale, compute_data_type=NOT_SET, name=""):
        """[Dscale, Dbias, eq_scale_dy, eq_scale_x, eq_bias]: DX is eq_scale_dy * loss + eq_scale_x * input +
        eq_bias."""
        inputs = dict(dy=("loss", loss), x=("input", input), mean=("mean", mean),
                      rstd=("inv_variance", inv_variance), scale=("scale", scale))
        outputs = dict(dscale="DSCALE", dbias="DBIAS", eq_dy_scale="EQ_SCALE_DY", eq_x_scale="EQ_SCALE_X",
                       eq_bias="EQ_BIAS")
        return list(self._record("bn_backward_weights", BnBackwardWeights, inputs, outputs, compute_data_type,
                                 name).values())
