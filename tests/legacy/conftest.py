"""``handle``: the library on the NumPy device, and on the kernels of sm_80 in the interpreter.
``refused(function, error, words, **arguments)``: a call fails with this class and sentence."""
import re

import pytest

from cydnn import cudnn, status
from support.guard.mirror import Mirror


@pytest.fixture(scope="session", params=["numpy", "ptx:sm_80"])
def handle(request):
    kind, _, target = request.param.partition(":")
    found = cudnn.create(Mirror(target) if target else kind)
    yield found
    cudnn.destroy(found)


@pytest.fixture
def refused():
    def check(function, error, words, *args, **arguments):
        with pytest.raises(error) as caught:
            function(*args, **arguments)
        text = str(caught.value)
        assert re.search(words, text), text
        if issubclass(error, status.CydnnError):
            assert type(caught.value) is error and text.startswith("cudnn") and error.api in text
        return caught.value
    return check
