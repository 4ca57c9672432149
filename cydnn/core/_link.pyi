"""The driver's assembler: machine code of a PTX text."""
from ._context import Context

def assemble(context: Context, text: bytes) -> bytes: ...
