"""The process that launches kernels for compute-sanitizer, on a driver that runs nothing."""
from cydnn.device.cuda import CudaDevice
from support.guard import sanitized


def loaded(self, name, fuse=None, ways=()):
    return self.context.load(b".version 7.0\n.target sm_75\n.visible .entry %s()\n{ ret; }\n" % name.encode(),
                             name)


def test_kernels_are_launched_one_after_the_other(fake, monkeypatch, capfd):
    monkeypatch.setattr(CudaDevice, "function", loaded)
    listed = [["softmax_fwd_warp_f32_8", 90], ["softmax_fwd_warp_f16_8", 80]]
    sanitized.launch(listed, 60, CudaDevice(0))
    said = capfd.readouterr().out.splitlines()
    assert said == [f"{word} {name} {sm}" for name, sm in listed for word in ("begin", "end")] + ["enough"]
    assert fake.count("cuLaunchKernel") + fake.count("cuLaunchKernelEx") >= 2
    sanitized.launch(listed, -1, CudaDevice(0))
    assert capfd.readouterr().out == "enough\n", "no time, no kernel"
