# SPDX-License-Identifier: Apache-2.0
"""What all rooms stand on: references to boxes, errors, options, numbers and names."""
