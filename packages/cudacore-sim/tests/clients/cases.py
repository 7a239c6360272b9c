# SPDX-License-Identifier: Apache-2.0
"""Run the cases of a client one by one, and print the result of each."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Mapping
from typing import NoReturn


def run(cases: Mapping[str, Callable[[], object]], known: Mapping[str, str]) -> NoReturn:
    """Run all cases, and exit with 0 if all pass except those in `known`, which must fail.

    Parameters
    ----------
    cases : mapping of str to callable
        The functions to call; an exception is a failure.
    known : mapping of str to str
        Cases that fail on the simulated driver, whichever library is in use, with the reason. If such a case passes,
        that is an error, too.
    """
    wrong = sorted(known.keys() - cases.keys())
    for name, case in cases.items():
        try:
            case()
        except Exception as error:
            if name not in known:
                traceback.print_exc()
                wrong.append(name)
            print(f"{name}: {type(error).__name__}{f' ({known[name]})' if name in known else ''}", flush=True)
        else:
            wrong += [name] * (name in known)
            print(f"{name}: passed", flush=True)
    print(f"{len(cases)} cases, {len(known)} known to fail; wrong: {', '.join(wrong) or 'none'}")
    sys.exit(bool(wrong))
