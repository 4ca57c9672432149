"""Running a pygraph's plans: variant packs, handles, and the entry points that extensions of torch use."""
from __future__ import annotations

import ctypes

from ..given import several, shown, wholes
from ..status import BadParam
from .arrays import number_at
from .errors import refusals
from .handle import get_handle
from .overrides import changes_of
from .ready import by_uid


class Executing:
    """Methods that run what was built. Nothing is allocated, loaded or waited for once a plan is built."""

    def execute(self, tensor_to_device_buffer, workspace=0, handle=None, override_uids=None,
                override_shapes=None, override_strides=None, tensor_uids=None):
        """Run the chosen plan on the stream of ``handle`` (None: the graph's own). A graph of which no plan
        was built is built now.

        Keys: tensors, their names, or uids; None is skipped, surplus entries are ignored. Values: pointers,
        torch tensors, arrays of any DLPack library; for a tensor that is passed by value a number, or an
        array of one on the host, read now. With ``tensor_uids``, a list of uids, a list of such values.

        ``override_…``: other dims and strides of some tensors, for this call. What follows from them is
        inferred anew; the plan's own engines compute it where they take it, in the plan's workspace.
        """
        at = self.own_handle if handle is None else get_handle(handle)
        if tensor_uids is not None:
            tensor_to_device_buffer = paired(tensor_to_device_buffer, tensor_uids)
        if self.chosen is None:
            self.build()
        if self._arrays:
            known = {t.key: x for t, x in self._arrays.values()}
            tensor_to_device_buffer = known | by_uid(tensor_to_device_buffer, self._tensors)
        if override_uids is override_shapes is override_strides is None:
            ready = self.chosen_on.get(at.device) or self._ready(None, at)
        else:
            ready = self._ready(None, at, changes_of(self, override_uids, override_shapes, override_strides))
        ready.run(tensor_to_device_buffer, workspace, at.stream)

    def execute_plan_at_index(self, tensor_to_device_buffer, workspace=0, index=0, handle=None,
                              override_uids=None, override_shapes=None, override_strides=None,
                              tensor_uids=None):
        """As ``execute``, with a plan that was built by its index."""
        at = self.own_handle if handle is None else get_handle(handle)
        if tensor_uids is not None:
            tensor_to_device_buffer = paired(tensor_to_device_buffer, tensor_uids)
        changes = changes_of(self, override_uids, override_shapes, override_strides)
        self._ready(index, at, changes).run(tensor_to_device_buffer, workspace, at.stream)

    def _ready(self, index, at, changes=()):
        """The plan of an index on a handle's device, built there now if it was not; ``changes``: for other
        dims of some uids, as the first call with these makes it."""
        graph, candidate = self._for_dims(self._plan(index), changes)
        with refusals():
            return graph._on(candidate, at.device)

    # ---- Native CUDA graphs ----

    def populate_cuda_graph(self, handle, tensor_to_device_buffer, workspace, cuda_graph) -> int:
        """Add the chosen plan's launches as nodes to an empty CUDA graph (a ``CUgraph`` or ``cudaGraph_t`` of
        cuda-bindings, or its address), with a variant pack as ``execute`` takes it; numbers are those of
        now. Returns how many nodes there are. This graph must live as long as what is made of the other."""
        return self._into_cuda_graph("populate", handle, tensor_to_device_buffer, workspace, cuda_graph)

    def update_cuda_graph(self, handle, tensor_to_device_buffer, workspace, cuda_graph) -> int:
        """Give the nodes of ``populate_cuda_graph`` another variant pack. ``cuda_graph``: the one that was
        populated, or a copy of it, such as a child of a larger one. A graph that is not this plan's is
        refused before it is touched."""
        return self._into_cuda_graph("update", handle, tensor_to_device_buffer, workspace, cuda_graph)

    def _into_cuda_graph(self, way, handle, buffers, workspace, cuda_graph) -> int:
        at = self.own_handle if handle is None else get_handle(handle)
        ready = self.chosen_on.get(at.device) or self._ready(None, at)
        with refusals():
            return ready.into(way, buffers, workspace, cuda_graph)

    # ---- Entry points of extensions ----

    def _make_tensor(self, dim, stride, **facts):
        return self.tensor(dim, stride, **facts)

    def _execute(self, var_pack, workspace, handle=None, override_uids=None, override_shapes=None,
                 override_strides=None):
        """``var_pack``: {uid: address}, host addresses for what is passed by value."""
        self._execute_plan_at_index(var_pack, workspace, None, handle, override_uids, override_shapes,
                                    override_strides)

    def _execute_plan_at_index(self, var_pack, workspace, index, handle=None, override_uids=None,
                               override_shapes=None,
                               override_strides=None):
        at = self.own_handle if handle is None else get_handle(handle)
        ready = self._ready(index, at, changes_of(self, override_uids, override_shapes, override_strides))
        ready.run(self._with_numbers(dict(var_pack), ready), workspace, at.stream)

    def _with_numbers(self, pack: dict, ready) -> dict:
        """The pack with numbers in place of the host addresses that they stand at."""
        for _, uid, _, _ in ready.numbers:
            if uid in pack:
                pack[uid] = number_at(pack[uid], self.graph.tensors[uid].dtype)
        return pack

    def _prepare_variant_pack_template(self):
        """There is nothing to prepare that was not when the plan was built."""

    def _get_variant_pack_uids_sorted(self) -> list[int]:
        """uids of everything that ``execute`` must be given, in order."""
        self._built_graph()
        given = {uid for uid in self.graph.slots}
        given |= {t.uid for t in self.graph.tensors.values() if t.is_by_value and t.scalar is None}
        return sorted(given)

    def _execute_with_ptrs(self, user_ptrs, workspace, handle=None):
        """Addresses in the order of ``_get_variant_pack_uids_sorted``."""
        uids = self._get_variant_pack_uids_sorted()
        if len(user_ptrs) != len(uids):
            raise BadParam(f"execute: pointers must be {len(uids)}, those of the uids {uids}; got "
                           f"{len(user_ptrs)}")
        self._execute(dict(zip(uids, map(int, user_ptrs))), workspace, handle or None)

    def _execute_with_raw_ptrs(self, user_ptrs_array, n_user, workspace, handle=None):
        """As ``_execute_with_ptrs``; ``user_ptrs_array`` is the address of ``n_user`` addresses."""
        self._execute_with_ptrs(list((ctypes.c_size_t * n_user).from_address(user_ptrs_array)), workspace,
                                handle)


def paired(buffers, uids) -> dict:
    """{uid: buffer} of buffers in the order of their uids."""
    uids, buffers = wholes("execute: tensor_uids", uids), several("execute: buffers", buffers, "buffers")
    if len(buffers) != len(uids):
        raise BadParam(f"execute: buffers must be {len(uids)}, one for each of tensor_uids; got "
                       f"{len(buffers)}")
    if len({*uids}) != len(uids):
        raise BadParam(f"execute: tensor_uids must hold each uid once; got {shown(list(uids))}")
    return dict(zip(uids, buffers))
