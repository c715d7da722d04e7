/*
 * Memory that is placed on the nodes of this machine.
 *
 * docs/c.md explains it. Generated from crates/capi: change it there.
 */

#ifndef TIERLOOM_REGION_H
#define TIERLOOM_REGION_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "tierloom_common.h"
/* The structs of Arrow's C data interface, as its specification asks every user to declare them. */
#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

struct ArrowSchema {
    const char *format;
    const char *name;
    const char *metadata;
    int64_t flags;
    int64_t n_children;
    struct ArrowSchema **children;
    struct ArrowSchema *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

struct ArrowArray {
    int64_t length;
    int64_t null_count;
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

#endif /* ARROW_C_DATA_INTERFACE */

/**
 * The strictest alignment that an allocation can have.
 */
#define TL_MAX_ALIGN 4096

/**
 * An allocator over memory with a placement; freed with `tl_allocator_free`.
 *
 * All threads may use one at once; its functions wait for each other.
 */
typedef struct tl_allocator tl_allocator;

/**
 * Where pages were when it was made; freed with `tl_audit_free`.
 *
 * It never changes, so several threads may use one at once.
 */
typedef struct tl_audit tl_audit;

/**
 * Memory with a placement; freed with `tl_region_free`.
 *
 * Several threads may use one at once. What they write into the memory is theirs to order.
 */
typedef struct tl_region tl_region;

/**
 * How a region is made; see `tl_region_create`. A field of 0 or an empty text is the default.
 */
typedef struct {
    /**
     * Set to `sizeof(tl_region_options)`.
     */
    size_t size;
    /**
     * Name in messages; default `region`.
     */
    tl_str name;
    /**
     * Where its pages go: a node (`0`), a tier (`cxl`), weights (`3:2`, `dram:3,cxl:2`,
     * `0:3,2:2`) or shares (`0=70%,2=30%`). By default the kernel chooses.
     */
    tl_str placement;
    /**
     * Size of its pages: `4k` (default), `thp`, `2m` or `1g`. It is the unit of placement.
     */
    tl_str page_size;
    /**
     * Which nodes are which tier, as in `dram=0,1;cxl=2-5`. By default what the system reports.
     */
    tl_str tiers;
    /**
     * Threads that touch the pages; by default one per CPU.
     */
    uint32_t threads;
    /**
     * 0; for later versions.
     */
    uint32_t reserved;
} tl_region_options;

/**
 * What a migration did; see `tl_region_migrate`.
 */
typedef struct {
    /**
     * Set to `sizeof(tl_migration)` before the call.
     */
    size_t size;
    /**
     * Pages of the region.
     */
    uint64_t pages;
    /**
     * Pages that were moved.
     */
    uint64_t moved;
    /**
     * Pages that were where they belong already.
     */
    uint64_t already_there;
    /**
     * Pages that could not be moved and are where they were.
     */
    uint64_t failed;
    /**
     * Pages that nobody has touched since they were given back or swapped out.
     */
    uint64_t absent;
} tl_migration;

/**
 * The share of one node; see `tl_audit_node`.
 */
typedef struct {
    /**
     * Set to `sizeof(tl_node_share)` before the call.
     */
    size_t size;
    /**
     * Number of the node.
     */
    uint32_t node;
    /**
     * 0; for later versions.
     */
    uint32_t reserved;
    /**
     * Share of the pages that the placement asks for, 0 to 1; not a number (`isnan`) where the
     * kernel chooses.
     */
    double requested;
    /**
     * Share of the checked pages that are there, 0 to 1.
     */
    double actual;
} tl_node_share;

/**
 * The pages of an audit in numbers; see `tl_audit_pages`.
 */
typedef struct {
    /**
     * Set to `sizeof(tl_pages)` before the call.
     */
    size_t size;
    /**
     * Bytes of one page as counted here.
     */
    uint64_t page_bytes;
    /**
     * Pages of the memory.
     */
    uint64_t total;
    /**
     * Pages that the kernel was asked about.
     */
    uint64_t checked;
    /**
     * Of these, pages on another node than the placement gives to that very page.
     */
    uint64_t misplaced;
    /**
     * Of these, pages that are not present.
     */
    uint64_t absent;
    /**
     * Of these, pages for which the kernel returned an error.
     */
    uint64_t unknown;
} tl_pages;

/**
 * How an allocator is made; see `tl_allocator_create`. A field of 0 or an empty text is the
 * default.
 */
typedef struct {
    /**
     * Set to `sizeof(tl_allocator_options)`.
     */
    size_t size;
    /**
     * Name in messages; default `allocator`.
     */
    tl_str name;
    /**
     * As in `tl_region_options`.
     */
    tl_str placement;
    /**
     * As in `tl_region_options`.
     */
    tl_str page_size;
    /**
     * As in `tl_region_options`.
     */
    tl_str tiers;
    /**
     * Memory that is taken from the system at a time; default 16 MiB. Allocations of half of it
     * and more get memory of their own, which goes back to the system when they are freed.
     */
    size_t chunk_bytes;
    /**
     * The most memory to take from the system; by default there is no limit.
     */
    size_t limit_bytes;
    /**
     * Threads that touch new pages; by default one per CPU.
     */
    uint32_t threads;
    /**
     * 0; for later versions.
     */
    uint32_t reserved;
} tl_allocator_options;

/**
 * What an allocator has given out; see `tl_allocator_usage`.
 */
typedef struct {
    /**
     * Set to `sizeof(tl_usage)` before the call.
     */
    size_t size;
    /**
     * Allocations that were not freed.
     */
    uint64_t allocations;
    /**
     * Their bytes, as they were asked for.
     */
    uint64_t allocated_bytes;
    /**
     * Memory that was taken from the system.
     */
    uint64_t reserved_bytes;
} tl_usage;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Reserves memory and puts its pages where the placement says. The bytes are 0.
 *
 * `bytes` is rounded up to whole pages. Null for `options` means all defaults. A node or tier that
 * this machine does not have is `TL_UNAVAILABLE`, too little free memory there `TL_NO_MEMORY`;
 * nothing is left behind then.
 *
 * # Safety
 * `options` and its texts can be read, and a pointer can be written to `region`.
 */
tl_status tl_region_create(size_t bytes, const tl_region_options *options, tl_region **region);

/**
 * The first byte of a region, aligned to its pages; null for no region.
 *
 * # Safety
 * `region` is null or a region that is not freed meanwhile.
 */
void *tl_region_data(const tl_region *region);

/**
 * Size of a region in bytes, in whole pages; 0 for no region.
 *
 * # Safety
 * `region` is null or a region that is not freed meanwhile.
 */
size_t tl_region_bytes(const tl_region *region);

/**
 * Where the pages of a region are wanted, as a placement with node numbers.
 *
 * # Safety
 * `region` is a region, and a pointer can be written to `placement`.
 */
tl_status tl_region_placement(const tl_region *region, tl_text **placement);

/**
 * Moves the pages of a region to another placement, and waits until that is done.
 *
 * The memory can be read and written meanwhile. Pages that the kernel does not move are counted in
 * `migration`, which may be null, and are no failure of the call. Migrations of one region wait
 * for each other.
 *
 * # Safety
 * `region` is a region, the text can be read, and `migration` is null or can be written.
 */
tl_status tl_region_migrate(const tl_region *region, tl_str placement, tl_migration *migration);

/**
 * Asks the kernel where each page of a region is.
 *
 * # Safety
 * `region` is a region, and a pointer can be written to `audit`.
 */
tl_status tl_region_audit(const tl_region *region, tl_audit **audit);

/**
 * Frees a region; null is fine. Its memory stays mapped until the last slice of it is released.
 *
 * # Safety
 * `region` is null or a region whose handle and, but for slices, memory nobody uses any more.
 */
void tl_region_free(tl_region *region);

/**
 * Number of nodes that have pages of the memory, or should have some; 0 for no audit.
 *
 * # Safety
 * `audit` is null or an audit that is not freed meanwhile.
 */
size_t tl_audit_nodes(const tl_audit *audit);

/**
 * The share of a node, for numbers below `tl_audit_nodes`; nodes ascend.
 *
 * # Safety
 * `audit` is an audit, and `share` can be written.
 */
tl_status tl_audit_node(const tl_audit *audit, size_t index, tl_node_share *share);

/**
 * The pages of an audit in numbers.
 *
 * # Safety
 * `audit` is an audit, and `pages` can be written.
 */
tl_status tl_audit_pages(const tl_audit *audit, tl_pages *pages);

/**
 * How the nodes were found out: a query of the kernel, or a deduction with its reason.
 *
 * The text is valid until the audit is freed. It has no zero byte at its end.
 *
 * # Safety
 * `audit` is null or an audit that is not freed meanwhile.
 */
tl_str tl_audit_method(const tl_audit *audit);

/**
 * The audit as JSON, as records of `tierloom` have it.
 *
 * # Safety
 * `audit` is an audit, and a pointer can be written to `json`.
 */
tl_status tl_audit_json(const tl_audit *audit, tl_text **json);

/**
 * Frees an audit; null is fine.
 *
 * # Safety
 * `audit` is null or an audit that nobody uses any more.
 */
void tl_audit_free(tl_audit *audit);

/**
 * Gives a part of a region as an array without nulls, for any library with Arrow's C data
 * interface. Nothing is copied.
 *
 * The array has `length` values and starts `offset` bytes into the region, which has to be a
 * multiple of a value's size. `format` is the type as Arrow's interface writes it, of fixed width:
 * `l` for 64-bit integers, `g` for doubles, `C` for bytes, and so on.
 *
 * Array and schema each have a release callback, which their new owner calls. The region's memory
 * stays mapped until the array is released, also after `tl_region_free`. Readers take an array for
 * constant: do not write that part of the region as long as somebody may read it.
 *
 * # Safety
 * `region` is a region, the text can be read, and `array` and `schema` can be written. What they
 * hold is overwritten, not released.
 */
tl_status tl_region_slice(const tl_region *region,
                          size_t offset,
                          size_t length,
                          tl_str format,
                          struct ArrowArray *array,
                          struct ArrowSchema *schema);

/**
 * Makes an allocator. It takes memory from the system with the first allocation.
 *
 * A placement that this machine does not have is refused here; too little free memory shows when
 * memory is allocated. Null for `options` means all defaults.
 *
 * # Safety
 * `options` and its texts can be read, and a pointer can be written to `allocator`.
 */
tl_status tl_allocator_create(const tl_allocator_options *options, tl_allocator **allocator);

/**
 * Allocates memory; null if that fails.
 *
 * `align` is a power of two up to `TL_MAX_ALIGN`, or 0 for that of `max_align_t`. Nothing is said
 * about the bytes. An allocation of 0 bytes has a pointer of its own, too.
 *
 * # Safety
 * `allocator` is null or an allocator that is not freed meanwhile.
 */
void *tl_allocate(const tl_allocator *allocator, size_t bytes, size_t align);

/**
 * Changes the size of an allocation, which may move; null if that fails, and the allocation is as
 * it was.
 *
 * The bytes up to the smaller size are kept. Null for `memory` allocates. `align` is that of the
 * new allocation.
 *
 * # Safety
 * `allocator` is null or an allocator that is not freed meanwhile, and nobody uses the bytes of
 * `memory` during the call.
 */
void *tl_reallocate(const tl_allocator *allocator, void *memory, size_t bytes, size_t align);

/**
 * Frees an allocation; null is fine. A pointer that is none of the allocator's, or was freed
 * before, is refused.
 *
 * # Safety
 * `allocator` is an allocator that is not freed meanwhile, and nobody uses the bytes any more.
 */
tl_status tl_deallocate(const tl_allocator *allocator, void *memory);

/**
 * What an allocator has given out.
 *
 * # Safety
 * `allocator` is an allocator that is not freed meanwhile, and `usage` can be written.
 */
tl_status tl_allocator_usage(const tl_allocator *allocator, tl_usage *usage);

/**
 * Asks the kernel where the memory of an allocator is, used or not.
 *
 * # Safety
 * `allocator` is an allocator that is not freed meanwhile, and a pointer can be written to
 * `audit`.
 */
tl_status tl_allocator_audit(const tl_allocator *allocator, tl_audit **audit);

/**
 * Frees an allocator with all of its memory; null is fine.
 *
 * # Safety
 * `allocator` is null or an allocator that nobody uses any more, nor memory of it.
 */
void tl_allocator_free(tl_allocator *allocator);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TIERLOOM_REGION_H */
