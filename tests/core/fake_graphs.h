/* Graphs of the fake driver, a part of fake_driver.c: a capture knows its stream, and nothing that waits, allocates
   or loads is allowed meanwhile. What is captured is only counted; nodes that are added one by one run when the
   graph that was made of them is launched. A graph that is not alive is no graph. */

enum { GRAPHS = 64, NODES = 2000, KERNEL_NODE = 0, MEMSET_NODE = 2 };
typedef struct { Function *f; unsigned grid[3], block[3], smem; void **params, **extra; void *kernel, *context; } KernelParams;
typedef struct { unsigned long long at; size_t pitch; unsigned value, element_bytes; size_t width, height; } MemsetParams;
_Static_assert(sizeof(KernelParams) == 72 && sizeof(MemsetParams) == 40, "cuda.h");
typedef struct Node {
    int type; struct Graph *graph; struct Node *before;
    Launch launch; Function *f; MemsetParams set;
} Node;
typedef struct Graph { int count; Node *nodes[NODES]; } Graph;
static Graph *graphs[GRAPHS];

static Graph *alive(void *graph) {
    for (int i = 0; i < GRAPHS; ++i) if (graph && graphs[i] == graph) return graph;
    return NULL;
}
void *fake_graph(void) {
    for (int i = 0; i < GRAPHS; ++i) if (!graphs[i]) return graphs[i] = calloc(1, sizeof(Graph));
    return NULL;
}
int cuGraphCreate(void **out, unsigned flags) { ENTER; return (*out = flags ? NULL : fake_graph()) ? OK : INVALID_VALUE; }
void fake_drop(void *graph) {
    for (int i = 0; i < GRAPHS; ++i) if (graph && graphs[i] == graph) graphs[i] = NULL;
    for (int i = 0; graph && i < ((Graph *)graph)->count; ++i) free(((Graph *)graph)->nodes[i]);
    free(graph);
}
int cuGraphDestroy(void *graph) { ENTER; fake_drop(graph); return OK; }
int cuStreamBeginCapture_v2(void *stream, int mode) {
    ENTER;
    if (!CURRENT || !stream || mode || captured) return INVALID_VALUE;
    captured = stream;
    return OK;
}
int cuStreamEndCapture(void *stream, void **graph) {
    ENTER;
    if (captured != stream) return INVALID_VALUE;
    captured = NULL;
    return cuGraphCreate(graph, 0);
}
/* What runs is a copy. */
int cuGraphInstantiateWithFlags(void **runs, void *graph, unsigned long long flags) {
    ENTER;
    if (!CURRENT || !alive(graph) || flags) return INVALID_VALUE;
    Graph *copy = *runs = calloc(1, sizeof(Graph));
    for (copy->count = 0; copy->count < alive(graph)->count; ++copy->count) {
        copy->nodes[copy->count] = malloc(sizeof(Node));
        *copy->nodes[copy->count] = *alive(graph)->nodes[copy->count];
    }
    return OK;
}
int cuGraphExecUpdate_v2(void *runs, void *graph, void *told) {
    ENTER;
    *(int *)told = 0;
    Graph *mine = runs, *other = alive(graph);
    if (!CURRENT || !mine || !other || mine->count != other->count) return INVALID_VALUE;
    for (int i = 0; i < mine->count; ++i) *mine->nodes[i] = *other->nodes[i];
    return OK;
}
int cuGraphLaunch(void *runs, void *stream) {
    ENTER; ON(stream);
    if (!CURRENT || !runs) return INVALID_VALUE;
    for (int i = 0; i < ((Graph *)runs)->count; ++i) {
        Node *n = ((Graph *)runs)->nodes[i];
        void *extra[] = {(void *)1, n->launch.data, (void *)2, &n->launch.bytes, NULL};
        if (n->type == MEMSET_NODE) memset((void *)n->set.at, (int)n->set.value, n->set.width);
        else launch(n->f, n->launch.grid, n->launch.block, n->launch.smem, stream, NULL, extra, n->launch.attributes);
    }
    return OK;
}
int cuGraphExecDestroy(void *runs) {
    ENTER;
    for (int i = 0; runs && i < ((Graph *)runs)->count; ++i) free(((Graph *)runs)->nodes[i]);
    free(runs);
    return OK;
}

