"""Every shipped kernel and every image of it is launched by a problem of the kernel's own contract; one that
serves graphs alone, by a graph."""
import pytest

from cydnn import kernels
from cydnn.device.facts import KNOWN
from support.check import hopper, sums
from support.draw.cases import SERVING, every_case

CARDS = ("h200", "a100", "t4")


def launched(kernel) -> set:
    """Targets of the images that the problems launch; a card that has no other image to launch is not
    asked."""
    reached = set()
    for facts in (KNOWN[card] for card in CARDS):
        image = kernel.image_for(facts.sm) if runs_on(kernel, facts) else None
        if image and image.target not in reached and any(True for _ in every_case(kernel.name, facts)):
            reached.add(image.target)
    return reached


def runs_on(kernel, facts) -> bool:
    return any(int(target[3:].rstrip("af")) <= facts.sm for target in kernel.images)


def test_kernels_without_problems_make_sums():
    assert sorted({*kernels.names()} - {*SERVING}) == sorted(sums.names())


@pytest.mark.parametrize("name", sums.names())
def test_graphs_launch_the_kernel(name):
    graph = sums.made(name, sums.line_of(name))
    choice = sums.choice_of(graph, hopper.H200, is_meant=sums.is_tile(name, "tma"))
    assert name in [step.kernel for _, step in choice.steps]


@pytest.mark.parametrize("name", SERVING)
def test_problems_launch_the_kernel(name):
    kernel = kernels.get(name)
    assert kernel.problems, f"{name}: problems of {kernel.source} must have a line; got none"
    reached = launched(kernel)
    assert kernel.image_for(KNOWN["h200"].sm).target in reached, (
        f"{name}: one of its problems must launch it on an H200; got {kernel.problems}")
    assert reached >= set(kernel.row["targets"]), (f"{name}: each image must be launched on one of {CARDS}; "
                                                   f"got {sorted(reached)}")
