/* Arguments that no program should pass: each is refused, and nothing is written. */
#include <stdio.h>
#include <tierloom_model.h>
#include <tierloom_region.h>

static int failures;

static void refused(int line, tl_status status)
{
    if (status != TL_INVALID_ARGUMENT || tl_last_error().len == 0) {
        fprintf(stderr, "line %d: status %d: %s\n", line, (int)status, tl_last_error().data);
        failures++;
    }
}

#define REFUSED(call) refused(__LINE__, (call))
#define EXPECT(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
            failures++; \
        } \
    } while (0)

/* A misaligned pointer to somewhere that can be written. */
static void *odd(void)
{
    static double somewhere[100];
    return (char *)somewhere + 1;
}

static void texts(const tl_machine *machine)
{
    tl_machine *loaded = NULL;
    tl_text *text = NULL;
    tl_str null_text = {NULL, 5};
    tl_str huge = {"x", SIZE_MAX};
    tl_str large = {"x", (size_t)TL_MAX_TEXT + 1};
    tl_str broken = {"\xff\xfe", 2};
    tl_prediction answer = {.size = sizeof answer};
    const tl_str wrong[] = {null_text, huge, large, broken};
    for (size_t number = 0; number < 4; number++) {
        REFUSED(tl_machine_load(wrong[number], &loaded));
        REFUSED(tl_predict_json(wrong[number], &text));
        REFUSED(tl_tune_json(wrong[number], &text));
        REFUSED(tl_predict(machine, wrong[number], tl_string(""), 0, &answer));
        REFUSED(tl_predict(machine, tl_string("probe"), wrong[number], 0, &answer));
        tl_region_options options = {.size = sizeof options};
        options.placement = wrong[number];
        tl_region *region = NULL;
        REFUSED(tl_region_create(4096, &options, &region));
        EXPECT(region == NULL);
    }
    /* Zero bytes inside a text are no end of it. */
    tl_str inside = {"nus24\0x", 7};
    EXPECT(tl_machine_load(inside, &loaded) == TL_BAD_INPUT);
    EXPECT(loaded == NULL && text == NULL);
}

static void nulls(const tl_machine *machine, const tl_region *region)
{
    tl_prediction answer = {.size = sizeof answer};
    tl_tuning tuning = {.size = sizeof tuning};
    tl_text *text = NULL;
    struct ArrowArray array;
    struct ArrowSchema schema;
    REFUSED(tl_machine_load(tl_string("nus24"), NULL));
    REFUSED(tl_machine_load(tl_string("nus24"), odd()));
    REFUSED(tl_machine_yaml(NULL, &text));
    REFUSED(tl_machine_yaml(machine, NULL));
    REFUSED(tl_machine_yaml(odd(), &text));
    REFUSED(tl_predict(NULL, tl_string("probe"), tl_string(""), 0, &answer));
    REFUSED(tl_predict(machine, tl_string("probe"), tl_string(""), 0, NULL));
    REFUSED(tl_tune(NULL, tl_string("probe"), 0, &tuning));
    REFUSED(tl_tune(machine, tl_string("probe"), 0, odd()));
    REFUSED(tl_predict_json(tl_string("{\"machine\":\"nus24\",\"work\":\"probe\"}"), NULL));
    REFUSED(tl_region_create(4096, NULL, NULL));
    tl_region *made = NULL;
    REFUSED(tl_region_create(4096, odd(), &made));
    EXPECT(made == NULL);
    REFUSED(tl_region_migrate(NULL, tl_string("0"), NULL));
    REFUSED(tl_region_placement(region, NULL));
    REFUSED(tl_region_audit(region, NULL));
    REFUSED(tl_region_slice(region, 0, 1, tl_string("l"), NULL, &schema));
    REFUSED(tl_region_slice(region, 0, 1, tl_string("l"), &array, NULL));
    REFUSED(tl_region_slice(NULL, 0, 1, tl_string("l"), &array, &schema));
    REFUSED(tl_audit_pages(NULL, NULL));
    REFUSED(tl_allocator_create(NULL, NULL));
    REFUSED(tl_deallocate(NULL, NULL));
    EXPECT(tl_region_data(NULL) == NULL && tl_region_bytes(NULL) == 0);
    EXPECT(tl_text_get(NULL).len == 0 && tl_text_get(NULL).data != NULL);
    EXPECT(tl_audit_nodes(NULL) == 0 && tl_audit_method(NULL).len == 0);
    EXPECT(tl_allocate(NULL, 1, 1) == NULL && tl_reallocate(NULL, NULL, 1, 1) == NULL);
    EXPECT(text == NULL);
    tl_machine_free(NULL);
    tl_text_free(NULL);
    tl_region_free(NULL);
    tl_audit_free(NULL);
    tl_allocator_free(NULL);
}

static void sizes(const tl_machine *machine, const tl_region *region)
{
    const size_t wrong[] = {0, 1, sizeof(size_t), sizeof(tl_prediction) - 1, 4097, SIZE_MAX};
    for (size_t number = 0; number < sizeof wrong / sizeof *wrong; number++) {
        tl_prediction answer;
        memset(&answer, 0x55, sizeof answer);
        answer.size = wrong[number];
        tl_prediction before = answer;
        REFUSED(tl_predict(machine, tl_string("probe"), tl_string(""), 0, &answer));
        EXPECT(memcmp(&answer, &before, sizeof answer) == 0);
    }
    tl_migration moved = {.size = 1};
    REFUSED(tl_region_migrate(region, tl_string("0"), &moved));
    /* A program of a later version may have more fields; they have to be 0. */
    struct {
        tl_region_options known;
        uint64_t later;
    } options = {{.size = sizeof options}, 1};
    tl_region *made = NULL;
    REFUSED(tl_region_create(4096, &options.known, &made));
    options.later = 0;
    EXPECT(tl_region_create(4096, &options.known, &made) == TL_OK);
    tl_region_free(made);
    tl_allocator_options huge = {.size = sizeof huge, .chunk_bytes = SIZE_MAX};
    tl_allocator *allocator = NULL;
    REFUSED(tl_allocator_create(&huge, &allocator));
    EXPECT(tl_allocator_create(NULL, &allocator) == TL_OK);
    EXPECT(tl_allocate(allocator, SIZE_MAX, 8) == NULL);
    EXPECT(tl_allocate(allocator, 8, 3) == NULL && tl_allocate(allocator, 8, 8192) == NULL);
    int local = 0;
    REFUSED(tl_deallocate(allocator, &local));
    EXPECT(tl_reallocate(allocator, &local, 8, 8) == NULL);
    tl_allocator_free(allocator);
}

int main(void)
{
    tl_machine *machine = NULL;
    tl_region *region = NULL;
    if (tl_machine_load(tl_string("nus24"), &machine) != TL_OK
        || tl_region_create(4096, NULL, &region) != TL_OK) {
        fprintf(stderr, "%s\n", tl_last_error().data);
        return 1;
    }
    texts(machine);
    nulls(machine, region);
    sizes(machine, region);
    tl_region_free(region);
    tl_machine_free(machine);
    if (failures == 0) {
        printf("all were refused\n");
    }
    return failures != 0;
}
