"""Problem texts that cannot be read: the word is in the error."""
import pytest

from cydnn.ops import Problem
from cydnn.status import BadParam


@pytest.mark.parametrize("text, sentence", [
    ("", "problem: op must be one of conv_fprop .*; got ''"),
    ("foo 3x4", "problem: op must be one of .*; got 'foo'"),
    ("pooling_fwd n1c1h4w4 window=3x0", "problem: 'window=3x0' cannot be read: invalid literal"),
    ("rnn_fwd t2n3i4 bidirectional=yes", "rnn_fwd: bidirectional must be one of True False 1 0; got 'yes'"),
    ("softmax_fwd 3x4 groups=two", "problem: 'groups=two' cannot be read"),
    ("softmax_fwd 3x4 f31", "problem: 'f31' is no word of softmax_fwd"),
    ("softmax_fwd x=3xq:f32", "problem: 'softmax_fwd x=3xq:f32' cannot be read"),
])
def test_what_cannot_be_read(text, sentence):
    with pytest.raises(BadParam, match=sentence):
        Problem.parse(text)
