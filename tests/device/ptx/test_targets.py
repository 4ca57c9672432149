"""Every target has what its instructions ask for, and no text is read that ptxas would refuse for it."""
from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from cydnn import kernels
from cydnn.device.ptx import PtxDevice, PtxError, targets
from cydnn.status import NotSupported
from support.opcodes import PROBES, probe

import snippet

WORD = re.compile(r"(?:^|[;{}:\n])\s*(?:@!?%\w+\s+)?([a-z][\w.:]*)(?=[\s;])|(%\w*cluster\w*)")
# of each family: (a target that lacks it, what it is, the target that it needs)
PLANTED = [
    ("sm_90", "wgmma.fence.sync.aligned;", "sm_90a"),
    ("sm_100a", "wgmma.fence.sync.aligned;", "sm_90a"),
    ("sm_90", "setmaxnreg.inc.sync.aligned.u32 64;", targets.LETTERED),
    ("sm_75", "cp.async.wait_all;", "sm_80 or newer"),
    ("sm_80", "cp.async.bulk.commit_group;", "sm_90 or newer"),
    ("sm_80", "fence.mbarrier_init.release.cluster;", "sm_90 or newer"),
    ("sm_80", "mov.u32 %t, %cluster_ctarank;", "sm_90 or newer"),
    ("sm_75", "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 "
     "{%f0,%f1,%f2,%f3}, {%t,%t}, {%t}, {%f0,%f1,%f2,%f3};", "sm_80 or newer"),
    ("sm_80", "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
     "{%f0,%f1,%f2,%f3}, {%t,%t,%t,%t}, {%t,%t}, {%f0,%f1,%f2,%f3};", "sm_89 or newer"),
    ("sm_90a", "redux.sync.min.f32 %f0, %f1, -1;", "sm_100a sm_100f sm_103a sm_103f")]


@pytest.mark.parametrize("target, text, needs", PLANTED, ids=[f"{t} {x.split()[0]}" for t, x, _ in PLANTED])
def test_what_a_target_lacks(monkeypatch, target, text, needs):
    for each in (target, needs.split()[0]):
        monkeypatch.setattr(snippet, "HEAD", f".version 8.8\n.target {each}\n.address_size 64\n")
        decode = lambda: snippet.entry(f".reg .f32 %f<4>; {text}", 0)
        if each == target:
            said = rf"^snippet.ptx:\d+: .* must have .target {needs}; got {target} "
            with pytest.raises(PtxError, match=said):
                decode()
        else:
            decode()


def test_a_launch_bound_is_asked_too(monkeypatch):
    monkeypatch.setattr(snippet, "HEAD", ".version 8.0\n.target sm_80\n")
    with pytest.raises(PtxError, match="reqnctapercluster must have .target sm_90 or newer; got sm_80"):
        snippet.kernel(snippet.source("", 0).replace(".maxntid", ".reqnctapercluster 2, 1, 1 .maxntid"))


@pytest.mark.parametrize("target, runs", [
    ("sm_90", True), ("sm_90a", True), ("sm_90f", True), ("sm_89", True), ("sm_100", False),
    ("sm_80a", False), ("sm_89f", False)])
def test_which_texts_a_device_runs(target, runs):
    device, name = PtxDevice("sm_90"), "dropout_states"
    text = kernels.get(name).image_for(75).text().decode()
    device.replaced[name] = text.replace(".target sm_75", f".target {target}")
    if runs:
        assert device.code(name).module.target == target
    else:
        with pytest.raises(NotSupported, match=f".target must be one that ptx:sm_90 runs; got {target}"):
            device.code(name)


@pytest.mark.skipif(not shutil.which("ptxas"), reason="needs ptxas")
@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_89", "sm_90"])
def test_ptxas_refuses_the_same(target, tmp_path):
    """Of all probes, those that differ in more than a letter or size once."""
    text, where, words = probe.HEAD.replace("sm_90a", target), {}, {}
    for p in {re.sub(r"\d+|%\w+", "", p.text): p for p in PROBES}.values():
        words[p.name] = {a or b for a, b in WORD.findall(p.text)}
        begin, text = text.count("\n"), text + p.entry(f"p{len(words)}")
        where.update(dict.fromkeys(range(begin + 1, text.count("\n") + 1), p.name))
    (tmp_path / "probes.ptx").write_text(text)
    said = subprocess.run(["ptxas", "-c", "-arch", target, "probes.ptx"], cwd=tmp_path, capture_output=True,
                          text=True).stderr
    lacks = lambda word: (needs := targets.needed(word)) and not targets.has(target, needs)
    refused = {where[int(line)] for line in re.findall(r"line (\d+); error", said)}
    assert refused == {name for name, used in words.items() if any(map(lacks, used))} != set()
