"""Normalization over other dims than the batch: layer, RMS, instance and ada-layer methods of a pygraph."""
from __future__ import annotations

from ..ops import NormBwd, NormFwd
from ..status import BadParam
from .enums import data_type, member, norm_forward_phase

NOT_SET = data_type.NOT_SET
KEPT = dict(mean="MEAN", rstd="INV_VARIANCE")


class Normalizing:
    """Methods that add one normalization each. The dims of ``scale`` that are not 1 are those of a row."""

    def layernorm(self, norm_forward_phase, input, scale, bias=None, epsilon=None, compute_data_type=NOT_SET,
                  name="", pre_calculated_mean=None, pre_calculated_invvar=None):
        """[Y, mean, inv_variance]; both statistics are None for phase INFERENCE, which may be given them:
        ``epsilon`` is in them then, and pointwise operations make Y."""
        if pre_calculated_mean is None and pre_calculated_invvar is None:
            return self._norm("layer", "layernorm", norm_forward_phase, input, scale, bias, epsilon,
                              compute_data_type, name)
        name = self._named("layernorm", name)
        self._is_inference(name, norm_forward_phase)
        given = dict(input=input, pre_calculated_mean=pre_calculated_mean,
                     pre_calculated_invvar=pre_calculated_invvar, scale=scale)
        given |= {} if bias is None else dict(bias=bias)
        input, mean, rstd, scale, *rest = [self._mine(name, *pair) for pair in given.items()]
        y = self._normalized(name, compute_data_type, input, mean, rstd, scale, *(rest or [None]))
        return [y, None, None]

    def _is_inference(self, name, phase):
        if member(name, "norm_forward_phase", norm_forward_phase, phase) is not norm_forward_phase.INFERENCE:
            raise BadParam(f"{name}: norm_forward_phase must be INFERENCE where pre_calculated_mean and "
                           f"pre_calculated_invvar are given; got {phase.name}")

    def layernorm_backward(self, grad, input, scale, mean=None, inv_variance=None, compute_data_type=NOT_SET,
                           name=""):
        """[DX, Dscale, Dbias]; the statistics are made from ``input`` where they are not given."""
        return self._norm_backward("layer", "layernorm_backward", grad, input, scale, mean, inv_variance,
                                   compute_data_type, name)

    def rmsnorm(self, norm_forward_phase, input, scale, bias=None, epsilon=None, compute_data_type=NOT_SET,
                name=""):
        """[Y, inv_variance]; the latter is None for phase INFERENCE."""
        y, _, rstd = self._norm("rms", "rmsnorm", norm_forward_phase, input, scale, bias, epsilon,
                                compute_data_type, name)
        return [y, rstd]

    def rmsnorm_backward(self, grad, input, scale, inv_variance=None, has_dbias=False,
                         compute_data_type=NOT_SET, name=""):
        """[DX, Dscale, Dbias]; the last is None without ``has_dbias``."""
        return self._norm_backward("rms", "rmsnorm_backward", grad, input, scale, None, inv_variance,
                                   compute_data_type, name, has_dbias=bool(has_dbias))

    def instancenorm(self, norm_forward_phase, input, scale, bias=None, epsilon=None,
                     compute_data_type=NOT_SET, name=""):
        """[Y, mean, inv_variance] of each image and channel; statistics are None for phase INFERENCE."""
        return self._norm("instance", "instancenorm", norm_forward_phase, input, scale, bias, epsilon,
                          compute_data_type, name)

    def instancenorm_backward(self, grad, input, scale, mean=None, inv_variance=None,
                              compute_data_type=NOT_SET, name=""):
        """[DX, Dscale, Dbias]; the statistics are made from ``input`` where they are not given."""
        return self._norm_backward("instance", "instancenorm_backward", grad, input, scale, mean,
                                   inv_variance, compute_data_type, name)

    def adalayernorm(self, norm_forward_phase, input, scale, bias=None, epsilon=None,
                     compute_data_type=NOT_SET, name=""):
        """[Y, mean, inv_variance] with a scale and bias for each sample."""
        return self._norm("ada_layer", "adalayernorm", norm_forward_phase, input, scale, bias, epsilon,
                          compute_data_type, name)

    def adalayernorm_backward(self, grad, input, scale, mean=None, inv_variance=None,
                              compute_data_type=NOT_SET, name=""):
        """[DX, Dscale, Dbias], the last two for each sample."""
        return self._norm_backward("ada_layer", "adalayernorm_backward", grad, input, scale, mean,
                                   inv_variance, compute_data_type, name)

    def _norm(self, mode, method, phase, input, scale, bias, epsilon, compute_data_type, name) -> list:
        name = self._named(method, name)
        phase = member(name, "norm_forward_phase", norm_forward_phase, phase)
        if phase is norm_forward_phase.NOT_SET:
            raise BadParam(f"{name}: norm_forward_phase must be TRAINING or INFERENCE; got NOT_SET")
        outputs = dict(y="Y") | (KEPT if phase is norm_forward_phase.TRAINING else {})
        if mode == "rms":
            outputs.pop("mean", None)
        inputs = dict(x=("input", input), scale=("scale", scale))
        inputs |= {} if bias is None else dict(bias=("bias", bias))
        made = self._record(method, NormFwd, inputs, outputs, compute_data_type, name,
                            attributes=dict(mode=("mode", mode)), scalars=dict(epsilon=("epsilon", epsilon)))
        return [made.get(o) for o in ("y", "mean", "rstd")]

    def _norm_backward(self, mode, method, grad, input, scale, mean, inv_variance, compute_data_type, name,
                       has_dbias=True) -> list:
        name = self._named(method, name)
        inputs = dict(x=("input", input), dy=("grad", grad), scale=("scale", scale))
        kept = dict(mean=("mean", mean), rstd=("inv_variance", inv_variance))
        inputs |= {o: pair for o, pair in kept.items() if pair[1] is not None}
        names = ("DX", "Dscale", "Dbias") if mode == "rms" else ("DX", "DSCALE", "DBIAS")
        outputs = dict(zip(("dx", "dscale", "dbias") if has_dbias else ("dx", "dscale"), names))
        made = self._record(method, NormBwd, inputs, outputs, compute_data_type, name,
                            attributes=dict(mode=("mode", mode)))
        return [made.get(o) for o in ("dx", "dscale", "dbias")]
