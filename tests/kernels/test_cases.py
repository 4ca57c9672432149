"""Every shipped kernel and every image of it is launched by a problem of the kernel's own contract."""
import pytest

from cydnn import kernels
from cydnn.device.facts import KNOWN
from support.cases import cases

CARDS = ("t4", "a100", "h200")


@pytest.mark.parametrize("name", kernels.names())
def test_problems_launch_the_kernel(name):
    kernel = kernels.get(name)
    assert kernel.problems, f"{name}: problems of {kernel.source} must have a line; got none"
    found = {card: cases(name, KNOWN[card]) for card in CARDS
             if any(int(t[3:].rstrip("af")) <= KNOWN[card].sm for t in kernel.images)}
    assert found["h200"], f"{name}: one of its problems must launch it on an H200; got {kernel.problems}"
    reached = {kernel.image_for(KNOWN[card].sm).target for card, of_card in found.items() if of_card}
    assert reached >= set(kernel.row["targets"]), (f"{name}: each image must be launched on one of {CARDS}; "
                                                   f"got {sorted(reached)}")
