# SPDX-License-Identifier: Apache-2.0
"""Alternative spellings of compiler options that have a field in ProgramOptions."""

from __future__ import annotations

SHORT = {
    "-arch": "arch",
    "-rdc": "relocatable_device_code",
    "-ewp": "extensible_whole_program",
    "-G": "debug",
    "-lineinfo": "lineinfo",
    "-dopt": "device_code_optimize",
    "-Xptxas": "ptxas_options",
    "-maxrregcount": "max_register_count",
    "-ftz": "ftz",
    "-prec-sqrt": "prec_sqrt",
    "-prec-div": "prec_div",
    "-fmad": "fma",
    "-use_fast_math": "use_fast_math",
    "-dlto": "link_time_optimization",
    "-include": "pre_include",
    "-std": "std",
    "-w": "disable_warnings",
    "-restrict": "restrict",
    "-default-device": "device_as_default_execution_space",
    "-opt-info": "optimization_info",
    "-time": "time",
    "-minimal": "minimal",
    "-pch": "pch",
}
"""dict: Fields by options."""

LETTERS = {"-D": "define_macro", "-U": "undefine_macro", "-I": "include_path"}
"""dict: Fields by options whose value can follow without a space."""
