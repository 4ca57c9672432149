/* The books of the fake driver: who called what from where, and what is to fail; a part of fake_driver.c.

   A call is known by its name, and by the place in the caller's code that it returns to. */

typedef struct { const char *name; long count, fail_at; int status; } Call;
typedef struct { const char *name; void *from; long count; } Site;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Call calls[CALLS];
static Site sites[SITES];
static int is_eager, lasting, pending, on_default, process;
static long counted;
static void *destroyed;                                             /* a context that is no more */
static void *captured;                                              /* a stream whose work is recorded, or NULL */
static __thread void *stack[16];
static __thread int depth;
#define CURRENT (depth ? stack[depth - 1] : NULL)

static Call *call(const char *name) {
    for (int i = 0; i < CALLS; ++i) {
        if (!calls[i].name) calls[i].name = strdup(name);
        if (!strcmp(calls[i].name, name)) return &calls[i];
    }
    return NULL;
}
static void visit(const char *name, void *from) {
    for (int i = 0; i < SITES; ++i) {
        if (!sites[i].name) sites[i].name = name, sites[i].from = from;
        if (sites[i].from == from) { ++sites[i].count; return; }
    }
}
/* Count this call; the status it must fail with, or 0. After a lasting error every call has it; what a launch
   has broken (pending) is told by the next call that waits. A forked child has no driver. */
static int enter(const char *name, void *from) {
    if (!process) process = getpid();
    if (process != getpid()) return strncmp(name, "cuGetError", 10) ? NOT_INITIALIZED : OK;
    pthread_mutex_lock(&lock);
    Call *c = call(name);
    int is_text = !strncmp(name, "cuGetError", 10), told = is_text ? 0 : lasting;
    ++counted, ++c->count, visit(name, from);
    if (c->count == c->fail_at) told = c->status;
    if (pending && strstr(name, "Synchronize")) told = lasting = pending;
    if (!told && !is_text && destroyed && CURRENT == destroyed && strncmp(name, "cuCtx", 5)) told = CONTEXT_IS_DESTROYED;
    if (!told && captured && (strstr(name, "Synchronize") || strstr(name, "Alloc") || strstr(name, "Load")))
        told = IS_CAPTURED;
    pthread_mutex_unlock(&lock);
    return told;
}
#define ENTER do { int failed = enter(__func__, __builtin_return_address(0)); \
                   if (failed) return failed; } while (0)
#define ON(stream) do { if (!(stream)) __atomic_add_fetch(&on_default, 1, 5); } while (0)

void fake_reset(void) {
    for (int i = 0; i < CALLS; ++i) calls[i].count = calls[i].fail_at = 0;
    for (int i = 0; i < SITES; ++i) sites[i].count = 0;
    is_eager = lasting = pending = on_default = 0, counted = 0, destroyed = captured = NULL;
}
long fake_count(const char *name) { return call(name)->count; }
long fake_counted(void) { return counted; }                         /* calls of all functions */
int fake_on_default(void) { return on_default; }                    /* work that was given to stream 0 */
void fake_fail(const char *name, long nth, int status) {
    Call *c = call(name);
    c->count = 0, c->fail_at = nth, c->status = status;
}
void fake_last_for_ever(int status) { lasting = status; }           /* 0: as if nothing had been */
void fake_eager(int times) { is_eager = times; }                    /* threads take turns at launches */
int fake_depth(void) { return depth; }
void fake_push(void *context) { stack[depth++] = context; }         /* another library in this thread */
void fake_pop(void) { depth -= depth > 0; }
/* Called: the names, and how many places in the callers' code each was called from. */
int fake_called(int i, const char **name, long *count, int *places) {
    if (i >= CALLS || !calls[i].name) return 0;
    *name = calls[i].name, *count = calls[i].count, *places = 0;
    for (int j = 0; j < SITES && sites[j].name; ++j) *places += !strcmp(sites[j].name, *name);
    return 1;
}
