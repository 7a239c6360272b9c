// SPDX-License-Identifier: Apache-2.0
#include "interface/test_headers.c"