/* Nodes one by one, each behind at most one other. */
static int add_node(Node **out, Graph *graph, Node **after, size_t count, int type) {
    if (!alive(graph) || graph->count == NODES || count > 1) return INVALID_VALUE;
    Node *n = calloc(1, sizeof(Node));
    n->type = type, n->graph = graph, n->before = count ? after[0] : NULL;
    graph->nodes[graph->count++] = *out = n;
    return OK;
}
static int set_kernel(Node *n, const KernelParams *p) {
    size_t together = 264;                                          /* as launch() has it */
    if (!p->f || !p->params == !p->extra || (int)p->smem > p->f->smem_limit) return INVALID_VALUE;
    n->f = p->f, n->launch.smem = p->smem;
    n->launch.bytes = p->params ? together : *(size_t *)p->extra[3];
    memcpy(n->launch.data, p->params ? p->params[0] : p->extra[1], n->launch.bytes);
    memcpy(n->launch.grid, p->grid, 12), memcpy(n->launch.block, p->block, 12);
    return OK;
}
int cuGraphAddKernelNode_v2(Node **out, Graph *graph, Node **after, size_t count, const KernelParams *p) {
    ENTER;
    int status = add_node(out, graph, after, count, KERNEL_NODE);
    return status ? status : set_kernel(*out, p);
}
int cuGraphKernelNodeGetParams_v2(Node *n, KernelParams *p) { ENTER; p->f = n->f; return OK; }
int cuGraphKernelNodeSetParams_v2(Node *n, const KernelParams *p) {
    ENTER;
    return n->f == p->f ? set_kernel(n, p) : INVALID_VALUE;
}
int cuGraphKernelNodeSetAttribute(Node *n, int id, const unsigned *value) {
    ENTER;
    if (id == 4) memcpy(n->launch.attributes, value, 12);
    else if (id == 2) n->launch.attributes[3] = value[0];
    else return INVALID_VALUE;
    return OK;
}
int cuGraphAddMemsetNode(Node **out, Graph *graph, Node **after, size_t count, const MemsetParams *p, void *context) {
    ENTER;
    int status = context == CURRENT && p->height == 1 && p->element_bytes == 1 ? OK : INVALID_VALUE;
    if (!status) status = add_node(out, graph, after, count, MEMSET_NODE);
    if (!status) (*out)->set = *p;
    return status;
}
int cuGraphMemsetNodeSetParams(Node *n, const MemsetParams *p) { ENTER; n->set = *p; return OK; }
int cuGraphNodeGetType(Node *n, int *type) { ENTER; *type = n->type; return OK; }
/* Those behind a node; of NULL the roots. */
static int behind(Graph *graph, Node *before, Node **out, size_t *count) {
    size_t found = 0;
    for (int i = 0; i < graph->count; ++i)
        if (graph->nodes[i]->before == before) { if (out && found < *count) out[found] = graph->nodes[i]; ++found; }
    *count = out && found > *count ? *count : found;
    return OK;
}
int cuGraphGetRootNodes(Graph *graph, Node **out, size_t *count) {
    ENTER;
    return alive(graph) ? behind(graph, NULL, out, count) : INVALID_VALUE;
}
int cuGraphNodeGetDependentNodes(Node *n, Node **out, size_t *count) { ENTER; return behind(n->graph, n, out, count); }
int cuGraphGetNodes(Graph *graph, void **out, size_t *count) {
    ENTER;
    if (!alive(graph) || out) return INVALID_VALUE;
    *count = graph->count;
    return OK;
}
int fake_node(void *graph, int i, Launch *out) {                    /* the type of a node, and its launch */
    Graph *g = alive(graph);
    if (!g || i >= g->count) return -1;
    *out = g->nodes[i]->launch;
    if (g->nodes[i]->type == KERNEL_NODE) memcpy(out->name, g->nodes[i]->f->name, sizeof out->name);
    return g->nodes[i]->type;
}
void fake_fork(void *graph) { Graph *g = alive(graph); g->nodes[g->count - 1]->before = g->nodes[0]; }

/* Assembling: the machine code of a text is the text, marked. */
int cuLinkCreate_v2(unsigned count, int *options, void **values, void **out) {
    (void)options, (void)values; ENTER;
    if (!CURRENT || count) return INVALID_VALUE;
    *out = calloc(1, 1 << 20), add(&live_links, 1);
    return OK;
}
int cuLinkAddData_v2(char *link, int kind, const char *text, size_t bytes, const char *name, unsigned count, int *options,
                     void **values) {
    (void)name, (void)count, (void)options, (void)values; ENTER;
    if (kind != 1 || text[bytes - 1] || !strstr(text, ".entry ")) return INVALID_PTX;
    strcpy(link, text);
    return OK;
}
int cuLinkComplete(char *link, void **image, size_t *bytes) {
    ENTER;
    *image = strcat(link, "// assembled"), *bytes = strlen(link);
    return OK;
}
int cuLinkDestroy(char *link) { ENTER; free(link), add(&live_links, -1); return OK; }
