/* The tensor maps of the fake driver; a part of fake_driver.c. */

/* A map keeps what it was made from; the rules are those of the driver's manual. */
typedef struct {
    uint64_t address;
    uint32_t type, rank, swizzle, fill;
    uint64_t dims[5], strides[4];
    uint16_t box[5];
    uint8_t steps[5];
    int8_t lower[3], upper[3];
} Map;
_Static_assert(sizeof(Map) <= 128, "cuda.h");
static int map_of(Map *map, int type, unsigned rank, void *address, const uint64_t *dims,
                  const uint64_t *strides, const uint32_t *steps, int interleave, int swizzle, int fill,
                  unsigned row) {
    static const int bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2};
    if (!CURRENT) return INVALID_CONTEXT;
    if ((uintptr_t)map % 64 || (uintptr_t)address % 16 || rank < 1 || rank > 5 || type > 9 || interleave)
        return INVALID_VALUE;
    if (row * bytes[type] % 16 || (swizzle && (int)row * bytes[type] > 16 << swizzle)) return INVALID_VALUE;
    memset(map, 0, 128);
    map->address = (uintptr_t)address, map->type = type, map->rank = rank;
    map->swizzle = swizzle, map->fill = fill;
    for (unsigned i = 0; i < rank; ++i) {
        if (!dims[i] || dims[i] > 1ull << 32 || !steps[i] || steps[i] > 8) return INVALID_VALUE;
        if (i < rank - 1 && (strides[i] % 16 || strides[i] >> 40)) return INVALID_VALUE;
        map->dims[i] = dims[i], map->steps[i] = steps[i];
        if (i < rank - 1) map->strides[i] = strides[i];
    }
    return OK;
}
int cuTensorMapEncodeTiled(Map *map, int type, unsigned rank, void *address, const uint64_t *dims,
                           const uint64_t *strides, const uint32_t *box, const uint32_t *steps,
                           int interleave, int swizzle, int l2, int fill) {
    (void)l2; ENTER;
    int status = map_of(map, type, rank, address, dims, strides, steps, interleave, swizzle, fill, box[0]);
    for (unsigned i = 0; !status && i < rank; ++i) {
        if (!box[i] || box[i] > 256) return INVALID_VALUE;
        map->box[i] = box[i];
    }
    return status;
}
int cuTensorMapEncodeIm2col(Map *map, int type, unsigned rank, void *address, const uint64_t *dims,
                            const uint64_t *strides, const int *lower, const int *upper, unsigned channels,
                            unsigned pixels, const uint32_t *steps, int interleave, int swizzle, int l2,
                            int fill) {
    (void)l2; ENTER;
    if (rank < 3 || !channels || channels > 256 || !pixels || pixels > 1024) return INVALID_VALUE;
    int status = map_of(map, type, rank, address, dims, strides, steps, interleave, swizzle, fill, channels);
    for (unsigned i = 0; !status && i < rank - 2; ++i) {
        if (lower[i] < -128 || lower[i] > 127 || upper[i] < -128 || upper[i] > 127) return INVALID_VALUE;
        map->lower[i] = lower[i], map->upper[i] = upper[i];
    }
    if (!status) map->box[0] = channels, map->box[1] = pixels;
    return status;
}
int cuTensorMapReplaceAddress(Map *map, void *address) {
    ENTER;
    if ((uintptr_t)map % 64 || (uintptr_t)address % 16) return INVALID_VALUE;
    map->address = (uintptr_t)address;
    return OK;
}
