"""Address arithmetic in 32 bits, planted in shipped kernels: elements that lie far apart show it."""
from __future__ import annotations

import pytest

from cydnn import kernels
from cydnn.device.ptx import Finding

import far
from test_far import DEPTHS, finds, narrowed, other_ways, smallest

# Products of these that are offsets, and the axis that makes them large.
PLANTED = [(f"{source}.cu", number, 0) for source, number in (
    ("conv/conv_depthwise", 8), ("divisive_norm/divisive_norm_fwd_strided", 6), ("lrn/lrn_fwd_strided", 11),
    ("matmul/matmul_simt", 10), ("norm/batch_norm_apply_columns", 24), ("pool/pooling_bwd_any", 0),
    ("pool/pooling_bwd_any", 9), ("reduction/reduction_columns", 38), ("softmax/softmax_fwd_strided", 9),
    ("spatial/spatial_sampler_fwd_any", 20))]


@pytest.mark.share(2)
@pytest.mark.parametrize("source,number,depth", PLANTED)
def test_products_of_32_bits_are_found(source, number, depth):
    assert finds(smallest(source), number, depth)


# Products that the way which is the first one does not come to: another configuration, and no blend; an axis
# of which a thread has three elements at most; columns of many digits.
ELSEWHERE = [("batch_norm_stats_rows_f16_16", 25), ("pooling_bwd_max_plane_f32_0_3", 23),
             ("matmul_small_f16_16", 29), ("batch_norm_ring_f32_2", 62)]


@pytest.mark.share(2)
@pytest.mark.parametrize("name, number", ELSEWHERE)
def test_products_that_other_ways_find(name, number):
    assert not any(finds(name, number, depth) for depth in DEPTHS)
    device = far.device_for(name)
    text = kernels.get(name).image_for(device.facts.sm).text().decode()
    device.replaced[name] = narrowed(text, number)

    def shows(way):
        try:
            return bool(way[0].run(device, way[1])[0])
        except Finding:
            return True
    assert any(shows(way) for way in other_ways(name, device.facts))
