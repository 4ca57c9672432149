"""Every way to run something: the calls of the three APIs, the plan, and the tape."""
from __future__ import annotations

import itertools

import cydnn.frontend as graphs
from cydnn import bench, cudnn as c, device, plan
from cydnn.ops import Problem

STREAM = 0x9900
IMAGE, FILTER = (2, 8, 6, 6), (8, 8, 3, 3)
SOFTMAX, TRAINING = "softmax_fwd 64x48 f32", "conv_fprop n2c8h6w6 k8r3s3 pad1 f32"


class Calls:
    """``paths``: {name: what runs it}. Each runs on ``stream`` of one device, on memory of its own."""

    def __init__(self, ordinal=0, stream=STREAM, handle=None):
        self.place, self.stream = device.get(f"cuda:{ordinal}"), stream
        self.handle = c.create(f"cuda:{ordinal}") if handle is None else handle
        c.setStream(self.handle, stream)
        self.buffers, self.paths = [], {}
        self.plans(), self.graphs(ordinal)
        self.v5_convolution(), self.v5_norm(), self.v5_others()

    def memory(self, size_bytes=1 << 14) -> int:
        self.buffers.append(self.place.alloc(size_bytes))
        return self.buffers[-1].ptr

    def tensor(self, dims=IMAGE, kind=c.CUDNN_DATA_FLOAT):
        found = c.createTensorDescriptor()
        c.setTensor4dDescriptor(found, c.CUDNN_TENSOR_NCHW, kind, *dims)
        return found

    def plans(self):
        p = self.plan = plan.build(bench.graph_of(Problem.parse(SOFTMAX)), self.place)
        stream = self.stream
        at = tuple(self.memory() for _ in p.slots)
        pack = dict(zip([t.uid for t in p.slots], at))
        space = self.memory(p.workspace_bytes + 16)
        tape, size = p.executable, p.workspace_bytes
        self.paths |= {
            "tape": lambda: tape.execute(at, None, space, size, stream),
            "plan": lambda: p.execute(at, space, stream),
            "plan, by uid": lambda: p.run(pack, space, stream)}

    def graphs(self, ordinal):
        kind = graphs.data_type.FLOAT
        handle = self.graph_handle = graphs.create_handle(f"cuda:{ordinal}")
        graphs.set_stream(handle, self.stream)
        g = self.graph = graphs.pygraph(io_data_type=kind, intermediate_data_type=kind,
                                        compute_data_type=kind, handle=handle)
        x, w = g.tensor(IMAGE, [288, 1, 48, 8], name="x"), g.tensor(FILTER, [72, 1, 24, 8], name="w")
        y = g.relu(g.conv_fprop(x, w, padding=[1, 1], stride=[1, 1], dilation=[1, 1])).set_output(True)
        g.build([graphs.heur_mode.A])
        at = self.graph_at = {t: self.memory() for t in (x, w, y)}
        space = self.memory(g.get_workspace_size() + 16)
        numbers = {t.get_uid(): address for t, address in at.items()}
        ordered = [numbers[uid] for uid in g._get_variant_pack_uids_sorted()]
        self.paths |= {
            "pygraph": lambda: g.execute(at, space),
            "pygraph, by uid": lambda: g.execute(numbers, space, handle),
            "pygraph, plan by index": lambda: g.execute_plan_at_index(numbers, space, 0),
            "pygraph, addresses": lambda: g._execute_with_ptrs(ordered, space, handle)}

    def v5_convolution(self):
        h, x, y = self.handle, self.tensor(), self.tensor()
        w, conv = c.createFilterDescriptor(), c.createConvolutionDescriptor()
        c.setFilter4dDescriptor(w, c.CUDNN_DATA_FLOAT, c.CUDNN_TENSOR_NCHW, *FILTER)
        c.setConvolution2dDescriptor(conv, 1, 1, 1, 1, 1, 1, c.CUDNN_CROSS_CORRELATION)
        room = max(c.getConvolutionForwardWorkspaceSize(h, x, w, conv, y, algo) for algo in range(3))
        a, b, o, row = self.memory(), self.memory(), self.memory(), self.tensor((1, 8, 1, 1))
        size = room + 256
        space = self.memory(size)
        for algo in range(3):
            self.paths[f"v5 convolutionForward {algo}"] = lambda algo=algo: c.convolutionForward(
                h, 1.0, x, a, w, b, conv, algo, space, size, 0.0, y, o)
        self.paths |= {
            "v5 convolutionForward, odd address": lambda: c.convolutionForward(
                h, 1.0, x, a + 4, w, b, conv, 1, space, size, 0.5, y, o),
            "v5 convolutionBackwardData": lambda: c.convolutionBackwardData(
                h, 1.0, w, b, y, o, conv, 1, space, size, 0.0, x, a),
            "v5 convolutionBackwardBias": lambda: c.convolutionBackwardBias(h, 1.0, y, o, 0.0, row, b)}

    def v5_norm(self):
        """With pointers that may be NULL, and workspaces that the handle lends."""
        h, x, row = self.handle, self.tensor((64, 8, 30, 30)), self.tensor((1, 8, 1, 1))
        a, o, *p = self.memory(2 << 20), self.memory(2 << 20), *(self.memory() for _ in range(6))
        self.paths |= {
            "v5 batchNormalizationForwardTraining": lambda: c.batchNormalizationForwardTraining(
                h, 1, 1, 0, x, a, x, o, row, p[0], p[1], 1.0, p[2], p[3], 1e-3, p[4], p[5]),
            "v5 batchNormalizationForwardTraining, NULL": lambda: c.batchNormalizationForwardTraining(
                h, 1, 1, 0, x, a, x, o, row, p[0], p[1], 1.0, 0, 0, 1e-3, 0, 0)}

    def v5_others(self):
        h, x, row = self.handle, self.tensor(), self.tensor((1, 8, 1, 1))
        a, b, o = self.memory(), self.memory(), self.memory()
        self.paths |= {
            "v5 softmaxForward": lambda: c.softmaxForward(h, 1, 0, 1.0, x, a, 0.0, x, o),
            "v5 addTensor": lambda: c.addTensor(h, 1.0, row, b, 1.0, x, o),
            "v5 setTensor": lambda: c.setTensor(h, x, o, 2.0),
            "v5 scaleTensor, odd address": lambda: c.scaleTensor(h, x, o + 4, 2.0),
            "v5 transformTensor": lambda: c.transformTensor(h, 1.0, x, a, 0.0, x, o),
            "v5 activationForward": lambda: c.activationForward_v3(h, 1, 1.0, x, a, 0.0, x, o)}

    def with_memory_of(self, other):
        """{name: (call, sentence)}: of operands, and of workspaces, on the device of others."""
        x, here, there, name = self.tensor(), self.memory(), other.memory(), self.place.name
        p, g, handle = self.plan, self.graph, self.graph_handle
        at, pack = [self.memory() for _ in p.slots], dict.fromkeys(self.graph_at, 0)
        pack = {t: self.memory() for t in pack}
        first = next(iter(pack))
        sentence = f"must be memory of {name}; got memory of another device"
        return {f"{name} {kind}": (call, sentence) for kind, call in {
            "plan": lambda: p.execute([there, *at[1:]], self.memory(), self.stream),
            "tape": lambda: p.executable.execute([*at[:-1], there], None, self.memory(), 1 << 14, 0),
            "pygraph": lambda: g.execute(pack | {first: there}, self.memory()),
            "pygraph, the other's handle": lambda: other.graph.execute(
                {t: other.memory() for t in other.graph_at}, other.memory(), handle),
            "v5": lambda: c.softmaxForward(self.handle, 1, 0, 1.0, x, there, 0.0, x, here)}.items()}

    def run(self, rounds=1):
        """All paths, again and again."""
        for call in itertools.chain.from_iterable(itertools.repeat(tuple(self.paths.values()), rounds)):
            call()
