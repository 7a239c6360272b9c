# SPDX-License-Identifier: Apache-2.0
"""The private names of this package that other packages use, here and in the submodules.

No other private name is imported across packages; ``ci/check_rooms.py`` checks that. These names are not public and can
change, because the packages require each other in the same minor version.
"""

from cudacore_handles._base import results
from cudacore_handles._base.address import as_address, as_integer
from cudacore_handles._base.driver_calls import call_driver
from cudacore_handles._base.drivers import WITHOUT_GPU, selected_driver
from cudacore_handles._base.errors import bindings, check, closed, driver_error, last_error
from cudacore_handles._base.handle import Face, adopt, hold, out_box, share
from cudacore_handles._base.made import Closing, Made, not_pickled
from cudacore_handles._base.module_attributes import finish_module, public, publish
from cudacore_handles._base.names import check_type, shorten, type_text
from cudacore_handles._base.options import Options, as_flag, as_options, constructor_level, copy_options
from cudacore_handles._base.siblings import check_handles
from cudacore_handles._base.suggest import options_apart
from cudacore_handles._cffi import ffi, lib
from cudacore_handles._driver.device import ComputeCapability
from cudacore_handles._views.layout import _StridedLayout
from cudacore_handles.typing import _Name
