# cffi's module: its contents are the public headers', the callbacks and the shims of src/cffi.
from typing import Any

ffi: Any
lib: Any
