"""Problem texts that cannot be read: the word is in the error."""
import pytest

from cydnn.ops import BY_NAME, Problem
from cydnn.status import BadParam
from cydnn.tensor import TensorDesc

SOFTMAX, RNN, X = BY_NAME["softmax_fwd"](), BY_NAME["rnn_fwd"], TensorDesc.packed("f32", (3, 4))


@pytest.mark.parametrize("text, sentence", [
    ("", "problem: op must be one of conv_fprop .*; got ''"),
    ("foo 3x4", "problem: op must be one of .*; got 'foo'"),
    ("softmax 3x4", "got 'softmax': did you mean softmax_fwd or softmax_bwd?"),
    ("mat_mul 3x4", "got 'mat_mul': did you mean matmul"),
    ("pooling_fwd n1c1h4w4 window=3x0", "problem: 'window=3x0' cannot be read: invalid literal"),
    ("rnn_fwd t2n3i4 bidirectional=yes", "rnn_fwd: bidirectional must be one of True False 1 0; got 'yes'"),
    ("softmax_fwd 3x4 groups=two", "problem: 'groups=two' cannot be read"),
    ("softmax_fwd 3x4 f31", "problem: 'f31' is no word of softmax_fwd"),
    ("softmax_fwd x=3xq:f32", "problem: 'softmax_fwd x=3xq:f32' cannot be read"),
])
def test_what_cannot_be_read(text, sentence):
    with pytest.raises(BadParam, match=sentence):
        Problem.parse(text)


@pytest.mark.parametrize("call, sentence", [
    (lambda: Problem(5, {}), "problem: op must be an operation; got 5"),
    (lambda: Problem(SOFTMAX, [X]), r"softmax_fwd: operands must be a dict of name to TensorDesc; got \["),
    (lambda: Problem(SOFTMAX, dict(x=X, z=X)), "softmax_fwd: z is no operand; operands are x y"),
    (lambda: Problem(SOFTMAX, dict(x=(X, X))), r"softmax_fwd: x must be one tensor; got \(TensorDesc"),
    (lambda: RNN(bidirectional=2), "rnn_fwd: bidirectional must be True or False; got 2"),
    (lambda: Problem(RNN(hidden=4, batches=()), dict(x=X, w=TensorDesc.packed("f32", (100,)))),
     "rnn_fwd: batches must have at least one step; got none"),
])
def test_what_is_no_problem(call, sentence):
    with pytest.raises(BadParam, match=sentence):
        call()
