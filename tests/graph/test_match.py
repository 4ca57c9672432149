"""What is found out about a match."""
from cydnn.bench import graph_of
from cydnn.graph import Match, once_per_match
from cydnn.ops import Problem


class Asker:
    def __init__(self):
        self.asked = 0

    @once_per_match
    def rows(self, p, times=1):
        self.asked += 1
        return times * p.a.dims[0]


def test_a_result_is_found_once_for_each_match_object_and_argument():
    p, q = (Match.single(graph_of(Problem.parse(f"matmul {m}x4 4x4 f32"))) for m in (5, 7))
    one, other = Asker(), Asker()
    assert [one.rows(p), one.rows(p), one.rows(q)] == [5, 5, 7]
    assert [one.rows(p, times=2), one.rows(p, times=2)] == [10, 10]
    assert (one.asked, other.rows(p), other.asked) == (3, 5, 1)
