"""Running a pygraph's plans: variant packs, handles, and the entry points that extensions of torch use."""
from __future__ import annotations

import ctypes

from ..given import several, wholes
from ..status import BadParam
from .arrays import number_at
from .errors import cudnnGraphNotSupportedError, refusals
from .handle import get_handle


class Executing:
    """Methods that run what was built. Nothing is allocated, loaded or waited for once a plan is built."""

    def execute(self, tensor_to_device_buffer, workspace=0, handle=None, override_uids=None,
                override_shapes=None,
                override_strides=None):
        """Run the chosen plan on the stream of ``handle`` (None: the graph's own).

        Keys: tensors or uids; None is skipped, surplus entries are ignored. Values: pointers, torch
        tensors, arrays of any DLPack library; for a tensor that is passed by value a number, or an array of
        one on the host, read now.
        """
        if not (override_uids is override_shapes is override_strides is None):
            self._no_overrides(override_uids, override_shapes, override_strides)
        at = self.own_handle if handle is None else get_handle(handle)
        ready = self.chosen_on.get(at.device) or self._ready(None, at)
        ready.run(tensor_to_device_buffer, workspace, at.stream)

    def execute_plan_at_index(self, tensor_to_device_buffer, workspace, index, handle=None,
                              override_uids=None,
                              override_shapes=None, override_strides=None):
        """As ``execute``, with a plan that was built by its index."""
        self._no_overrides(override_uids, override_shapes, override_strides)
        at = self.own_handle if handle is None else get_handle(handle)
        self._ready(index, at).run(tensor_to_device_buffer, workspace, at.stream)

    def _ready(self, index, at):
        """The plan of an index on a handle's device, built there now if it was not."""
        candidate = self._plan(index)
        with refusals():
            return self._on(candidate, at.device)

    def _no_overrides(self, uids, shapes, strides):
        """Dims and strides are part of a plan: those that are given must be the ones that it has."""
        uids, shapes, strides = (
            [] if given is None else several(f"execute: override_{what}", given, kind)
            for what, given, kind in (("uids", uids, "uids"), ("shapes", shapes, "dims"),
                                      ("strides", strides, "strides")))
        if not len(uids) == len(shapes) == len(strides):
            raise BadParam("execute: override_uids, override_shapes and override_strides must have equal "
                           f"lengths; got {len(uids)}, {len(shapes)} and {len(strides)}")
        for uid, dim, stride in zip(uids, shapes, strides):
            known = self.query_tensor_attributes_of_uid(uid)
            given = [list(wholes(f"execute: override_{what} of uid {uid}", numbers))
                     for what, numbers in (("shapes", dim), ("strides", stride))]
            have = [known.get_dim(), known.get_stride()]
            if given != have:
                raise cudnnGraphNotSupportedError(
                    f"execute: overrides of uid {uid} must be dim {have[0]} and stride {have[1]}, those it "
                                                  f"was built with; "
                    f"got dim {given[0]} and stride {given[1]}: build a graph for them")

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
        self._no_overrides(override_uids, override_shapes, override_strides)
        at = self.own_handle if handle is None else get_handle(handle)
        ready = self._ready(index, at)
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
