# The module that cffi generates from the public headers.
from typing import Any

ffi: Any
lib: Any
