# cffi's module: its contents follow src/cffi/*.cdef.h, which the C compiler checks against the headers.
from typing import Any

ffi: Any
lib: Any
