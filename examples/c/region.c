/* Places memory, asks the kernel where it is, moves it, and looks again. */
#include <stdio.h>
#include <tierloom_region.h>

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, tl_last_error().data);
    return 1;
}

static int show(const tl_region *region)
{
    tl_audit *audit;
    if (tl_region_audit(region, &audit) != TL_OK) {
        return failed("audit");
    }
    for (size_t index = 0; index < tl_audit_nodes(audit); index++) {
        tl_node_share share = {.size = sizeof share};
        if (tl_audit_node(audit, index, &share) == TL_OK) {
            printf("node %u has %.1f%% of the pages\n", share.node, 100.0 * share.actual);
        }
    }
    tl_audit_free(audit);
    return 0;
}

int main(int count, char **arguments)
{
    /* A node, a tier or weights, such as 0, cxl, 3:2 or 0:3,2:2. */
    const char *from = count > 1 ? arguments[1] : "0";
    const char *to = count > 2 ? arguments[2] : from;
    tl_region_options options = {.size = sizeof options};
    options.placement = tl_string(from);
    tl_region *region;
    if (tl_region_create(64 << 20, &options, &region) != TL_OK) {
        return failed("create");
    }
    double *values = tl_region_data(region);
    values[0] = 1.5;
    int ended = show(region);
    tl_migration moved = {.size = sizeof moved};
    if (tl_region_migrate(region, tl_string(to), &moved) != TL_OK) {
        ended = failed("migrate");
    } else {
        printf("moved %llu of %llu pages\n", (unsigned long long)moved.moved,
               (unsigned long long)moved.pages);
        ended |= show(region);
    }
    tl_region_free(region);
    return ended;
}
