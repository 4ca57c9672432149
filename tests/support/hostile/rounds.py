"""The kinds of rounds, in turn: (API, function)."""
from . import files, pygraphs, single, v5

V5, PYGRAPH, NAMES = ("v5", v5.descriptors), ("pygraph", pygraphs.sequences), ("cydnn", single.names)
ROUNDS = [V5, NAMES, ("files", files.stored_plans), PYGRAPH, ("cydnn", single.descriptions),
          ("files", files.stored_graphs), V5, ("texts", single.texts), ("files", files.kernel_caches),
          ("pygraph", single.graphs), ("cydnn", single.operations), ("files", files.images), V5,
          ("cydnn", single.executes), ("files", files.properties), ("texts", files.choices), PYGRAPH,
          ("cydnn", single.ranks), ("files", files.manifests), ("texts", files.expressions), V5,
          ("files", files.ptx_texts), NAMES, ("texts", files.command_lines)]
