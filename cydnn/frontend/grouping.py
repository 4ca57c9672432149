"""The operations of a pygraph on rows in groups: mixtures of experts."""
from __future__ import annotations

from ..ops import GroupedMatmul, GroupedMatmulWgrad
from .enums import data_type, member, moe_grouped_matmul_mode

NOT_SET, NONE = data_type.NOT_SET, moe_grouped_matmul_mode.NONE


class GroupedOperations:
    """Offsets say at which row each group begins: (groups, 1, 1), INT32 or INT64, in the memory of the
    device. Groups are a multiple of the experts, who take turns; one offset more is where the last ends,
    which else is with the rows."""

    def moe_grouped_matmul(self, token, weight, first_token_offset, token_index=None, token_ks=None,
                           mode=NONE, top_k=1, compute_data_type=NOT_SET, name=""):
        """Output (1, rows, n): token (1, t, k) times the matrix of weight (experts, k, n) of each row's
        group; rows of no group are 0. GATHER: row r is token ``token_index[r]``. SCATTER: row r goes to
        ``token_index[r] * top_k + token_ks[r]``. Both are (1, rows, 1), INT32."""
        name = self._named("moe_grouped_matmul", name)
        inputs = dict(x=("token", token), w=("weight", weight),
                      offsets=("first_token_offset", first_token_offset))
        moved = dict(index=("token_index", token_index), slot=("token_ks", token_ks))
        inputs |= {operand: pair for operand, pair in moved.items() if pair[1] is not None}
        way = member(name, "mode", moe_grouped_matmul_mode, mode).name.lower()
        places = dict(top_k=("top_k", top_k)) if way == "scatter" else {}
        return self._record("moe_grouped_matmul", GroupedMatmul, inputs, dict(y="OUTPUT"), compute_data_type,
                            name, attributes=dict(mode=("mode", way), **places), optional=moved)["y"]

    def moe_grouped_matmul_bwd(self, doutput, token, first_token_offset, compute_data_type=NOT_SET, name=""):
        """DWeight (experts, k, n) of doutput (1, t, n) and token (1, t, k), column-major unless its stride is
        set; as many experts as there are offsets unless its dim is."""
        name = self._named("moe_grouped_matmul_bwd", name)
        inputs = dict(dy=("doutput", doutput), x=("token", token),
                      offsets=("first_token_offset", first_token_offset))
        return self._record("moe_grouped_matmul_bwd", GroupedMatmulWgrad, inputs, dict(dw="DWEIGHT"),
                            compute_data_type, name)["dw"]
