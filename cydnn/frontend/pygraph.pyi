# Printed by tools/print_stubs.py.

from typing import Any

from .tensor import tensor as _tensor

class pygraph:
    """A graph of operations that is built once and executed many times.

    ``io_data_type`` is the type of non-virtual tensors that set none, ``intermediate_data_type`` of virtual
    ones, ``compute_data_type`` of operations (default: f64 for f64 tensors, f32 for others); torch dtypes
    are taken too. ``handle`` names device and stream (None: one of its own). ``device_property`` stands for
    a device that need not be here; ``sm_count`` and ``sm_version`` make plans for fewer SMs or another
    compute capability. ``kernel_cache`` remembers plans. Plans serve any contents but one shape, and
    their launches are the same in a CUDA graph: the three flags change nothing."""
    def __init__(self, name: Any = ..., io_data_type: Any = ..., intermediate_data_type: Any = ..., compute_data_type: Any = ..., handle: Any = ..., sm_count: Any = ..., sm_version: Any = ..., kernel_cache: Any = ..., device_property: Any = ..., is_dynamic_shape_enabled: Any = ..., is_override_shape_enabled: Any = ..., *, is_cuda_graph_replay_expected: Any = ...) -> None:
        ...
    def abs(self, input: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise abs of input, with broadcast; the result is virtual until set_output(True)."""
    def adalayernorm(self, norm_forward_phase: Any, input: Any, scale: Any, bias: Any = ..., epsilon: Any = ..., compute_data_type: Any = ..., name: Any = ...) -> Any:
        """[Y, mean, inv_variance] with a scale and bias for each sample."""
    def adalayernorm_backward(self, grad: Any, input: Any, scale: Any, mean: Any = ..., inv_variance: Any = ..., compute_data_type: Any = ..., name: Any = ...) -> Any:
        """[DX, Dscale, Dbias], the last two for each sample."""
    def add(self, a: Any, b: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise add of a, b, with broadcast; the result is virtual until set_output(True)."""
    def add_square(self, a: Any, b: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise add_square of a, b, with broadcast; the result is virtual until set_output(True)."""
    def autotune(self, tensor_to_device_buffer: Any, handle: Any = ..., most: Any = ..., save: Any = ..., clock: Any = ...) -> Any:
        """Measure at most ``most`` plans with a variant pack as ``execute`` takes it, choose the fastest that
        is right, and ``save`` it in the tuned table, where mode B finds it in every process. The plan that
        mode A takes is always among them. Outputs are written into memory of its own, so buffers stay as they
        were; workspaces too, so ask ``get_workspace_size`` behind it. ``clock``: what has ``times(calls,
        repeat)``; None: events of a GPU. Returns what was measured: ``print`` it, or take its ``runs``,
        ``best``, ``default`` and ``gain``."""
    def backend_plan_entries(self) -> Any:
        """``plans``: every engine here is the backend's."""
    def batchnorm(self, input: Any, scale: Any, bias: Any, in_running_mean: Any = ..., in_running_var: Any = ..., epsilon: Any = ..., momentum: Any = ..., peer_stats: Any = ..., compute_data_type: Any = ..., name: Any = ..., *, rank: Any = ...) -> Any:
        """[Y, mean, inv_variance, next_running_mean, next_running_var]; the last two are None without
        running inputs, which ``momentum`` is needed with. ``epsilon`` and ``momentum`` are tensors of one
        element, by value or in memory. With ``peer_stats`` the statistics are those of several GPUs, each of
        which executes its graph with the same list: a FLOAT tensor of 4 * channels elements for each GPU and
        peer, in the memory of that GPU, zero before its first use. ``rank``: which of them is this GPU's;
        None: the number of the handle's device."""
    def batchnorm_backward(self, grad: Any, input: Any, scale: Any, mean: Any, inv_variance: Any, peer_stats: Any = ..., compute_data_type: Any = ..., name: Any = ..., *, rank: Any = ...) -> Any:
        """[DX, Dscale, Dbias]; DX is channels-last unless its stride is set. ``peer_stats`` and ``rank`` as
        in ``batchnorm``: then DX is that of the batch of all GPUs, and Dscale and Dbias are the sums over all
        by the number of GPUs."""
    def batchnorm_inference(self, input: Any, mean: Any, inv_variance: Any, scale: Any, bias: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Y = (input - mean) * inv_variance * scale + bias: four pointwise operations, fused where an
        engine can."""
    def bias(self, input: Any, bias: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise add of input, bias, with broadcast; the result is virtual until set_output(True)."""
    def binary_select(self, input0: Any, input1: Any, mask: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise binary_select of input0, input1, mask, with broadcast; the result is virtual until set_output(True)."""
    def block_scale_dequantize(self, input: Any, descale: Any, block_size: Any, is_negative_scale: Any = ..., compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Y: each element times the scale of its block. ``block_size``: elements of each dim that share one,
        those of the last dims where there are fewer; a number: along the dim that has fewer scales, else the
        last. A scale with a sign is read with it, whatever ``is_negative_scale`` says."""
    def block_scale_quantize(self, input: Any, block_size: Any, axis: Any = ..., transpose: Any = ..., compute_data_type: Any = ..., name: Any = ...) -> Any:
        """[Y, scale]: the least scale of its type with which a block of elements along ``axis`` (None or -1:
        the last dim) fits the type of Y, and the elements by it. Set the data types of both. With
        ``transpose`` the axis is innermost in results whose stride is not set."""
    def bn_backward_weights(self, loss: Any, input: Any, mean: Any, inv_variance: Any, scale: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """[Dscale, Dbias, eq_scale_dy, eq_scale_x, eq_bias]: DX is eq_scale_dy * loss + eq_scale_x * input +
        eq_bias."""
    def bn_finalize(self, sum: Any, sq_sum: Any, scale: Any, bias: Any, epsilon: Any, accum_count: Any, prev_running_mean: Any = ..., prev_running_var: Any = ..., momentum: Any = ..., compute_data_type: Any = ..., name: Any = ...) -> Any:
        """[eq_scale, eq_bias, mean, inv_variance, next_running_mean, next_running_var]; the last two are None
        without running inputs, which ``momentum`` is needed with. ``accum_count``: a tensor of one element,
        how many numbers a sum is of."""
    def build(self, modes: Any = ...) -> Any:
        """All of the steps; without modes with the plans that are there, else in the modes A and FALLBACK."""
    def build_operation_graph(self) -> Any:
        """As ``validate``; gives uids to the tensors that have none. From here on neither graph nor tensors
        change."""
    def build_plan_at_index(self, index: Any) -> Any:
        """Build one plan; ``execute`` runs it from now on."""
    def build_plans(self, policy: Any = ...) -> Any:
        """Build the first plan that can be built, or all; the first is the one that ``execute`` runs, but for
        one that was selected or built by its index, which comes first."""
    def ceil(self, input: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise ceil of input, with broadcast; the result is virtual until set_output(True)."""
    def check_support(self) -> Any:
        """True when at least one plan is left; raises cudnnGraphNotSupportedError otherwise."""
    def cmp_eq(self, input: Any, comparison: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise cmp_eq of input, comparison, with broadcast; the result is virtual until set_output(True)."""
    def cmp_ge(self, input: Any, comparison: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise cmp_ge of input, comparison, with broadcast; the result is virtual until set_output(True)."""
    def cmp_gt(self, input: Any, comparison: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise cmp_gt of input, comparison, with broadcast; the result is virtual until set_output(True)."""
    def cmp_le(self, input: Any, comparison: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise cmp_le of input, comparison, with broadcast; the result is virtual until set_output(True)."""
    def cmp_lt(self, input: Any, comparison: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise cmp_lt of input, comparison, with broadcast; the result is virtual until set_output(True)."""
    def cmp_neq(self, input: Any, comparison: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise cmp_neq of input, comparison, with broadcast; the result is virtual until set_output(True)."""
    def concatenate(self, inputs: Any, axis: Any, in_place_index: Any = ..., name: Any = ...) -> Any:
        """The inputs behind each other along a dim. The one with number ``in_place_index`` may be given where
        it lies in the result, and is not copied then."""
    def conv_dgrad(self, loss: Any, filter: Any, padding: Any = ..., stride: Any = ..., dilation: Any = ..., convolution_mode: Any = ..., compute_data_type: Any = ..., name: Any = ...) -> _tensor:
        """DX from DY and the filter; set the dim of DX. ``pre_padding, post_padding`` may stand in place of
        ``padding``."""
    def conv_fprop(self, image: Any, weight: Any, padding: Any = ..., stride: Any = ..., dilation: Any = ..., convolution_mode: Any = ..., compute_data_type: Any = ..., name: Any = ...) -> _tensor:
        """Y = conv(image, weight); image (n, c, …), weight (k, c/groups, …). Padding is 0, stride
        and dilation 1 unless given, each a list, or one number for all spatial dims. Y is channels-last
        unless its stride is set. ``pre_padding, post_padding`` may stand in place of ``padding``."""
    def conv_wgrad(self, image: Any, loss: Any, padding: Any = ..., stride: Any = ..., dilation: Any = ..., convolution_mode: Any = ..., compute_data_type: Any = ..., name: Any = ...) -> _tensor:
        """DW from X and DY; set the dim of DW. ``pre_padding, post_padding`` may stand in place of
        ``padding``."""
    def cos(self, input: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise cos of input, with broadcast; the result is virtual until set_output(True)."""
    def create_execution_plan(self, engine_id: Any, knobs: Any = ...) -> Any:
        """Add the plan of an engine with knobs ({knob_type: number}) as given; the others as the engine
        would take them. Raises BadParam for a number that a knob does not take, cudnnGraphNotSupportedError
        for numbers that it does not have together."""
    def create_execution_plans(self, modes: Any = ...) -> Any:
        """Ask the heuristics, mode by mode; a plan that two modes give counts once. Nothing is built yet."""
    def deselect_behavior_notes(self, notes: Any) -> Any:
        """Leave out plans that have one of these notes."""
    def deselect_engines(self, names: Any) -> Any:
        """Leave out plans whose name holds one of these parts."""
    def deselect_numeric_notes(self, notes: Any) -> Any:
        """Leave out plans that have one of these notes."""
    def deselect_workspace_greater_than(self, workspace: Any) -> Any:
        """Leave out plans that need more workspace. Engines that can do with less are asked for such
        plans."""
    def deserialize(self, *data: Any, enforce_precompiled: Any = ..., run_warmup: Any = ...) -> Any:
        """``data``, or a handle and ``data``: bytes of ``serialize`` give a ready plan, the text of
        ``repr`` a graph. ``enforce_precompiled``: only bytes. A plan that is read is ready to launch, so
        that ``run_warmup`` changes nothing."""
    def div(self, a: Any, b: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise div of a, b, with broadcast; the result is virtual until set_output(True)."""
    def elu(self, input: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise elu_fwd of input, with broadcast; the result is virtual until set_output(True)."""
    def elu_backward(self, loss: Any, input: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise elu_bwd of loss, input, with broadcast; the result is virtual until set_output(True)."""
    def erf(self, input: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise erf of input, with broadcast; the result is virtual until set_output(True)."""
    def estimate(self, index: Any = ...) -> Any:
        """``explain`` as data, a row for each part: {nodes, engine, config, us, bytes, flops, bandwidth};
        ``us`` in microseconds, ``bandwidth`` a share of the device's; both None for the reference."""
    def execute(self, tensor_to_device_buffer: Any, workspace: Any = ..., handle: Any = ..., override_uids: Any = ..., override_shapes: Any = ..., override_strides: Any = ..., tensor_uids: Any = ...) -> Any:
        """Run the chosen plan on the stream of ``handle`` (None: the graph's own). A graph of which no plan
        was built is built now.

        Keys: tensors, their names, or uids; None is skipped, surplus entries are ignored. Values: pointers,
        torch tensors, arrays of any DLPack library; for a tensor that is passed by value a number, or an
        array of one on the host, read now. With ``tensor_uids``, a list of uids, a list of such values.

        ``override_…``: other dims and strides of some tensors, for this call. What follows from them is
        inferred anew; the plan's own engines compute it where they take it, in the plan's workspace."""
    def execute_plan_at_index(self, tensor_to_device_buffer: Any, workspace: Any = ..., index: Any = ..., handle: Any = ..., override_uids: Any = ..., override_shapes: Any = ..., override_strides: Any = ..., tensor_uids: Any = ...) -> Any:
        """As ``execute``, with a plan that was built by its index."""
    def exp(self, input: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise exp of input, with broadcast; the result is virtual until set_output(True)."""
    def explain(self, index: Any = ..., as_data: Any = ..., device: Any = ...) -> Any:
        """A plan in words: which nodes each kernel computes, with engine, configuration and estimate, the
        bytes that must move, FLOP, the share of the device's bandwidth, which engines refused and why, what
        the others would take, notes, what was measured, and the steps. Nothing need be built or chosen.
        ``index``: as in ``get_plan_name_at_index``; None: the plan that ``execute`` runs. ``as_data``: the
        same as dicts. ``device``: what would run on another, such as a card that is not there: "h200"."""
    def find_tensor(self, key: Any) -> Any:
        """The tensor of a name or a uid; None where there is none. Raises BadParam for a name of several."""
    def floor(self, input: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise floor of input, with broadcast; the result is virtual until set_output(True)."""
    def floor_mod(self, input0: Any, input1: Any, compute_data_type: Any = ..., name: Any = ...) -> _tensor:
        """input0 - floor(input0 / input1) * input1, of the sign of input1, where ``mod`` has that of input0:
        five pointwise operations, fused where an engine takes them."""
    def gdn(self, *args: Any, **kw: Any) -> Any:
        """Comes with a later release (linear attention)."""
    def gdn2(self, *args: Any, **kw: Any) -> Any:
        """Comes with a later release (linear attention)."""
    def gdn2_bwd(self, *args: Any, **kw: Any) -> Any:
        """Comes with a later release (linear attention)."""
    def gdn_bwd(self, *args: Any, **kw: Any) -> Any:
        """Comes with a later release (linear attention)."""
    def gdp(self, *args: Any, **kw: Any) -> Any:
        """Comes with a later release (linear attention)."""
    def gdp_bwd(self, *args: Any, **kw: Any) -> Any:
        """Comes with a later release (linear attention)."""
    def gelu(self, input: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise gelu_fwd of input, with broadcast; the result is virtual until set_output(True)."""
    def gelu_approx_tanh(self, input: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise gelu_approx_tanh_fwd of input, with broadcast; the result is virtual until set_output(True)."""
    def gelu_approx_tanh_backward(self, loss: Any, input: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise gelu_approx_tanh_bwd of loss, input, with broadcast; the result is virtual until set_output(True)."""
    def gelu_backward(self, loss: Any, input: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise gelu_bwd of loss, input, with broadcast; the result is virtual until set_output(True)."""
    def gen_index(self, input: Any, axis: Any, compute_data_type: Any = ..., name: Any = ...) -> _tensor:
        """The index along ``axis``, in the shape of input."""
    def genstats(self, input: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """[SUM, SQ_SUM]: of each channel over images and positions, the sum and the sum of squares."""
    def get_behavior_notes(self) -> Any:
        """The notes of the plan that ``execute`` runs."""
    def get_behavior_notes_for_plan_at_index(self, index: Any) -> Any:
        """The notes of a plan."""
    def get_engine_and_knobs_at_index(self, index: Any) -> Any:
        """(engine id, {knob_type: number}) of a plan, such as ``create_execution_plan`` takes."""
    def get_engine_count(self) -> Any:
        """How many engines (or combinations of them) can compute the graph; their ids count from 0."""
    def get_execution_plan_count(self) -> Any:
        """How many plans are left."""
    def get_inputs(self) -> Any:
        """What the caller gives: tensors that no operation writes and that hold no number of the graph."""
    def get_knobs_for_engine(self, engine_id: Any) -> Any:
        """The knobs of an engine on this graph."""
    def get_node(self, name: Any) -> Any:
        """The operation of a name; None where there is none."""
    def get_outputs(self) -> Any:
        """What operations write and is not virtual."""
    def get_plan_name_at_index(self, index: Any) -> Any:
        """The engines of a plan, such as ``110:conv_fprop_mma[tile=m128n256]``."""
    def get_workspace_size(self, handle: Any = ..., override_uids: Any = ..., override_shapes: Any = ..., override_strides: Any = ...) -> Any:
        """Bytes of workspace that ``execute`` needs, with room to pack booleans of one byte each; it is the
        same with every ``handle``. ``override_…``: for other dims of some tensors, never more."""
    def get_workspace_size_plan_at_index(self, index: Any, handle: Any = ..., override_uids: Any = ..., override_shapes: Any = ..., override_strides: Any = ...) -> Any:
        """As ``get_workspace_size``, of a plan."""
    def identity(self, input: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise identity of input, with broadcast; the result is virtual until set_output(True)."""
    def inspect(self) -> Any:
        """All of it: name, nodes and tensors as dicts, inputs, outputs, plans."""
    def instancenorm(self, norm_forward_phase: Any, input: Any, scale: Any, bias: Any = ..., epsilon: Any = ..., compute_data_type: Any = ..., name: Any = ...) -> Any:
        """[Y, mean, inv_variance] of each image and channel; statistics are None for phase INFERENCE."""
    def instancenorm_backward(self, grad: Any, input: Any, scale: Any, mean: Any = ..., inv_variance: Any = ..., compute_data_type: Any = ..., name: Any = ...) -> Any:
        """[DX, Dscale, Dbias]; the statistics are made from ``input`` where they are not given."""
    def kda(self, *args: Any, **kw: Any) -> Any:
        """Comes with a later release (linear attention)."""
    def kda_bwd(self, *args: Any, **kw: Any) -> Any:
        """Comes with a later release (linear attention)."""
    def key(self) -> Any:
        """A number that says what the graph is, the same in every process; names take no part in it."""
    def layernorm(self, norm_forward_phase: Any, input: Any, scale: Any, bias: Any = ..., epsilon: Any = ..., compute_data_type: Any = ..., name: Any = ..., pre_calculated_mean: Any = ..., pre_calculated_invvar: Any = ...) -> Any:
        """[Y, mean, inv_variance]; both statistics are None for phase INFERENCE, which may be given them:
        ``epsilon`` is in them then, and pointwise operations make Y."""
    def layernorm_backward(self, grad: Any, input: Any, scale: Any, mean: Any = ..., inv_variance: Any = ..., compute_data_type: Any = ..., name: Any = ...) -> Any:
        """[DX, Dscale, Dbias]; the statistics are made from ``input`` where they are not given."""
    def leaky_relu(self, input: Any, negative_slope: Any, compute_data_type: Any = ..., name: Any = ...) -> _tensor:
        """``relu`` whose slope must be given."""
    def leaky_relu_backward(self, loss: Any, input: Any, negative_slope: Any, compute_data_type: Any = ..., name: Any = ...) -> _tensor:
        """``relu_backward`` whose slope must be given."""
    def log(self, input: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise log of input, with broadcast; the result is virtual until set_output(True)."""
    def logical_and(self, a: Any, b: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise logical_and of a, b, with broadcast; the result is virtual until set_output(True)."""
    def logical_not(self, input: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise logical_not of input, with broadcast; the result is virtual until set_output(True)."""
    def logical_or(self, a: Any, b: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise logical_or of a, b, with broadcast; the result is virtual until set_output(True)."""
    def matmul(self, A: Any, B: Any, compute_data_type: Any = ..., padding: Any = ..., name: Any = ..., m_override: Any = ..., n_override: Any = ..., k_override: Any = ...) -> _tensor:
        """C[…, m, n] = A[…, m, k] @ B[…, k, n], batch dims broadcast; C is row-major unless its stride
        is set. ``m_override`` … are tensors of sizes, one for each batch: beyond them C is ``padding``, and
        nothing is summed."""
    def max(self, input0: Any, input1: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise max of input0, input1, with broadcast; the result is virtual until set_output(True)."""
    def min(self, input0: Any, input1: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise min of input0, input1, with broadcast; the result is virtual until set_output(True)."""
    def mod(self, input0: Any, input1: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise mod of input0, input1, with broadcast; the result is virtual until set_output(True)."""
    def moe_grouped_matmul(self, token: Any, weight: Any, first_token_offset: Any, token_index: Any = ..., token_ks: Any = ..., mode: Any = ..., top_k: Any = ..., compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Output (1, rows, n): token (1, t, k) times the matrix of weight (experts, k, n) of each row's
        group; rows of no group are 0. GATHER: row r is token ``token_index[r]``. SCATTER: row r goes to
        ``token_index[r] * top_k + token_ks[r]``. Both are (1, rows, 1), INT32."""
    def moe_grouped_matmul_bwd(self, doutput: Any, token: Any, first_token_offset: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """DWeight (experts, k, n) of doutput (1, t, n) and token (1, t, k), column-major unless its stride is
        set; as many experts as there are offsets unless its dim is."""
    def mul(self, a: Any, b: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise mul of a, b, with broadcast; the result is virtual until set_output(True)."""
    def neg(self, input: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise neg of input, with broadcast; the result is virtual until set_output(True)."""
    def paged_cache_load(self, container: Any, seq_len: Any, page_table: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Y (b, h, s, d): rows of the container (pages, h, page, d) by the page table (b, 1, n, 1), 0 behind
        the lengths (b, 1, 1, 1). s is n pages unless the dim of Y is set."""
    def populate_cuda_graph(self, handle: Any, tensor_to_device_buffer: Any, workspace: Any, cuda_graph: Any) -> Any:
        """Add the chosen plan's launches as nodes to an empty CUDA graph (a ``CUgraph`` or ``cudaGraph_t`` of
        cuda-bindings, or its address), with a variant pack as ``execute`` takes it; numbers are those of
        now. Returns how many nodes there are. This graph must live as long as what is made of the other."""
    def pow(self, input0: Any, input1: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise pow of input0, input1, with broadcast; the result is virtual until set_output(True)."""
    def query_tensor_attributes_of_uid(self, uid: Any) -> Any:
        """The tensor of a uid."""
    def reciprocal(self, input: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise reciprocal of input, with broadcast; the result is virtual until set_output(True)."""
    def reduction(self, input: Any, mode: Any, compute_data_type: Any = ..., name: Any = ..., *, out_dims: Any = ...) -> _tensor:
        """Reduce the dims in which the result's dim (``out_dims``, or set by the caller) is 1."""
    def relu(self, input: Any, negative_slope: Any = ..., lower_clip: Any = ..., upper_clip: Any = ..., compute_data_type: Any = ..., name: Any = ...) -> _tensor:
        """input where it is above the lower clip, and at most the upper one; the slope goes on below."""
    def relu_backward(self, loss: Any, input: Any, negative_slope: Any = ..., lower_clip: Any = ..., upper_clip: Any = ..., compute_data_type: Any = ..., name: Any = ...) -> _tensor:
        """The gradient of ``relu`` at ``input``, times ``loss``."""
    def resample(self, input: Any, resampling_mode: Any, padding_mode: Any, window: Any, pre_padding: Any, post_padding: Any, stride: Any, generate_index: Any = ..., propagate_nan: Any = ..., compute_data_type: Any = ..., name: Any = ...) -> Any:
        """[Y, Index]: what the windows of the input give, and for maxima the number of the first largest cell
        of each window, where ``generate_index`` (else None); set the type of Index (default INT32)."""
    def resample_backward(self, loss: Any, resampling_mode: Any, padding_mode: Any, window: Any, pre_padding: Any, post_padding: Any, stride: Any, input: Any = ..., output: Any = ..., index: Any = ..., propagate_nan: Any = ..., compute_data_type: Any = ..., name: Any = ...) -> Any:
        """DX: the gradient of ``resample``. Maxima need ``index``, or the forward's ``input``; without input
        set the dim of DX."""
    def reshape(self, input: Any, name: Any = ..., reshape_mode: Any = ...) -> Any:
        """The elements in row-major order in the dims that are set for the result, channels-last unless its
        stride is set."""
    def rmsnorm(self, norm_forward_phase: Any, input: Any, scale: Any, bias: Any = ..., epsilon: Any = ..., compute_data_type: Any = ..., name: Any = ...) -> Any:
        """[Y, inv_variance]; the latter is None for phase INFERENCE."""
    def rmsnorm_backward(self, grad: Any, input: Any, scale: Any, inv_variance: Any = ..., has_dbias: Any = ..., compute_data_type: Any = ..., name: Any = ...) -> Any:
        """[DX, Dscale, Dbias]; the last is None without ``has_dbias``."""
    def rng(self, seed: Any, offset: Any = ..., distribution: Any = ..., probability: Any = ..., minimum: Any = ..., maximum: Any = ..., mean: Any = ..., standard_deviation: Any = ..., dim: Any = ..., stride: Any = ..., compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Y, of ``dim`` and ``stride`` (or set them): 1 with ``probability`` and else 0; uniform numbers from
        minimum to maximum; or normal ones. ``seed`` and ``offset``: whole numbers, or tensors of one, by
        value or in memory. ``rng`` of 1 - p keeps what dropout with p keeps."""
    def rope(self, input: Any, freqs: Any = ..., output_scale: Any = ..., rope_dim: Any = ..., compute_data_type: Any = ..., name: Any = ..., *, cos: Any = ..., sin: Any = ..., interleaved: Any = ...) -> Any:
        """Y: the last ``rope_dim`` elements of each row (0: all) turned, element i and the one half of them
        behind it by the angle ``freqs[s, 0, 0, i]``, and all times ``output_scale``. In place of ``freqs``,
        ``cos`` and ``sin`` (…, s, r), with the input's other dims, or 1: the first 2 * r are turned,
        neighbours where ``interleaved``."""
    def rope_backward(self, dY: Any, freqs: Any = ..., output_scale: Any = ..., rope_dim: Any = ..., compute_data_type: Any = ..., name: Any = ..., *, cos: Any = ..., sin: Any = ..., interleaved: Any = ...) -> Any:
        """DX: the gradient of ``rope``, which turns back."""
    def rsqrt(self, input: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise rsqrt of input, with broadcast; the result is virtual until set_output(True)."""
    def scale(self, input: Any, scale: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise mul of input, scale, with broadcast; the result is virtual until set_output(True)."""
    def scaled_dot_product_flash_attention(self, q: Any, k: Any, v: Any, is_inference: Any = ..., attn_scale: Any = ..., bias: Any = ..., block_mask: Any = ..., use_alibi_mask: Any = ..., use_padding_mask: Any = ..., seq_len_q: Any = ..., seq_len_kv: Any = ..., use_causal_mask: Any = ..., use_causal_mask_bottom_right: Any = ..., sliding_window_length: Any = ..., diagonal_alignment: Any = ..., diagonal_band_left_bound: Any = ..., diagonal_band_right_bound: Any = ..., dropout: Any = ..., rng_dump: Any = ..., paged_attention_k_table: Any = ..., paged_attention_v_table: Any = ..., paged_attention_max_seq_len_kv: Any = ..., max_total_seq_len_q: Any = ..., max_total_seq_len_kv: Any = ..., compute_data_type: Any = ..., name: Any = ..., score_mod: Any = ..., generate_stats: Any = ..., implementation: Any = ..., score_max: Any = ..., score_sum_exp: Any = ..., sink_token: Any = ..., unfuse_fma: Any = ..., cu_seq_len_q: Any = ..., cu_seq_len_kv: Any = ..., stats_use_log2: Any = ..., softmax_precision: Any = ...) -> Any:
        """[O, Stats or None]: O = softmax(score(attn_scale * q @ k^T)) @ v, 0 where a query sees no key;
        Stats, the log of a row's sum (``stats_use_log2``: to the base 2), where ``generate_stats``, of which
        or of ``is_inference`` one must be given. Heads of k and v may be fewer. ``score_mod(graph, scores)``
        adds pointwise operations, then come bias and ALiBi. Bounds count keys from the diagonal, the left
        one itself; ``block_mask`` of UINT8 (b, h, s_q / 128, s_kv / 1024) has a bit for 128 queries and
        keys. ``sink_token``: a score more of each row, of no key. With tables, k and v are (pages, h,
        keys of a page, d). ``dropout``: (probability, seed, offset), or (mask, scale). ``cu_seq_len_…`` of
        b + 1: sums of lengths. rng_dump (what is kept, as ``rng`` has it), score_max, score_sum_exp become
        outputs."""
    def scaled_dot_product_flash_attention_backward(self, q: Any, k: Any, v: Any, o: Any, dO: Any, stats: Any, attn_scale: Any = ..., bias: Any = ..., dBias: Any = ..., use_alibi_mask: Any = ..., use_padding_mask: Any = ..., seq_len_q: Any = ..., seq_len_kv: Any = ..., max_total_seq_len_q: Any = ..., max_total_seq_len_kv: Any = ..., use_causal_mask: Any = ..., use_causal_mask_bottom_right: Any = ..., sliding_window_length: Any = ..., diagonal_alignment: Any = ..., diagonal_band_left_bound: Any = ..., diagonal_band_right_bound: Any = ..., dropout: Any = ..., rng_dump: Any = ..., use_deterministic_algorithm: Any = ..., compute_data_type: Any = ..., name: Any = ..., score_mod: Any = ..., score_mod_bprop: Any = ..., sink_token: Any = ..., dSink_token: Any = ..., implementation: Any = ..., cu_seq_len_q: Any = ..., cu_seq_len_kv: Any = ...) -> Any:
        """[dQ, dK, dV] of ``sdpa``, whose options must be given again; ``stats`` are its Stats. dBias, a
        tensor of the graph, becomes an output: the bias's gradient, summed along its dims of 1; so does
        dSink_token. The gradient of ``score_mod`` follows from it, or ``score_mod_bprop(graph, gradient)``
        makes it, which may read what ``score_mod`` made. ``dropout`` as ``sdpa`` has it. Every sum has a
        fixed order: the same bits each time."""
    def sdpa(self, q: Any, k: Any, v: Any, is_inference: Any = ..., attn_scale: Any = ..., bias: Any = ..., block_mask: Any = ..., use_alibi_mask: Any = ..., use_padding_mask: Any = ..., seq_len_q: Any = ..., seq_len_kv: Any = ..., use_causal_mask: Any = ..., use_causal_mask_bottom_right: Any = ..., sliding_window_length: Any = ..., diagonal_alignment: Any = ..., diagonal_band_left_bound: Any = ..., diagonal_band_right_bound: Any = ..., dropout: Any = ..., rng_dump: Any = ..., paged_attention_k_table: Any = ..., paged_attention_v_table: Any = ..., paged_attention_max_seq_len_kv: Any = ..., max_total_seq_len_q: Any = ..., max_total_seq_len_kv: Any = ..., compute_data_type: Any = ..., name: Any = ..., score_mod: Any = ..., generate_stats: Any = ..., implementation: Any = ..., score_max: Any = ..., score_sum_exp: Any = ..., sink_token: Any = ..., unfuse_fma: Any = ..., cu_seq_len_q: Any = ..., cu_seq_len_kv: Any = ..., stats_use_log2: Any = ..., softmax_precision: Any = ...) -> Any:
        """[O, Stats or None]: O = softmax(score(attn_scale * q @ k^T)) @ v, 0 where a query sees no key;
        Stats, the log of a row's sum (``stats_use_log2``: to the base 2), where ``generate_stats``, of which
        or of ``is_inference`` one must be given. Heads of k and v may be fewer. ``score_mod(graph, scores)``
        adds pointwise operations, then come bias and ALiBi. Bounds count keys from the diagonal, the left
        one itself; ``block_mask`` of UINT8 (b, h, s_q / 128, s_kv / 1024) has a bit for 128 queries and
        keys. ``sink_token``: a score more of each row, of no key. With tables, k and v are (pages, h,
        keys of a page, d). ``dropout``: (probability, seed, offset), or (mask, scale). ``cu_seq_len_…`` of
        b + 1: sums of lengths. rng_dump (what is kept, as ``rng`` has it), score_max, score_sum_exp become
        outputs."""
    def sdpa_backward(self, q: Any, k: Any, v: Any, o: Any, dO: Any, stats: Any, attn_scale: Any = ..., bias: Any = ..., dBias: Any = ..., use_alibi_mask: Any = ..., use_padding_mask: Any = ..., seq_len_q: Any = ..., seq_len_kv: Any = ..., max_total_seq_len_q: Any = ..., max_total_seq_len_kv: Any = ..., use_causal_mask: Any = ..., use_causal_mask_bottom_right: Any = ..., sliding_window_length: Any = ..., diagonal_alignment: Any = ..., diagonal_band_left_bound: Any = ..., diagonal_band_right_bound: Any = ..., dropout: Any = ..., rng_dump: Any = ..., use_deterministic_algorithm: Any = ..., compute_data_type: Any = ..., name: Any = ..., score_mod: Any = ..., score_mod_bprop: Any = ..., sink_token: Any = ..., dSink_token: Any = ..., implementation: Any = ..., cu_seq_len_q: Any = ..., cu_seq_len_kv: Any = ...) -> Any:
        """[dQ, dK, dV] of ``sdpa``, whose options must be given again; ``stats`` are its Stats. dBias, a
        tensor of the graph, becomes an output: the bias's gradient, summed along its dims of 1; so does
        dSink_token. The gradient of ``score_mod`` follows from it, or ``score_mod_bprop(graph, gradient)``
        makes it, which may read what ``score_mod`` made. ``dropout`` as ``sdpa`` has it. Every sum has a
        fixed order: the same bits each time."""
    def sdpa_fp8(self, q: Any, k: Any, v: Any, descale_q: Any, descale_k: Any, descale_v: Any, descale_s: Any, scale_s: Any, scale_o: Any, is_inference: Any = ..., attn_scale: Any = ..., bias: Any = ..., use_alibi_mask: Any = ..., use_padding_mask: Any = ..., seq_len_q: Any = ..., seq_len_kv: Any = ..., use_causal_mask: Any = ..., use_causal_mask_bottom_right: Any = ..., sliding_window: Any = ..., diagonal_alignment: Any = ..., left_bound: Any = ..., right_bound: Any = ..., dropout: Any = ..., rng_dump: Any = ..., paged_attention_k_table: Any = ..., paged_attention_v_table: Any = ..., paged_attention_max_seq_len_kv: Any = ..., max_total_seq_len_q: Any = ..., max_total_seq_len_kv: Any = ..., compute_data_type: Any = ..., name: Any = ..., fn: Any = ..., generate_stats: Any = ..., score_max: Any = ..., score_sum_exp: Any = ..., sink_token: Any = ..., unfuse_fma: Any = ..., implementation: Any = ..., cu_seq_len_q: Any = ..., cu_seq_len_kv: Any = ..., stats_use_log2: Any = ...) -> Any:
        """[O, Stats or None, Amax_S, Amax_O]: ``sdpa`` of descale_q * q, descale_k * k, descale_v * v, times
        scale_s * descale_s, as O * scale_o; the largest weight, and the largest |O| before scale_o. Weights
        are rounded to 8 bits, by a scale of their own, where tensor cores multiply these; else they stay as
        they are. ``fn``: what ``sdpa`` calls score_mod."""
    def sdpa_fp8_backward(self, q: Any, k: Any, v: Any, o: Any, dO: Any, stats: Any, descale_q: Any, descale_k: Any, descale_v: Any, descale_o: Any, descale_dO: Any, descale_s: Any, descale_dP: Any, scale_s: Any, scale_dQ: Any, scale_dK: Any, scale_dV: Any, scale_dP: Any, attn_scale: Any = ..., use_padding_mask: Any = ..., seq_len_q: Any = ..., seq_len_kv: Any = ..., use_causal_mask: Any = ..., use_causal_mask_bottom_right: Any = ..., diagonal_alignment: Any = ..., left_bound: Any = ..., right_bound: Any = ..., use_deterministic_algorithm: Any = ..., dropout: Any = ..., compute_data_type: Any = ..., name: Any = ..., sink_token: Any = ..., dSink_token: Any = ..., max_total_seq_len_q: Any = ..., max_total_seq_len_kv: Any = ...) -> Any:
        """[dQ, dK, dV, Amax_dQ, Amax_dK, Amax_dV, Amax_dP]: ``sdpa_backward`` of what the operands stand for,
        descale_q * q and so on, each gradient times its scale; the largest gradients before that, and the
        largest of q @ k^T. Weights and gradients of scores are not rounded to 8 bits on their way: dV has the
        factor scale_s * descale_s, dQ and dK scale_dP * descale_dP."""
    def sdpa_mxfp8(self, q: Any, k: Any, v: Any, descale_q: Any, descale_k: Any, descale_v: Any, attn_scale: Any = ..., use_padding_mask: Any = ..., seq_len_q: Any = ..., seq_len_kv: Any = ..., use_causal_mask: Any = ..., use_causal_mask_bottom_right: Any = ..., sliding_window_length: Any = ..., diagonal_alignment: Any = ..., diagonal_band_left_bound: Any = ..., diagonal_band_right_bound: Any = ..., dropout: Any = ..., compute_data_type: Any = ..., name: Any = ..., generate_stats: Any = ..., is_inference: Any = ..., sink_token: Any = ..., implementation: Any = ..., max_total_seq_len_q: Any = ..., max_total_seq_len_kv: Any = ..., stats_use_log2: Any = ..., score_mod: Any = ..., bias: Any = ...) -> Any:
        """[O, Stats or None, Amax_O]: ``sdpa`` of q, k and v times their scales, which are those of 32
        elements of a row of q and k (b, h, s, d / 32), of 32 rows of v (b, h, s / 32, d); the largest |O|."""
    def sdpa_mxfp8_backward(self, q: Any, q_T: Any, k: Any, k_T: Any, v: Any, o_f16: Any, dO_f16: Any, dO: Any, dO_T: Any, stats: Any, descale_q: Any, descale_q_T: Any, descale_k: Any, descale_k_T: Any, descale_v: Any, descale_dO: Any, descale_dO_T: Any, attn_scale: Any = ..., use_padding_mask: Any = ..., seq_len_q: Any = ..., seq_len_kv: Any = ..., use_causal_mask: Any = ..., use_causal_mask_bottom_right: Any = ..., diagonal_alignment: Any = ..., left_bound: Any = ..., right_bound: Any = ..., use_deterministic_algorithm: Any = ..., dropout: Any = ..., compute_data_type: Any = ..., name: Any = ..., sink_token: Any = ..., dSink_token: Any = ..., max_total_seq_len_q: Any = ..., max_total_seq_len_kv: Any = ...) -> Any:
        """[dQ, dK, dV, Amax_dQ, Amax_dK, Amax_dV]: ``sdpa_backward`` of q, k and v times their scales, all of
        32 elements of a row, and of o_f16 and dO_f16 as they are; the largest gradients. What the other
        operands hold are the same numbers in 8 bits by other scales: they are tensors of the graph, and
        nobody reads them."""
    def seen(self, t: Any) -> Any:
        """What would stand for a result in the graph of the calls so far; None where these do not say it."""
    def select_behavior_notes(self, notes: Any) -> Any:
        """Keep plans that have all of these notes."""
    def select_numeric_notes(self, notes: Any) -> Any:
        """Keep plans that have all of these notes. Engines whose numbers differ from those of others
        (WINOGRAD_TILE_6x6, FFT, NONDETERMINISTIC) are asked for plans only here."""
    def select_plan(self, index: Any) -> Any:
        """Build the plan at an index, which ``execute`` runs from now on."""
    def serialize(self) -> Any:
        """The plan that ``execute`` runs, as bytes (numbers from 0 to 255)."""
    def sigmoid(self, input: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise sigmoid_fwd of input, with broadcast; the result is virtual until set_output(True)."""
    def sigmoid_backward(self, loss: Any, input: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise sigmoid_bwd of loss, input, with broadcast; the result is virtual until set_output(True)."""
    def signal(self, input: Any, mode: Any, value: Any = ..., compute_data_type: Any = ..., name: Any = ...) -> Any:
        """[Y, Flag]: the input, and one i32 in memory, which is set to ``value`` once Y is there, or waited
        for before the input is read. What waits for a flag that nobody sets never ends."""
    def sin(self, input: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise sin of input, with broadcast; the result is virtual until set_output(True)."""
    def slice(self, input: Any, slices: Any = ..., compute_data_type: Any = ..., name: Any = ...) -> Any:
        """``input[slices]``, one Python slice for each dim, none of whose numbers is negative. The result has
        the input's type and strides unless they are set."""
    def softmax(self, input: Any, axis: Any = ..., generate_stats: Any = ..., compute_data_type: Any = ..., name: Any = ...) -> Any:
        """[Y, Stats]: softmax along a dim (-1: the last), and the log of each row's sum of exponentials,
        where ``generate_stats`` (else None)."""
    def softplus(self, input: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise softplus_fwd of input, with broadcast; the result is virtual until set_output(True)."""
    def softplus_backward(self, loss: Any, input: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise softplus_bwd of loss, input, with broadcast; the result is virtual until set_output(True)."""
    def sqrt(self, input: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise sqrt of input, with broadcast; the result is virtual until set_output(True)."""
    def sub(self, a: Any, b: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise sub of a, b, with broadcast; the result is virtual until set_output(True)."""
    def swish(self, input: Any, swish_beta: Any = ..., compute_data_type: Any = ..., name: Any = ...) -> _tensor:
        """input * sigmoid(swish_beta * input)."""
    def swish_backward(self, loss: Any, input: Any, compute_data_type: Any = ..., swish_beta: Any = ..., name: Any = ...) -> _tensor:
        """The gradient of ``swish`` at ``input``, times ``loss``; the compute type stands before the beta."""
    def tan(self, input: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise tan of input, with broadcast; the result is virtual until set_output(True)."""
    def tanh(self, input: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise tanh_fwd of input, with broadcast; the result is virtual until set_output(True)."""
    def tanh_backward(self, loss: Any, input: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Pointwise tanh_bwd of loss, input, with broadcast; the result is virtual until set_output(True)."""
    def tensor(self, dim: Any, stride: Any = ..., data_type: Any = ..., is_virtual: Any = ..., is_pass_by_value: Any = ..., ragged_offset: Any = ..., reordering_type: Any = ..., name: Any = ..., uid: Any = ..., ragged_offset_multiplier: Any = ..., alignment_value: Any = ...) -> _tensor:
        """An input. ``dim`` is logical (n, c, spatial…), ``stride`` in elements, row-major where it is
        None. A ``uid`` of -1 or None is none yet. ``alignment_value``, of which each value is said to be a
        multiple, changes nothing here."""
    def tensor_like(self, x: Any, name: Any = ..., is_virtual: Any = ...) -> _tensor:
        """The attributes of another tensor but its uid and name, or the layout of an array (NumPy, torch,
        DLPack).

        An array on the host is passed by value; where the graph's device works on host memory, only one of
        one element is."""
    def tensor_scalar(self, value: Any, scalar_type: Any, name: Any = ...) -> _tensor:
        """A number that the graph holds, of the type that goes with the value. COMPILE_TIME_CONST: for ever;
        RUNTIME_PARAM: unless the variant pack has another."""
    def transpose(self, input: Any, permutation: Any, compute_data_type: Any = ..., name: Any = ...) -> Any:
        """Dim i of the result is dim permutation[i] of the input, whose strides it has unless others are
        set."""
    def update_cuda_graph(self, handle: Any, tensor_to_device_buffer: Any, workspace: Any, cuda_graph: Any) -> Any:
        """Give the nodes of ``populate_cuda_graph`` another variant pack. ``cuda_graph``: the one that was
        populated, or a copy of it, such as a child of a larger one. A graph that is not this plan's is
        refused before it is touched."""
    def validate(self) -> Any:
        """Infer dims, strides and types of what is not set, check every rule. Raises BadParam."""
    @property
    def candidates(self) -> Any:
        """All that was chosen, in order."""
    @property
    def constants(self) -> Any:
        """uids of the numbers that are fixed for ever."""
    @property
    def context(self) -> Any:
        """The types of tensors and operations that set none."""
    @property
    def nodes(self) -> Any:
        """Every operation, in the order of the calls."""
    @property
    def own_handle(self) -> Any:
        """The handle that was given, or the graph's own, on the device that is current when it is first
        needed."""
    @property
    def plan(self) -> Any:
        """The plan that ``execute`` runs on the device of the graph's handle; None before it is built."""
    @property
    def plans(self) -> Any:
        """The plans that ``create_execution_plans`` found and no filter left out."""
    @property
    def selected_engine(self) -> Any:
        """None: no engine here is written in Python and has an object of its own. What runs is told by
        ``plans``."""
    @property
    def tensors(self) -> Any:
        """{name: tensor} of every tensor that has a name of its own."""
    name: Any
    kernel_cache: Any
    device_property: Any
    sm_count: Any
    sm_version: Any
    types: Any
    defaults: Any
    owner: Any
    steps: Any
    misfits: Any
    graph: Any
    is_built: Any
    filter: Any
    of_dims: Any
    chosen: Any
    chosen_on: Any
