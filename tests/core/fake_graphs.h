/* Graphs of the fake driver, a part of fake_driver.c: a capture knows its stream, and nothing that waits, allocates
   or loads is allowed meanwhile. Kernels do nothing, so replays are only counted. */

int cuStreamBeginCapture_v2(void *stream, int mode) {
    ENTER;
    if (!CURRENT || !stream || mode || captured) return INVALID_VALUE;
    captured = stream;
    return OK;
}
int cuStreamEndCapture(void *stream, void **graph) {
    ENTER;
    if (captured != stream) return INVALID_VALUE;
    captured = NULL, *graph = malloc(16);
    return OK;
}
int cuGraphInstantiateWithFlags(void **runs, void *graph, unsigned long long flags) {
    ENTER;
    if (!CURRENT || !graph || flags) return INVALID_VALUE;
    *runs = malloc(16);
    return OK;
}
int cuGraphExecUpdate_v2(void *runs, void *graph, void *told) {
    ENTER;
    *(int *)told = 0;
    return CURRENT && runs && graph ? OK : INVALID_VALUE;
}
int cuGraphLaunch(void *runs, void *stream) { ENTER; ON(stream); return CURRENT && runs ? OK : INVALID_VALUE; }
int cuGraphExecDestroy(void *runs) { ENTER; free(runs); return OK; }
int cuGraphDestroy(void *graph) { ENTER; free(graph); return OK; }
