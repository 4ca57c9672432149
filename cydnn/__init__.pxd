"""What ``cimport cydnn`` gives a program that embeds it (docs/embed.md)."""
from cydnn.core._embed cimport ABI_VERSION, Executor, executor, run
