"""setmaxnreg: what warpgroups give to each other, and its planted faults."""
from __future__ import annotations

import numpy as np
import pytest

from cydnn import kernels
from cydnn.bench import trial
from cydnn.device.ptx import Finding, PtxDevice

import snippet

# The first of two warpgroups gives 88 registers of each thread, which the second takes; each thread stores 7.
SWAP = """.reg .pred %p; .reg .b32 %v; mov.u32 %v, 7; mad.wide.u32 %a0, %t, 4, %p0;
setp.lt.u32 %p, %t, 128; @!%p bra TAKE;
setmaxnreg.dec.sync.aligned.u32 40;
bra END;
TAKE: setmaxnreg.inc.sync.aligned.u32 216;
END: st.global.u32 [%a0], %v;"""
FAULTS = {                                                   # what is replaced, by what, the finding
    "more than the other gives": ("u32 216", "u32 224", "deadlock: .* waits for ever"),
    "nobody gives": ("setmaxnreg.dec.sync.aligned.u32 40;", "", "deadlock"),
    "no multiple of 8": ("u32 40", "u32 44", "registers: .* asks for 44 registers; it must be a multiple"),
    "too few": ("u32 40", "u32 16", "registers: .* from 24 to 256"),
    "gives what it has not": ("u32 40", "u32 136", "asks for 136 registers of a thread, which has 128"),
    "takes what it has": ("u32 216", "u32 120", "asks for 120 registers of a thread, which has 128"),
    "half of a warpgroup": ("%p, %t, 128", "%p, %t, 64", "registers: .* part of a warpgroup|deadlock"),
    "a warp that has left": ("bra END;\nTAKE:", "bra END;\nTAKE: setp.lt.u32 %p, %t, 160; @%p ret;",
                             "registers: .* part of a warpgroup"),
    "twice, and nobody has met": ("u32 40;", "u32 48; setmaxnreg.dec.sync.aligned.u32 40;",
                                  "registers: .* have not met since"),
    "no bound": (".minnctapersm 2", "", "registers: .* has no effect"),
}
BOUNDS = (".maxntid 256, 1, 1 .minnctapersm 2", ".reqntid 256, 1, 1 .maxnreg 128")


def swap(device, text: str, bounds=BOUNDS[0], old="", new=""):
    source = snippet.source(text, 1).replace(".maxntid 128, 1, 1", bounds)
    assert old in source
    out = device.alloc(1024)
    snippet.launch(device, snippet.kernel(source.replace(old, new)), [out], threads=256)
    return device.copy_out(out.ptr, np.empty(256, np.uint32))


@pytest.fixture(autouse=True)
def _target(monkeypatch):
    monkeypatch.setattr(snippet, "HEAD", snippet.HEAD.replace("sm_90", "sm_90a"))


@pytest.mark.parametrize("seed", [None, *range(10)])
@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("more", ["", "bar.sync 1, 128; setmaxnreg.dec.sync.aligned.u32 24;"])
def test_correct(seed, bounds, more):
    device = PtxDevice("sm_90")
    device.seed = seed
    assert (swap(device, SWAP, bounds, "u32 40;", "u32 40;" + more) == 7).all()


@pytest.mark.parametrize("seed", [None, 1, 2])
@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault(name, seed):
    device, (old, new, said) = PtxDevice("sm_90"), FAULTS[name]
    device.seed = seed
    with pytest.raises(Finding, match=said):
        swap(device, SWAP, old=old, new=new)


@pytest.mark.parametrize("given, finding", [("40", None), ("48", "deadlock")])
def test_a_shipped_kernel(given, finding):
    """Its consumers take every register that there is: 232 of 256 threads and 40 of 128 are 64512, what 384
    have with the 168 that ptxas says."""
    name, old = "conv_dgrad_wgmma_bf16_128x128", "setmaxnreg.dec.sync.aligned.u32 40"
    text = kernels.get(name).image_for(90).text().decode()
    report = trial.run(name, "sm_90", lines=kernels.get(name).problems[:1],
                       text=text.replace(old, old.replace("40", given)))
    assert report.ok if finding is None else report.trials[0].finding["kind"] == finding
