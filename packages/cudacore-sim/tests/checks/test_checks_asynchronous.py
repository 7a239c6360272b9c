# SPDX-License-Identifier: Apache-2.0
"""Asynchronous sums of memory that nobody wrote."""

from __future__ import annotations

from running import RUN, Run

UNWRITTEN = """
.version 8.1
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{
  .reg .b64 %rd<2>; .reg .b32 %r<3>;
  .shared .align 16 .b8 tile[16]; .shared .align 16 .b8 sums[16]; .shared .align 8 .b8 bar[8];
  mov.u32 %r1, tile; mov.u32 %r2, sums;
  ld.param.u64 %rd1, [out];
  mbarrier.init.shared.b64 [bar], 1;
  mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 24;
  st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r1], 7, [bar];
  red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r1], 7, [bar];
  red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r1+4], 7, [bar];
  cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%r2], [%r1], 16, [bar];
  cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [%r2], 16;
  ret;
}
"""


def test_sums_of_what_nobody_wrote(run_python: Run) -> None:
    """Reductions that read or write uninitialized memory would not be reported."""
    code = f"""
module = cuda.out("cuModuleLoadData", {UNWRITTEN.encode()!r})
cuda.launch(module, "k", 1, 1, 0, cuda.allocate(16))
cuda.cuCtxSynchronize()
print(*cudacore_sim.reports(), sep=chr(10))
"""
    result = run_python(RUN + code, CHECK="init")
    assert result.returncode == 0, result.stderr
    said = result.stdout.splitlines()
    lines = UNWRITTEN.splitlines()
    places = [lines[int(one.rpartition("[PTX line ")[2].rstrip("]")) - 1].split(" [")[0].strip() for one in said]
    assert all("uninitialized read of 4 bytes" in one for one in said)
    assert [one.split(".")[0] for one in places] == ["red", "cp", "cp"]
    assert "'tile' + 4" in said[0]
