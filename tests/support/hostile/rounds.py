"""The kinds of rounds, in turn: (API, function)."""
from . import each, files, pygraphs, single, texts, threads, v5

V5, PYGRAPH, NAMES = ("v5", v5.descriptors), ("pygraph", pygraphs.sequences), ("cydnn", single.names)
FILES = [("files", function) for function in (
    files.stored_plans, files.layouts, files.stored_graphs, files.stored_graphs, files.kernel_caches,
    files.properties, files.properties, files.manifests, files.forged_manifests, files.forged_manifests,
    files.images, files.machine_code, files.ptx_texts, files.kernel_sources)]
CALLS = [V5, NAMES, PYGRAPH, ("cydnn", single.descriptions), V5, ("texts", single.texts),
         ("pygraph", single.graphs), ("cydnn", single.operations), V5, ("cydnn", single.executes),
         ("texts", texts.choices), PYGRAPH, ("cydnn", single.ranks), ("texts", texts.expressions), V5, NAMES,
         ("texts", texts.command_lines), ("cydnn", each.every_entry), ("pygraph", each.wrapped),
         ("v5", threads.shared_descriptors), ("pygraph", threads.shared_graphs)]
ROUNDS = CALLS + FILES
