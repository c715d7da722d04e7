/* Regions through C on the node that every machine has, and what it does not have. */
#include <stdio.h>
#include <tierloom_region.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, tl_last_error().data); \
            return 1; \
        } \
    } while (0)

enum { BYTES = 1 << 20 };

static int audited(const tl_region *region)
{
    tl_audit *audit = NULL;
    CHECK(tl_region_audit(region, &audit) == TL_OK);
    tl_pages pages = {.size = sizeof pages};
    CHECK(tl_audit_pages(audit, &pages) == TL_OK);
    CHECK(pages.total * pages.page_bytes == BYTES && pages.checked == pages.total);
    CHECK(pages.misplaced == 0 && pages.unknown == 0);
    CHECK(tl_audit_nodes(audit) == 1);
    tl_node_share share = {.size = sizeof share};
    CHECK(tl_audit_node(audit, 0, &share) == TL_OK);
    CHECK(share.node == 0 && share.requested == 1 && share.actual == 1);
    CHECK(tl_audit_node(audit, 1, &share) == TL_INVALID_ARGUMENT);
    CHECK(tl_audit_method(audit).len > 0);
    tl_text *json = NULL;
    CHECK(tl_audit_json(audit, &json) == TL_OK);
    CHECK(strstr(tl_text_get(json).data, "\"pages_total\"") != NULL);
    tl_text_free(json);
    tl_audit_free(audit);
    return 0;
}

static int sliced(tl_region *region)
{
    int64_t *values = tl_region_data(region);
    for (int64_t number = 0; number < 100; number++) {
        values[number] = number * number;
    }
    struct ArrowArray array;
    struct ArrowSchema schema;
    CHECK(tl_region_slice(region, 80, 90, tl_string("l"), &array, &schema) == TL_OK);
    tl_region_free(region);
    const int64_t *seen = (const int64_t *)array.buffers[1] + array.offset;
    CHECK(array.length == 90 && array.null_count == 0 && seen[0] == 100 && seen[89] == 99 * 99);
    CHECK(strcmp(schema.format, "l") == 0);
    schema.release(&schema);
    array.release(&array);
    CHECK(array.release == NULL && schema.release == NULL);
    return 0;
}

static int missing(void)
{
    tl_region_options options = {.size = sizeof options};
    tl_region *region = NULL;
    options.placement = tl_string("4095");
    CHECK(tl_region_create(BYTES, &options, &region) == TL_UNAVAILABLE);
    CHECK(strstr(tl_last_error().data, "tierloom topology") != NULL);
    options.placement = tl_string("hbm");
    CHECK(tl_region_create(BYTES, &options, &region) == TL_UNAVAILABLE);
    CHECK(strstr(tl_last_error().data, "no hbm tier") != NULL);
    options.placement = tl_string("0:");
    CHECK(tl_region_create(BYTES, &options, &region) == TL_BAD_INPUT);
    options.placement = tl_string("0");
    options.page_size = tl_string("3k");
    CHECK(tl_region_create(BYTES, &options, &region) == TL_BAD_INPUT);
    options.page_size = tl_string("");
    options.tiers = tl_string("dram=77");
    CHECK(tl_region_create(BYTES, &options, &region) == TL_BAD_INPUT);
    options.tiers = tl_string("");
    CHECK(tl_region_create(0, &options, &region) == TL_BAD_INPUT);
    CHECK(tl_region_create((size_t)1 << 50, &options, &region) == TL_NO_MEMORY);
    CHECK(tl_region_create(SIZE_MAX, &options, &region) == TL_INVALID_ARGUMENT);
    CHECK(region == NULL);
    return 0;
}

static int allocated(void)
{
    tl_allocator_options options = {.size = sizeof options};
    options.placement = tl_string("0");
    options.limit_bytes = (size_t)64 << 20;
    tl_allocator *allocator = NULL;
    CHECK(tl_allocator_create(&options, &allocator) == TL_OK);
    tl_audit *audit = NULL;
    CHECK(tl_allocator_audit(allocator, &audit) == TL_BAD_INPUT && audit == NULL);
    char *small = tl_allocate(allocator, 100, 64);
    char *large = tl_allocate(allocator, (size_t)20 << 20, 0);
    CHECK(small != NULL && large != NULL && (uintptr_t)small % 64 == 0);
    memset(small, 1, 100);
    memset(large, 2, (size_t)20 << 20);
    small = tl_reallocate(allocator, small, 200, 64);
    CHECK(small != NULL && small[0] == 1 && small[99] == 1);
    CHECK(tl_allocate(allocator, (size_t)60 << 20, 0) == NULL);
    CHECK(strstr(tl_last_error().data, "limit_bytes") != NULL);
    tl_usage usage = {.size = sizeof usage};
    CHECK(tl_allocator_usage(allocator, &usage) == TL_OK);
    CHECK(usage.allocations == 2 && usage.allocated_bytes == 200 + (20 << 20));
    CHECK(tl_allocator_audit(allocator, &audit) == TL_OK);
    tl_audit_free(audit);
    CHECK(tl_deallocate(allocator, large) == TL_OK);
    CHECK(tl_deallocate(allocator, large) == TL_INVALID_ARGUMENT);
    CHECK(tl_deallocate(allocator, small) == TL_OK && tl_deallocate(allocator, NULL) == TL_OK);
    tl_allocator_free(allocator);
    return 0;
}

int main(void)
{
    tl_region_options options = {.size = sizeof options};
    options.name = tl_string("column");
    options.placement = tl_string("0");
    options.threads = 2;
    tl_region *region = NULL;
    CHECK(tl_region_create(BYTES - 5, &options, &region) == TL_OK);
    CHECK(tl_region_bytes(region) == BYTES);
    memset(tl_region_data(region), 7, BYTES);
    if (audited(region) != 0) {
        return 1;
    }
    tl_migration moved = {.size = sizeof moved};
    CHECK(tl_region_migrate(region, tl_string("0"), &moved) == TL_OK);
    CHECK(moved.pages == BYTES / 4096 && moved.failed == 0);
    CHECK(tl_region_migrate(region, tl_string("4095"), NULL) == TL_UNAVAILABLE);
    tl_text *placement = NULL;
    CHECK(tl_region_placement(region, &placement) == TL_OK);
    CHECK(strcmp(tl_text_get(placement).data, "0") == 0);
    tl_text_free(placement);
    if (sliced(region) != 0 || missing() != 0 || allocated() != 0) {
        return 1;
    }
    printf("regions are as they should be\n");
    return 0;
}
