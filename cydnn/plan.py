"""Plans: a choice laid out (steps, workspace, slots), and made executable on a device.

``Layout`` is pure and writes itself down; ``build`` may take milliseconds;
``ExecutionPlan.execute`` costs what the launches cost, ``populate`` makes nodes of a CUDA graph of them.
"""
from __future__ import annotations

from . import device as devices
from . import ranges
from ._core import Tape, populate, scratch_of, update
from .graph import Graph
from .heuristics import ANYTHING, Choice, Wish, best, memory
from .layout import Layout
from .locks import Bounded
from .log import CHOICES, REASONS, log, trace
from .names import missing
from .given import flag, instance, shown
from .status import BadParam, NotSupported

__all__ = ["ANYTHING", "Choice", "ExecutionPlan", "Layout", "Wish", "build", "explain", "forget", "made"]

class ExecutionPlan:
    """A layout made ready for one device. Spec: graph API, Execution Plan Descriptor.

    ``slots``: the Tensors to give pointers for, in uid order. ``scalars``: [(key, default)] of the by-value
    numbers. ``workspace_bytes``: least size of the workspace. ``engines``: one for each part.
    """

    def __init__(self, layout: Layout, device):
        self.layout, self.device = layout, device
        self.graph, self.slots, self.scalars = layout.graph, layout.slots, layout.scalars
        self.workspace_bytes, self.steps = layout.workspace_bytes, layout.steps
        self.executable = ranges.named(device.compile(layout), layout.text)
        self._execute = self.executable.execute

    def __reduce__(self):
        raise TypeError(f"pickle: a plan belongs to its process; got one of {self.layout.text}: keep "
                        "plan.layout.to_json(), which Layout.from_json reads")

    def __repr__(self):
        return f"<plan of {self.layout.text}: {self.name} on {self.device.name}>"

    @property
    def choice(self) -> Choice:
        return self.layout.choice

    @property
    def parts(self) -> tuple:
        return self.choice.parts

    @property
    def engines(self) -> list:
        return self.choice.engines

    @property
    def name(self) -> str:
        return self.choice.name

    @property
    def cost_us(self) -> float:
        return self.choice.us

    def explain(self) -> str:
        """What runs, for people."""
        return self.layout.explain()

    def execute(self, pointers, workspace=0, stream=0, scalars=None, workspace_bytes=None):
        """Run. ``pointers``: one for each slot, in order.
        ``scalars``: all of them in order, or None for the defaults.

        Asynchronous on a GPU. Raises BadParam before anything is launched when an argument cannot be.
        """
        if workspace_bytes is None:
            workspace_bytes = self.workspace_bytes
            if type(workspace) is not int:       # an array or a buffer says how much room there is
                workspace, workspace_bytes = room(workspace, workspace_bytes)
        self._execute(pointers, scalars, workspace, workspace_bytes, stream)

    def populate(self, cuda_graph, pointers, workspace=0, scalars=None, workspace_bytes=None) -> int:
        """Add a node for each launch to an empty CUDA graph: a ``CUgraph`` of cuda-bindings, or its address.
        Arguments as ``execute`` has them, and as it checks them. Returns how many nodes there are. The plan
        must live as long as what is made of the graph. Raises NotSupported where it is for no GPU."""
        return self._nodes(populate, cuda_graph, pointers, workspace, scalars, workspace_bytes)

    def update(self, cuda_graph, pointers, workspace=0, scalars=None, workspace_bytes=None) -> int:
        """Give the nodes of ``populate`` other pointers and numbers. ``cuda_graph``: the one that was
        populated, or a copy of it, such as a child of a larger one; what runs already is changed by
        cuGraphExecUpdate. A graph that is not this plan's is refused before it is touched."""
        return self._nodes(update, cuda_graph, pointers, workspace, scalars, workspace_bytes)

    def _nodes(self, way, cuda_graph, pointers, workspace, scalars, workspace_bytes) -> int:
        tape = getattr(self.executable, "tape", self.executable)         # no guards in a graph
        if not isinstance(tape, Tape):
            raise NotSupported(f"cuda_graph: the plan must be for a GPU; got one for {self.device.name}",
                               status9="NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API")
        if workspace_bytes is None:
            workspace_bytes = self.workspace_bytes
            if type(workspace) is not int:
                workspace, workspace_bytes = room(workspace, workspace_bytes)
        return way(tape, cuda_graph, pointers, scalars, workspace, workspace_bytes)

    def run(self, pack: dict, workspace=0, stream=0, scalars=None):
        """Run with a variant pack ``{uid: pointer, or number for a by-value tensor}``;
        surplus entries are ignored."""
        if not isinstance(pack, dict):
            raise BadParam(f"execute: the variant pack must be a dict of uid to pointer; got {shown(pack)}")
        missing = [d.label for d in self.slots if d.uid not in pack]
        if missing:
            raise BadParam(f"execute: the variant pack must hold tensor {', '.join(missing)}; "
                           f"got uids {sorted(pack, key=str)}")
        if scalars is None:
            scalars = [pack.get(key, default) if isinstance(key, int) else default
                       for key, default in self.scalars]
        self.execute([pack[d.uid] for d in self.slots], workspace, stream, scalars)


def room(workspace, otherwise: int) -> tuple:
    """A workspace given as an array, a tensor or a buffer, and its bytes; ``otherwise`` where it does not
    say."""
    found = scratch_of(workspace)
    return found, otherwise if found.bytes is None else found.bytes


_built = Bounded(1024)                           # plans


def build(graph: Graph, device=None, wish: Wish = ANYTHING) -> ExecutionPlan:
    """The plan of ``graph`` on ``device`` (a device, its name, or None for the default),
    from the cache when it was built before. Raises NotSupported with each engine's reasons."""
    instance("build: graph", graph, Graph)
    instance("build: wish", wish, Wish)
    device = devices.get(device)
    names = tuple([graph.tensors[u].name for u in graph.slots])             # they are in errors
    key = graph.key, names, device, wish, memory.tables_of(wish)
    plan = _built.get(key)
    return plan or _built.setdefault(key, made(best(graph, device.facts, wish), device))


def made(choice: Choice, device=None) -> ExecutionPlan:
    """The plan of a choice on the device that it was made for. Nothing is remembered."""
    device = devices.get(device)
    layout = Layout(choice)
    _say(layout, device)
    return ExecutionPlan(layout, device)


def explain(graph: Graph, device=None, wish: Wish = ANYTHING, as_data: bool = False):
    """The plan that ``build`` would make, in words, or as dicts. ``device``: also a card that is not there,
    by its facts, its name ("h200") or its target ("sm_90")."""
    layout = Layout.of(graph, devices.facts_of(device), wish)
    return layout.told() if flag("explain: as_data", as_data) else layout.explain()


def _say(layout, device):
    """Log the choice, and at the next level why the others refused. Lines begin with the problem."""
    trace(layout.text.split(" -> "))
    if not log.isEnabledFor(CHOICES):
        return
    choice, text = layout.choice, layout.text
    log.log(CHOICES, "%s: engine=%s workspace=%d device=%s",
            text, choice.name, layout.workspace_bytes, device.name)
    for part in choice.parts if log.isEnabledFor(REASONS) else ():
        for engine, sentences in choice.refused(part):
            log.log(REASONS, "%s: %s refused: %s", text, engine, "; ".join(sentences))


def forget():
    """Forget all plans that were built, and all choices."""
    _built.clear()
    memory.forget()


def __getattr__(name):
    raise missing(f"module {__name__!r}", name, __all__)


def __dir__():
    return sorted(__all__)
